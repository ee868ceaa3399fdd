// Package controlplane runs a real etcd and kube-apiserver, for tests and for the demonstration.
//
// Both are built once from their Go modules (build/etcd, build/kube-apiserver: modules of their own, so that the operator
// does not inherit their dependencies) and cached per version outside the work tree. Nothing is downloaded but Go modules.
//
// No controllers run: nobody creates default service accounts, marks nodes ready, or collects garbage.
package controlplane
