package pool

// What the manager may do, and nothing else: `make manifests` turns the markers
// into config/rbac/role.yaml. The demonstration and the e2e tests run with
// exactly these rights.
//
// The object itself. Its name is fixed, and with it everything but list and watch.
// +kubebuilder:rbac:groups=rrpool.io,resources=routereflectorpools,verbs=list;watch
// +kubebuilder:rbac:groups=rrpool.io,resources=routereflectorpools,resourceNames=default,verbs=get;patch
// +kubebuilder:rbac:groups=rrpool.io,resources=routereflectorpools/status,resourceNames=default,verbs=patch
//
// Nodes: role label and cluster ID are set in one merge patch, and so are the pool
// label of existing nodes, the rack of a client, and a cordon. Never nodes/status.
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch;patch
//
// Pods, where existing nodes reflect: how many run on a node, and eviction from one
// that is to become a reflector (promotion: Drain). PodDisruptionBudgets hold.
// Of calico-node's pods, in kube-system and calico-system, a watch shows which are
// Ready: the second namespace may not exist, so no Role in it could be made.
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
//
// Calico. Of the BGPConfigurations, only the default one is ever written.
// +kubebuilder:rbac:groups=crd.projectcalico.org,resources=bgppeers,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=crd.projectcalico.org,resources=bgpconfigurations,verbs=list;watch;create
// +kubebuilder:rbac:groups=crd.projectcalico.org,resources=bgpconfigurations,resourceNames=default,verbs=get;update;delete
// +kubebuilder:rbac:groups=crd.projectcalico.org,resources=caliconodestatuses,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=crd.projectcalico.org,resources=blockaffinities,verbs=list;watch
//
// The cluster's own id on IKS.
// +kubebuilder:rbac:groups="",namespace=kube-system,resources=configmaps,resourceNames=cluster-info,verbs=get
//
// Credentials and the lease, in the manager's own namespace.
// +kubebuilder:rbac:groups="",namespace=rrpool-system,resources=secrets,verbs=list;watch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=rrpool-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=rrpool-system,resources=leases,resourceNames=rrpool-manager,verbs=get;update
//
// Events: those about the object, which has no namespace, are kept in default;
// those about the lease in its own.
// +kubebuilder:rbac:groups=events.k8s.io,namespace=default,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",namespace=rrpool-system,resources=events,verbs=create
//
// Who may read the metrics is for the apiserver to say.
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
