//go:build linux

package lab

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// zones is how many availability zones Workers and Dedicated spread over: zone-1 to zone-3.
const zones = 3

// Workers describes n nodes with a pod each, spread over three zones: worker-0, worker-1 and so on.
func Workers(n int) []NodeSpec {
	specs := make([]NodeSpec, n)
	for i := range specs {
		specs[i] = NodeSpec{Name: fmt.Sprintf("worker-%d", i), Zone: fmt.Sprintf("zone-%d", i%zones+1), Pods: 1}
	}
	return specs
}

// Dedicated describes n tainted nodes without pods, spread over three zones: reflector-0, reflector-1 and so on.
func Dedicated(n int) []NodeSpec {
	specs := make([]NodeSpec, n)
	for i := range specs {
		specs[i] = NodeSpec{
			Name: fmt.Sprintf("reflector-%d", i), Zone: fmt.Sprintf("zone-%d", i%zones+1),
			Taints: []corev1.Taint{{Key: "rrpool.io/dedicated", Value: "route-reflector", Effect: corev1.TaintEffectNoExecute}},
		}
	}
	return specs
}
