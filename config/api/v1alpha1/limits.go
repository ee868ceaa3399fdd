package v1alpha1

// How many clients a reflector serves where spec.topology.maxClientsPerReflector is left
// out. Measured with one BIRD that comes up while all of them wait: docs/capacity.md.
const (
	// MaxClientsDedicated is for nodes that do nothing but reflect.
	MaxClientsDedicated = 2000
	// MaxClientsShared is for nodes that run workloads as well.
	MaxClientsShared = 500
)
