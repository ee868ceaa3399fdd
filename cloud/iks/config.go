// Package iks supplies route reflector nodes from a dedicated worker pool of an
// IBM Cloud Kubernetes Service cluster, VPC or classic.
//
// Requests are built by bluemix-go, of its types. Its clients are not used: they take no context, repeat changes by
// themselves, drop status and headers of answers, and read files and variables of the environment.
package iks

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/poolplan"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/untrusted"
)

// The environment variables that override an endpoint.
const (
	CSEndpointVariable  = "IBMCLOUD_CS_API_ENDPOINT"
	IAMEndpointVariable = "IBMCLOUD_IAM_API_ENDPOINT"
)

// Config of a Provider. ClusterID, PoolName, and APIKey or Profile with TokenFile are required.
type Config struct {
	// ClusterID is the cluster's id or name.
	ClusterID string
	// PoolName is the name of rrpool's pool, in the form of spec.provider.iks.poolName.
	PoolName string
	// ResourceGroup finds the cluster, by id; empty for none. Requests about a cluster
	// that was found carry the cluster's own.
	ResourceGroup string
	// Region is needed for private endpoints ("us-south").
	Region string
	// Private takes the private endpoints instead of the public ones.
	Private bool
	// APIKey is the IBM Cloud API key.
	APIKey string
	// Profile takes the place of the key when it is set. TokenFile has the token of a
	// service account for audience iam, and changes when the kubelet renews that.
	Profile   v1alpha1.TrustedProfile
	TokenFile string
	// CSEndpoint and IAMEndpoint override the endpoints; when empty, the
	// environment variables of the same meaning count, then the defaults.
	CSEndpoint, IAMEndpoint string
	// Transport carries the requests; http.DefaultTransport when nil.
	Transport http.RoundTripper
	// Timeout of one request; two minutes when 0: a classic pool was measured to take up to 93 s to create.
	Timeout time.Duration
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// UserAgent names the caller to IBM; "rrpool" when empty.
	UserAgent string
}

// New makes a Provider. It makes no request. The error is a *cloud.Error.
func New(c Config) (*Provider, error) {
	if err := c.complete(); err != nil {
		return nil, &cloud.Error{Kind: cloud.InvalidInput, Op: "configuring the IKS provider", Message: err.Error()}
	}
	begun := poolplan.Memory{Since: c.Now()}
	return &Provider{
		cfg: c, lock: semaphore.NewWeighted(1), session: &session{cfg: c, group: c.ResourceGroup}, missed: map[string]bool{}, known: map[string]*knownPool{},
		names: [2]string{c.PoolName, secondName(c.PoolName)}, memory: [2]poolplan.Memory{begun, begun},
	}, nil
}

// secondName names the pool that takes over when flavor or options change, with at most 31 letters as well.
func secondName(first string) string {
	start := first[:min(len(first), 29)]
	if start+"-b" == first {
		return start + "-a"
	}
	return start + "-b"
}

// complete checks the fields that are set, and sets the others.
func (c *Config) complete() error {
	region, group := cmp.Or(c.Region, "none"), cmp.Or(c.ResourceGroup, "none")
	if err := errors.Join(checkID("cluster", c.ClusterID), checkID("pool", c.PoolName), checkID("region", region), checkID("resource group", group)); err != nil {
		return err
	}
	if c.Transport == nil {
		c.Transport = untrusted.HeadersOf(http.DefaultTransport.(*http.Transport)) //nolint:forcetypeassert // nothing sets another
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Timeout, c.UserAgent = cmp.Or(c.Timeout, 2*time.Minute), cmp.Or(c.UserAgent, "rrpool")
	return c.locate()
}

// locate sets both endpoints.
func (c *Config) locate() error {
	cs, iam := cmp.Or(c.CSEndpoint, os.Getenv(CSEndpointVariable)), cmp.Or(c.IAMEndpoint, os.Getenv(IAMEndpointVariable))
	private, region := "", ""
	if c.Private {
		private, region = "private.", c.Region+"."
	}
	if c.Private && c.Region == "" && cs == "" {
		return errors.New("the private endpoint is that of a region, and neither a label nor the zone of any node says which: label a node " +
			"ibm-cloud.kubernetes.io/region=<region>, set " + CSEndpointVariable + " of the manager, or set spec.provider.iks.endpoint to Public")
	}
	cs = cmp.Or(cs, "https://"+private+region+"containers.cloud.ibm.com/global")
	iam = cmp.Or(iam, "https://"+private+"iam.cloud.ibm.com")
	var err error
	if c.CSEndpoint, err = endpoint(cs); err != nil {
		return fmt.Errorf("locating the containers API: %w", err)
	}
	if c.IAMEndpoint, err = endpoint(iam); err != nil {
		return fmt.Errorf("locating IAM: %w", err)
	}
	return nil
}

// endpoint checks an address that paths are appended to.
func endpoint(given string) (string, error) {
	given = strings.TrimRight(given, "/")
	u, err := url.Parse(given)
	if err != nil || !isPlain(u) || strings.ContainsAny(given, "?#") {
		// The address may hold a credential, so it is not repeated.
		return "", errors.New("the endpoint is not a plain http(s) address")
	}
	// Only to this machine itself is nothing sent over a network.
	if u.Scheme == "http" && u.Hostname() != "localhost" && !net.ParseIP(u.Hostname()).IsLoopback() {
		return "", errors.New("the endpoint has no TLS, and the API key would go there in the clear: give an https address")
	}
	return given, nil
}

func isPlain(u *url.URL) bool {
	return u.Host != "" && u.User == nil && (u.Scheme == "https" || u.Scheme == "http") &&
		u.RawPath == "" && (u.Path == "" || path.Clean(u.Path) == u.Path)
}

// idPattern is what an ID must match before an address is built from it, also one that the cloud itself gave:
// "DELETE …/workerpools/.." would delete the cluster.
var idPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)

func checkID(what, id string) error {
	if !idPattern.MatchString(id) || strings.Contains(id, "..") {
		return fmt.Errorf("%q is not a valid %s id", id, what)
	}
	return nil
}

// route is the path of a request, or the error of an ID that cannot be used in it.
type route struct {
	path string
	err  error
}

// to builds a path from IDs.
func to(format string, ids ...string) route {
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	return route{path: fmt.Sprintf(format, args...)}.with("resource", ids...)
}

// with checks IDs of the request's body.
func (r route) with(what string, ids ...string) route {
	for _, id := range ids {
		r.err = errors.Join(r.err, checkID(what, id))
	}
	return r
}
