package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Gate is the kind of proof a step waits for.
// +kubebuilder:validation:Enum=Sessions;Timer
type Gate string

// The gates.
const (
	// GateSessions waits for observed BGP sessions (CalicoNodeStatus).
	GateSessions Gate = "Sessions"
	// GateTimer waits for fixed times, where the node status reporter does not exist.
	GateTimer Gate = "Timer"
)

// RolloutSpec tunes how carefully changes are made. Times are durations such as
// 90s or 1m30s.
type RolloutSpec struct {
	// Gate is the proof that a step waits for: Sessions observes BGP sessions
	// through CalicoNodeStatus; Timer waits for fixed times instead, where the
	// node status reporter does not exist.
	// +kubebuilder:default=Sessions
	Gate Gate `json:"gate,omitempty"`
	// SessionTimeout is how long sessions may take before the step is reported as
	// stuck. Nothing is undone, and nothing is removed.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) > duration('0s')",message="must be a positive duration, such as 90s or 1m30s"
	SessionTimeout metav1.Duration `json:"sessionTimeout,omitzero"`
	// NotReadyGrace is how long a reflector may be NotReady before it is replaced.
	// +kubebuilder:default="60s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) > duration('0s')",message="must be a positive duration, such as 90s or 1m30s"
	NotReadyGrace metav1.Duration `json:"notReadyGrace,omitzero"`
	// SafetyNet says when the mesh is switched on because too few reflectors serve.
	// +kubebuilder:default={}
	SafetyNet SafetyNetSpec `json:"safetyNet,omitzero"`
	// RemovalDelay is the least time between a replacement's sessions being
	// Established and the old reflector's removal.
	// +kubebuilder:default="60s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) > duration('0s')",message="must be a positive duration, such as 90s or 1m30s"
	RemovalDelay metav1.Duration `json:"removalDelay,omitzero"`
}

// SafetyNetSpec says when the mesh is switched on because too few reflectors serve.
type SafetyNetSpec struct {
	// MinServing is the number of serving reflectors below which the mesh is
	// switched on. Where fewer reflectors are wanted, it is their number.
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=25
	MinServing int32 `json:"minServing,omitempty"`
	// After is how long too few must have served. While one serves it is at most
	// 5 seconds, and where none serves there is no wait.
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) > duration('0s')",message="must be a positive duration, such as 90s or 1m30s"
	After metav1.Duration `json:"after,omitzero"`
}
