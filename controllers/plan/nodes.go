package plan

import (
	"slices"
	"time"
)

// Filter returns a new slice of the elements that match.
func Filter[T any](all []T, matches func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !matches(one) })
}

// First returns the first element that matches; ok is false if there is none.
func First[T any](all []T, matches func(T) bool) (one T, ok bool) {
	i := slices.IndexFunc(all, matches)
	if i < 0 {
		return one, false
	}
	return all[i], true
}

// Others returns the nodes except the node with the name of self.
func Others(nodes []Node, self Node) []Node {
	return Filter(nodes, func(n Node) bool { return n.Name != self.Name })
}

// Includes reports whether one of the nodes has the name of n.
func Includes(nodes []Node, n Node) bool {
	return slices.ContainsFunc(nodes, func(x Node) bool { return x.Name == n.Name })
}

// IsLost reports whether a node is being deleted, or has been NotReady for the grace.
func IsLost(n Node, notReadyFor, grace time.Duration) bool {
	return n.Deleting || !n.Ready && notReadyFor >= grace
}

// Latest returns the latest of some times.
func Latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// Sooner returns the shorter of two waits. If one of them is 0, which means no wait, it returns the other.
func Sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
