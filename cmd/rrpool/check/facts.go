package check

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// facts are all that is known about a cluster. They are gathered once, and checks look
// at nothing else.
type facts struct {
	now time.Time
	// pre: rrpool is about to be installed.
	pre bool
	// context, server and namespace say where was looked. file is that of --filename.
	context, server, namespace, file string

	// version is the apiserver's.
	version string
	// snapshot is what the manager would see and do; where it is nil, blind says why.
	snapshot *snapshot.Snapshot
	blind    string
	// object is what is checked for: that of the file, of the cluster, or the defaults.
	object *v1alpha1.RouteReflectorPool

	rights  rights
	own     installed
	calico  calicoSeen
	provide provider
}

// seen is one thing that was looked for.
type seen[T any] struct {
	value T
	// found: it is there.
	found bool
	// hidden says why nobody could look, "" when somebody could.
	hidden string
}

// rights are who may do what.
type rights struct {
	// account is the manager's ServiceAccount.
	account seen[struct{}]
	// manager is what the manager lacks, user what the user lacks of the same.
	manager, user answer
	// install is what the user lacks of what installing takes. escalates: the user may
	// give away rights that he does not have.
	install   answer
	escalates bool
}

// answer is what somebody lacks of what was asked for.
type answer struct {
	asked   int
	lacking []right
	hidden  string
}

// installed is what there is of rrpool in the cluster.
type installed struct {
	definition seen[*apiextensionsv1.CustomResourceDefinition]
	// served: the apiserver knows the kind, whoever may read its definition.
	served  bool
	pool    seen[*v1alpha1.RouteReflectorPool]
	manager seen[*appsv1.Deployment]
	// holder is who holds the manager's lease; looked for where no Deployment is seen.
	holder seen[status.Manager]
}

// calicoSeen is what is known of Calico besides what the manager looks at.
type calicoSeen struct {
	// version as ClusterInformation has it.
	version seen[string]
	nodes   seen[*appsv1.DaemonSet]
	reports seen[[]report]
	pools   seen[[]ipPool]
	// routes is FelixConfiguration's programClusterRoutes, "" where it is not set.
	routes    seen[string]
	passwords []password
}

// report is a CalicoNodeStatus.
type report struct {
	node   string
	period time.Duration
	// updated is when its reporter wrote it, zero while it is blank; touched is when
	// anybody did.
	updated, touched time.Time
}

// ipPool is an IPPool.
type ipPool struct {
	name, cidr  string
	ipip, vxlan string
}

// password is a Secret that sessions take their password from.
type password struct {
	plan.SecretRef
	// field is where it is named.
	field string
	// filled: its key has a value. readable: calico-node may read it.
	filled, readable seen[bool]
}

// provider is what is known of where reflectors come from, besides what the manager
// looks at.
type provider struct {
	// key: the Secret with the API key has a value.
	key seen[bool]
	// autoscaled are the worker pools that the cluster autoscaler resizes.
	autoscaled seen[[]string]
	// info: the ConfigMap that tells the cluster's id is there.
	info seen[struct{}]
}

// timer: steps wait for fixed times, and no sessions are observed.
func (f facts) timer() bool { return f.object.Spec.Rollout.Gate == v1alpha1.GateTimer }

// iks: reflectors are workers of a pool at IBM Cloud.
func (f facts) iks() bool { return f.snapshot != nil && f.snapshot.Provider == v1alpha1.ProviderIKS }

// problem is what the datastore itself says is in the way, nil for nothing.
func (f facts) problem(reason string) *plan.Problem {
	if f.snapshot == nil {
		return nil
	}
	for i, p := range f.snapshot.Cluster.Problems {
		if p.Reason == reason {
			return &f.snapshot.Cluster.Problems[i]
		}
	}
	return nil
}

// obstacle is the reason why the provider is of no use, "" for none.
func (f facts) obstacle() string {
	if f.snapshot == nil || f.snapshot.Obstacle == nil {
		return ""
	}
	return f.snapshot.Obstacle.Reason
}
