package v1alpha1

// SizingMethod is the rule that turns a number of nodes into a number of reflectors.
// +kubebuilder:validation:Enum=PerHundred;Linear;Stepping
type SizingMethod string

// The sizing methods.
const (
	// SizingPerHundred is 3 below 100 nodes, else 3 + nodes/100 (whole hundreds).
	SizingPerHundred SizingMethod = "PerHundred"
	// SizingLinear is ceil(nodes × ratio).
	SizingLinear SizingMethod = "Linear"
	// SizingStepping is the first step whose upToNodes is not exceeded.
	SizingStepping SizingMethod = "Stepping"
)

// SizingSpec says how many route reflectors the cluster gets. The nodes counted
// are the Ready ones that speak BGP and are not in the dedicated pool.
//
// The rules ask has() although every field has a default: the apiserver also
// tries them on the default of this struct itself, {}.
// +kubebuilder:validation:XValidation:rule="!has(self.min) || !has(self.max) || self.min <= self.max",message="min must not exceed max",fieldPath=".min"
// +kubebuilder:validation:XValidation:rule="!has(self.method) || self.method != 'Stepping' || (has(self.steps) && self.steps.size() > 0)",message="method Stepping needs at least one step",fieldPath=".steps"
type SizingSpec struct {
	// Method is the rule. PerHundred is 3 below 100 nodes, else 3 and one more for
	// each whole hundred. Linear is nodes times ratio, rounded up. Stepping is the
	// first of steps that covers the nodes.
	// +kubebuilder:default=PerHundred
	Method SizingMethod `json:"method,omitempty"`
	// Ratio is reflectors per node, a decimal in (0,1], for method Linear.
	// +kubebuilder:default="0.005"
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0?[.][0-9]*[1-9][0-9]*|1([.]0+)?)$')",message="must be a decimal in (0,1], such as 0.005"
	Ratio string `json:"ratio,omitempty"`
	// Steps of method Stepping, by ascending upToNodes. Beyond the last step, the
	// last one counts.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.map(s, s.upToNodes).isSorted() && self.all(s, self.exists_one(t, t.upToNodes == s.upToNodes))",message="must ascend strictly by upToNodes"
	// +listType=atomic
	Steps []SizingStep `json:"steps,omitempty"`
	// Min is the least number of reflectors in the cluster, whatever the method says.
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	Min int32 `json:"min,omitempty"`
	// Max is the greatest number of reflectors in the cluster, whatever the method says.
	// +kubebuilder:default=25
	// +kubebuilder:validation:Minimum=1
	Max int32 `json:"max,omitempty"`
	// MinPerZone is the least number of reflectors in each zone.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	MinPerZone int32 `json:"minPerZone,omitempty"`
}

// SizingStep is one step of method Stepping.
type SizingStep struct {
	// UpToNodes is the greatest number of nodes that this step covers.
	// +kubebuilder:validation:Minimum=1
	UpToNodes int32 `json:"upToNodes"`
	// Reflectors is the number of route reflectors for that many nodes.
	// +kubebuilder:validation:Minimum=1
	Reflectors int32 `json:"reflectors"`
}
