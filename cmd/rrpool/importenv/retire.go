package importenv

import (
	"fmt"
	"slices"
)

// busy are the reflectors with pods of their own.
func (w *way) busy() []Node {
	return slices.DeleteFunc(slices.Clone(w.reflectors), func(n Node) bool { return n.Pods == 0 })
}

// chooseHelper gives a node without pods, which has nothing to lose; nil where there is
// none, where nobody needs it, or where it could not help.
func (w *way) chooseHelper() *Node {
	if w.f.Multi || !w.everyone || !w.oneID() || len(w.busy()) == 0 || w.helper != nil {
		return nil
	}
	for _, nodes := range [][]Node{w.reflectors, w.ordinary} {
		for i := range nodes {
			if nodes[i].Pods == 0 && nodes[i].Ready {
				return &nodes[i]
			}
		}
	}
	return nil
}

// oneID: all reflectors have the same cluster ID.
func (w *way) oneID() bool {
	return !slices.ContainsFunc(w.reflectors, func(n Node) bool { return n.ClusterID != w.sharedID() })
}

// retire turns one reflector after the other into an ordinary node.
func (w *way) retire() {
	for len(w.reflectors) > 0 {
		n := w.reflectors[0]
		w.reflectors = w.reflectors[1:]
		w.ordinary = append(w.ordinary, n)
		w.add(Step{
			Title: fmt.Sprintf("Make %s an ordinary node", n.Name),
			Why:   w.whyRetire(n),
			Cost:  w.costRetire(n),
			Actions: []Action{patchNode(n.Name,
				map[string]any{w.f.Label: nil}, map[string]any{idAnnotation: nil})},
			Waits: []Wait{w.former(n)},
			Then:  w.settled(),
		})
	}
}

// settled is the pause after sessions are up, in which routes follow.
func (w *way) settled() string {
	return "10 seconds more have passed: routes follow their sessions"
}

func (w *way) whyRetire(n Node) string {
	text := "Label and cluster ID go in one write. All its sessions change their kind and restart; the ordinary nodes have the mesh meanwhile. One node at a time."
	if w.helper != nil && n.Pods != 0 {
		text += fmt.Sprintf(" Its session with %s stays as it is on both sides, and carries the routes to and from it.", w.helper.Name)
	}
	return text
}

func (w *way) costRetire(n Node) string {
	switch {
	case n.Pods == 0:
		return "none: no pod on it has an address of its own"
	case w.helper != nil:
		return "none"
	case n.Pods < 0:
		return "its own pods, if it has any with an address of their own, cannot be reached from other nodes for some seconds (2 to 5 were measured); nobody else loses anything"
	default:
		return fmt.Sprintf("its own pods (%d) cannot be reached from other nodes for some seconds (2 to 5 were measured); nobody else loses anything. "+
			"To lose nothing, drain it first (kubectl drain %s --ignore-daemonsets, later kubectl uncordon %s)", n.Pods, n.Name, n.Name)
	}
}
