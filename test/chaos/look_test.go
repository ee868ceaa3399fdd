//go:build linux

package chaos_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/rrpool/rrpool/test/lab"
)

// sight is the cluster from outside: roles from the API, sessions from each node's BIRD.
type sight struct {
	nodes   []string
	holders []string
	names   map[netip.Addr]string
	// sessions by node; none where BIRD does not answer.
	sessions map[string][]lab.Session
	// apart are two workers of which the first's kernel has no route to the second.
	apart [][2]string
}

func (s *storm) look(ctx context.Context) (*sight, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	holders, err := s.Holders(ctx)
	if err != nil {
		return nil, err
	}
	now := s.glimpse()
	now.holders = holders
	for _, a := range s.Workers {
		for _, b := range s.Workers {
			if reaches, err := s.Lab.Reaches(a, b); a != b && (err != nil || !reaches) {
				now.apart = append(now.apart, [2]string{a, b})
			}
		}
	}
	return now, nil
}

// glimpse is what can be seen without the API.
func (s *storm) glimpse() *sight {
	now := &sight{nodes: s.Lab.Nodes(), names: map[netip.Addr]string{}, sessions: map[string][]lab.Session{}}
	for _, n := range now.nodes {
		now.names[s.Lab.Address(n)] = n
		if sessions, err := s.Lab.Sessions(n); err == nil {
			now.sessions[n] = sessions
		}
	}
	return now
}

// gone: there is no such host any more.
func (s *storm) gone(node string) bool { return !slices.Contains(s.Lab.Nodes(), node) }

// sound: all is well but for those that are hit.
func (v *sight) sound(hit map[string]bool, reflectors int) error {
	for _, pair := range v.apart {
		if !hit[pair[0]] && !hit[pair[1]] {
			return fmt.Errorf("%s has no route to %s", pair[0], pair[1])
		}
	}
	whole := 0
	for _, n := range v.nodes {
		if hit[n] {
			continue
		}
		if err := v.whole(n, hit); err != nil {
			return err
		}
		if slices.Contains(v.holders, n) {
			whole++
		}
	}
	for n := range hit {
		if slices.Contains(v.holders, n) {
			whole++ // its own blow has to wait for it
		}
	}
	if whole < reflectors {
		return fmt.Errorf("%d reflectors serve, not %d", whole, reflectors)
	}
	return nil
}

// whole: a node has an Established session with every reflector, or with everybody, and none that is not.
func (v *sight) whole(node string, hit map[string]bool) error {
	up := map[string]bool{}
	for _, session := range v.sessions[node] {
		peer := v.names[session.Peer]
		known := peer != "" && !hit[peer]
		if known && !session.Established() {
			return fmt.Errorf("%s ↔ %s is %s, protocol %s", node, peer, session.State, session.ProtocolState)
		}
		up[peer] = true
	}
	delete(up, "")
	missing := slices.DeleteFunc(slices.Clone(v.holders), func(h string) bool {
		return h == node || hit[h] || up[h] || !slices.Contains(v.nodes, h)
	})
	if len(missing) > 0 {
		return fmt.Errorf("%s has no session with %s", node, strings.Join(missing, ", "))
	}
	if len(up) == 0 && len(v.nodes)-len(hit) > 1 {
		return fmt.Errorf("%s has no session with anybody", node)
	}
	return nil
}

// served counts the reflectors that a node has an Established session with.
func (v *sight) served(node string, holders []string) int {
	count := 0
	for _, session := range v.sessions[node] {
		if session.Established() && !session.Mesh() && slices.Contains(holders, v.names[session.Peer]) {
			count++
		}
	}
	return count
}
