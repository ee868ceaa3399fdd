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

// Profile is how the server behaves where IBM's documents leave something open.
type Profile string

// The profiles.
const (
	// Documented: answers are whole, and show every change at once. The default.
	Documented Profile = "documented"
	// Sparse: answers hold nothing but what a caller cannot do without, listings of pools
	// hold ids, names and states alone, and no answer holds taints.
	Sparse Profile = "sparse"
	// Slow: reading requests are answered by replicas in turn, which lag behind by seconds to minutes, so changes show late and come and
	// go. The creation of a pool is answered after CreationTime. A deleted pool stays listed, and keeps its name, until its machines are
	// gone.
	Slow Profile = "slow"
	// Strict: a request has to carry the id of the cluster's resource group in the header X-Auth-Resource-Group. An empty one means the
	// account's default group "", as does none but for getCluster, which then finds a cluster of any group. Labels with keys of Kubernetes
	// are refused, and clusters whose zones are not named as those of their provider panic. Listings of pools hold ids, names and states
	// alone.
	Strict Profile = "strict"
)

// Profiles are all.
var Profiles = []Profile{Documented, Sparse, Slow, Strict}

// Chosen is the profile that RRPOOL_IKS_PROFILE names, for tests that can run on any.
func Chosen() Profile { return Profile(os.Getenv("RRPOOL_IKS_PROFILE")) }

// CreationTime is how long a Slow cloud takes to answer for a new pool: users have measured up to 93 s.
const CreationTime = 90 * time.Second

// lags of the replicas of a Slow cloud: less than the two minutes after which rrpool asks again for what it does not see.
var lags = []time.Duration{5 * time.Second, 100 * time.Second, 40 * time.Second}

// moment is the state as it was at a time.
type moment struct {
	at       time.Time
	clusters []*cluster
}

// remember keeps the state of a Slow cloud for its replicas, as long as one of them can be that far behind.
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

// replica gives the state that the next reading request is answered from.
func (s *Server) replica() []*cluster {
	if s.cfg.Profile != Slow {
		return s.clusters
	}
	at := s.now().Add(-lags[s.reads%len(lags)])
	s.reads++
	then := s.past[0] // of what is older, nobody knows
	for _, m := range s.past {
		if !m.at.After(at) {
			then = m
		}
	}
	out := copyOf(then.clusters)
	s.moveTo(out, at, false)
	return out
}

// copyOf copies all that changes. Maps do not: they are replaced.
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

// listing leaves in a listing's pool what the profile does.
func (s *Server) listing(pool map[string]any) map[string]any {
	if s.cfg.Profile == Sparse || s.cfg.Profile == Strict {
		only(pool, "id", "name", "poolName", "state", "lifecycle")
	}
	return pool
}

// sparse leaves in an answer of a Sparse cloud only these keys, and of them those that are not empty.
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

// only leaves these keys in an answer.
func only(m map[string]any, keys ...string) {
	maps.DeleteFunc(m, func(k string, _ any) bool { return !slices.Contains(keys, k) })
}

// named panics at a zone that is not named as a Strict cloud's are (us-south-1, dal10): a test gave it.
func (s *Server) named(c *cluster, zone string) {
	form := `^[a-z]{3}\d{2}$`
	if c.Provider == VPC {
		form = "^" + c.Region + "-[1-9]$"
	}
	if s.cfg.Profile == Strict && !regexp.MustCompile(form).MatchString(zone) {
		panic(fmt.Sprintf("%s clusters have no zone %q", c.Provider, zone))
	}
}

// labelled refuses labels that kubelets refuse, as far as a Strict cloud does.
func (s *Server) labelled(labels map[string]string) *refusal {
	for key := range labels {
		domain, _, _ := strings.Cut("."+key, "/")
		if s.cfg.Profile == Strict && (strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io")) {
			return refuse(http.StatusBadRequest, "E9014", "BadRequest", "The label %s is reserved.", key)
		}
	}
	return nil
}
