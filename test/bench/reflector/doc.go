// Package reflector loads one real BIRD with many synthetic clients, and measures what that costs: the time until every client has
// every prefix, BIRD's CPU, memory and the routes that it sends.
//
// BIRD is configured by Calico's own confd from Calico's own templates, as the route reflector of a cluster in the topology Single, and
// started as calico-node starts it. What differs: there is no kernel protocol, so the routes are not written into a kernel (N writes beside
// N² routes sent), and the clients are not BIRDs but a few goroutines that say in their OPEN what a BIRD on a Calico node says, announce one
// block of addresses each, and read everything. All are addresses of one loopback.
//
// The process must be inside private namespaces: see lab.Isolate.
package reflector
