// Package lab is a Calico cluster's BGP in one process tree: a network namespace per node, Calico's own confd and node status
// reporter, BIRD, a real apiserver, and probes between all pods. Nothing is simulated but the hosts.
//
// A lab lives in private network and mount namespaces: Main (for TestMain) and Isolate (for programs) re-execute the binary inside
// them. Nothing outside is touched, no privileges are needed where unprivileged user namespaces are allowed, and the kernel cleans
// up when the process dies.
//
// Pools must not be encapsulated, stock BIRD cannot do that. No kubelet, controller or scheduler runs: nodes are Ready when SetReady
// says so, and the lab itself ends pods that are evicted or deleted, makes new ones of a ReplicaSet, and finds them a node. Each node
// that runs pods has one address that the probes use.
package lab
