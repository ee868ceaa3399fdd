package iksserver

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Profile is how the server behaves where IBM's documentation does not say.
type Profile string

// The profiles.
const (
	// Documented: responses are complete, and changes are visible at once. The default.
	Documented Profile = "documented"
	// Sparse: responses have only the fields that every caller needs. Listings of pools have ids, names and states, and no response has taints.
	Sparse Profile = "sparse"
	// Slow: replicas answer reading requests in turn. They lag by seconds to minutes, so a change is visible in some responses and not in others.
	// The creation of a pool is answered after CreationTime. A deleted pool stays listed, and keeps its name, until its machines are deleted.
	Slow Profile = "slow"
	// Strict: a request must have the id of the cluster's resource group in the header X-Auth-Resource-Group. An empty header means the account's
	// default group "". A missing one does too, but getCluster then finds a cluster of any group. Labels with keys of Kubernetes are refused, and
	// seeding panics if zones are not named as those of the provider. Listings of pools have ids, names and states.
	Strict Profile = "strict"
)

// Profiles are all profiles.
var Profiles = []Profile{Documented, Sparse, Slow, Strict}

// Chosen returns the profile that the environment variable RRPOOL_IKS_PROFILE names, for tests that can run with any.
func Chosen() Profile { return Profile(os.Getenv("RRPOOL_IKS_PROFILE")) }

// CreationTime is how long a Slow cloud takes to create a pool: users have measured up to 93 s.
const CreationTime = 90 * time.Second

// lags of the replicas of a Slow cloud: less than the two minutes after which rrpool repeats a request without visible effect.
var lags = []time.Duration{5 * time.Second, 100 * time.Second, 40 * time.Second}

// moment is the state at a time.
type moment struct {
	at       time.Time
	clusters []*cluster
}

// remember keeps the state of a Slow cloud for its replicas.
func (s *Server) remember() {
	if s.cfg.Profile != Slow {
		return
	}
	now := s.now()
	s.past = append(s.past, moment{now, copyOf(s.clusters)})
	for len(s.past) > 1 && now.Sub(s.past[1].at) >= slices.Max(lags) {
		s.past = s.past[1:]
	}
}

// replica returns the state that the next reading request is answered from.
func (s *Server) replica() []*cluster {
	if s.cfg.Profile != Slow {
		return s.clusters
	}
	at := s.now().Add(-lags[s.reads%len(lags)])
	s.reads++
	then := s.past[0] // older states are not kept
	for _, m := range s.past {
		if !m.at.After(at) {
			then = m
		}
	}
	out := copyOf(then.clusters)
	s.moveTo(out, at, false)
	return out
}

// copyOf copies clusters with pools and workers. Maps are shared: the server replaces them and never changes them.
func copyOf(clusters []*cluster) []*cluster {
	pools := func(from []*pool) []*pool {
		out := make([]*pool, len(from))
		for i, p := range from {
			one := *p
			one.zones, one.workers = slices.Clone(p.zones), make([]*worker, len(p.workers))
			for j, w := range p.workers {
				copied := *w
				one.workers[j] = &copied
			}
			out[i] = &one
		}
		return out
	}
	out := make([]*cluster, len(clusters))
	for i, c := range clusters {
		out[i] = &cluster{Cluster: c.Cluster, pools: pools(c.pools), gone: pools(c.gone)}
	}
	return out
}

// listing removes the fields of a pool that the profile does not list.
func (s *Server) listing(pool map[string]any) map[string]any {
	if s.cfg.Profile == Sparse || s.cfg.Profile == Strict {
		only(pool, "id", "name", "poolName", "state", "lifecycle")
	}
	return pool
}

// sparse removes all keys but these, and empty values, from a response of a Sparse cloud.
func (s *Server) sparse(answer map[string]any, keys ...string) map[string]any {
	if s.cfg.Profile != Sparse {
		return answer
	}
	only(answer, keys...)
	maps.DeleteFunc(answer, func(_ string, v any) bool {
		value := reflect.ValueOf(v)
		return value.IsZero() || slices.Contains([]reflect.Kind{reflect.Slice, reflect.Map}, value.Kind()) && value.Len() == 0
	})
	return answer
}

// only removes all keys but these.
func only(m map[string]any, keys ...string) {
	maps.DeleteFunc(m, func(k string, _ any) bool { return !slices.Contains(keys, k) })
}

// named panics if a Strict cloud has no zone of that name. Names are such as us-south-1 (VPC) and dal10 (classic).
func (s *Server) named(c *cluster, zone string) {
	form := `^[a-z]{3}\d{2}$`
	if c.Provider == VPC {
		form = "^" + c.Region + "-[1-9]$"
	}
	if s.cfg.Profile == Strict && !regexp.MustCompile(form).MatchString(zone) {
		panic(fmt.Sprintf("%s clusters have no zone %q", c.Provider, zone))
	}
}

// labelled refuses labels that kubelets refuse, in a Strict cloud.
func (s *Server) labelled(labels map[string]string) *refusal {
	for key := range labels {
		domain, _, _ := strings.Cut("."+key, "/")
		if s.cfg.Profile == Strict && (strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io")) {
			return refuse(http.StatusBadRequest, "E9014", "BadRequest", "The label %s is reserved.", key)
		}
	}
	return nil
}
