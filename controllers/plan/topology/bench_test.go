package topology_test

import (
	"fmt"
	"testing"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// BenchmarkArrange plans a topology and simulates what comes of it: all nodes reach
// each other, also without a zone. Its growth with the nodes is what counts.
func BenchmarkArrange(b *testing.B) {
	for _, kind := range []v1alpha1.TopologyType{quorum, hierarchy} {
		for _, nodes := range []int{500, 5000, 50000} {
			b.Run(fmt.Sprintf("%s/nodes=%d", kind, nodes), func(b *testing.B) {
				w := newWorld(kind, 3).joinAll(nodes)
				w.settle(12)
				if kind == quorum {
					w.spec.MaxClients = nodes * 2 / 3
				}
				for b.Loop() {
					w.size(12)
					w.peers = w.arrange().Peers
					net := w.network()
					if len(net.Unreached(isClient)) > 0 || net.Depth(3, isClient) < 3 {
						b.Fatal("not connected")
					}
				}
			})
		}
	}
}
