//go:build linux

// Package site is a whole installation in one process tree: a lab cluster whose
// nodes look like IKS workers, an IBM Cloud whose workers join that cluster as
// real hosts once they are deployed, and the manager as a process of its own
// with exactly the rights of config/rbac. Given nodes of its own, it is a cluster
// that no cloud provides: no IBM Cloud, no credentials.
//
// The process must be inside the lab's namespaces: see lab.Main and lab.Isolate.
package site
