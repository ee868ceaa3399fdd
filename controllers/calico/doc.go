// Package calico is the datastore adapter: it observes a cluster's BGP as
// Calico stores it and makes the changes that a plan asks for.
//
// BGPPeers, the BGPConfiguration, node status reports and block affinities go
// through libcalico-go, whatever the datastore. Nodes are Kubernetes Nodes: in
// the Kubernetes datastore they are Calico's nodes as well.
package calico
