// Package iks supplies route reflector nodes from a dedicated worker pool of an
// IBM Cloud Kubernetes Service cluster, VPC or classic.
//
// It uses bluemix-go's types, authentication and client, but none of its habits
// that do harm here: no retries by the SDK, no environment besides the two
// endpoint variables, no debug log, no re-authentication on 403.
package iks

import (
	"cmp"
	"context"
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

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/poolplan"
)

// The labels that mark a pool, and its nodes, as rrpool's.
const (
	ManagedByLabel = poolplan.ManagedByLabel
	ManagedBy      = poolplan.ManagedBy
	PoolLabel      = poolplan.PoolLabel
)

// Flavors that are used when none is given: the smallest that IBM documents.
const (
	DefaultFlavorVPC     = "bx2.2x8"
	DefaultFlavorClassic = "u3c.2x4"
)

// Environment variables that override an endpoint.
const (
	CSEndpointVariable  = "IBMCLOUD_CS_API_ENDPOINT"
	IAMEndpointVariable = "IBMCLOUD_IAM_API_ENDPOINT"
)

// Config of a Provider. ClusterID, PoolName and APIKey are required.
type Config struct {
	// ClusterID is the cluster's id or name.
	ClusterID string
	// PoolName is the name of rrpool's pool: lower-case letters, digits and
	// dashes, starting with a letter, at most 31.
	PoolName string
	// Flavor when PoolSpec.Flavor is empty; empty for the generation's default.
	Flavor string
	// ResourceGroup finds the cluster, by id; empty for none. Requests about a cluster
	// that was found carry the cluster's own.
	ResourceGroup string
	// Region is needed for private endpoints ("us-south").
	Region string
	// Private takes the private endpoints instead of the public ones.
	Private bool
	// APIKey gives the IBM Cloud API key. It is asked again for every new token.
	APIKey func(ctx context.Context) (string, error)
	// CSEndpoint and IAMEndpoint override the endpoints; when empty, the
	// environment variables of the same meaning count, then the defaults.
	CSEndpoint, IAMEndpoint string
	// Transport carries the requests; nil for one that is fit for the purpose.
	Transport http.RoundTripper
	// Timeout of one request; a minute when 0.
	Timeout time.Duration
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// UserAgent names the caller to IBM; "rrpool" when empty.
	UserAgent string
}

// StaticKey gives an APIKey function for a key that does not change.
func StaticKey(key string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return key, nil }
}

// New makes a Provider. It makes no request. The error is a *cloud.Error.
func New(c Config) (*Provider, error) {
	if err := c.complete(); err != nil {
		return nil, &cloud.Error{Kind: cloud.InvalidInput, Op: "configuring the IKS provider", Message: err.Error()}
	}
	return &Provider{
		cfg: c, lock: make(chan struct{}, 1), session: newSession(c),
		taints: taintMemory{},
	}, nil
}

func (c *Config) complete() error {
	if err := errors.Join(checkID("cluster", c.ClusterID), checkPoolName(c.PoolName)); err != nil {
		return err
	}
	for _, given := range []struct{ what, id string }{{"flavor", c.Flavor}, {"region", c.Region}, {"resource group", c.ResourceGroup}} {
		if given.id == "" {
			continue
		}
		if err := checkID(given.what, given.id); err != nil {
			return err
		}
	}
	if c.APIKey == nil {
		return errors.New("no API key is given")
	}
	if c.Transport == nil {
		c.Transport = newTransport()
	}
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.UserAgent == "" {
		c.UserAgent = "rrpool"
	}
	return c.locate()
}

// locate fixes both endpoints.
func (c *Config) locate() error {
	if c.CSEndpoint == "" {
		c.CSEndpoint = os.Getenv(CSEndpointVariable)
	}
	if c.IAMEndpoint == "" {
		c.IAMEndpoint = os.Getenv(IAMEndpointVariable)
	}
	if c.Private && c.Region == "" && c.CSEndpoint == "" {
		return errors.New("private endpoints need the region or the endpoint's address")
	}
	// Not by the SDK's locator: it reads the file that a variable names, and ends
	// the process when it cannot.
	cs, iam := "https://containers.cloud.ibm.com/global", "https://iam.cloud.ibm.com"
	if c.Private {
		cs, iam = "https://private."+c.Region+".containers.cloud.ibm.com/global", "https://private.iam.cloud.ibm.com"
	}
	var err error
	if c.CSEndpoint, err = endpoint(cmp.Or(c.CSEndpoint, cs)); err != nil {
		return fmt.Errorf("locating the containers API: %w", err)
	}
	if c.IAMEndpoint, err = endpoint(cmp.Or(c.IAMEndpoint, iam)); err != nil {
		return fmt.Errorf("locating IAM: %w", err)
	}
	return nil
}

// endpoint is an address that paths can be put behind, and stay behind.
func endpoint(given string) (string, error) {
	given = strings.TrimRight(given, "/")
	u, err := url.Parse(given)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" || !plainPath(u) || strings.ContainsAny(given, "?#") {
		// The address may hold a credential, so it is not repeated.
		return "", errors.New("the endpoint is not a plain http(s) address")
	}
	if u.Scheme == "http" && !thisMachine(u.Hostname()) {
		return "", errors.New("the endpoint has no TLS, and the API key would go there in the clear: give an https address")
	}
	return given, nil
}

// thisMachine: what is sent there crosses no network.
func thisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// plainPath: the path means what it says.
func plainPath(u *url.URL) bool {
	return u.RawPath == "" && (u.Path == "" || path.Clean(u.Path) == u.Path)
}

func newTransport() http.RoundTripper {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: 60 * time.Second,
		IdleConnTimeout:       90 * time.Second,
		MaxIdleConnsPerHost:   2,
	}
}

// The SDK puts ids into addresses unescaped and cleans the path: "DELETE
// …/workerpools/.." would delete the cluster. So an id is checked before any
// address is built from it, also one that the cloud itself gave.
var (
	idPattern   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)
	poolPattern = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,29}[a-z0-9])?$`)
)

func checkID(what, id string) error {
	if !idPattern.MatchString(id) || strings.Contains(id, "..") {
		return fmt.Errorf("%q is not a valid %s id", id, what)
	}
	return nil
}

func checkPoolName(name string) error {
	if !poolPattern.MatchString(name) {
		return fmt.Errorf("%q is not a valid pool name: use a-z, 0-9 and dashes, starting with a letter, at most 31", name)
	}
	return nil
}

// route is the path of a request, or why an id in it cannot be used.
type route struct {
	path string
	err  error
}

// to builds a path with ids in it.
func to(format string, ids ...string) route {
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	return route{path: fmt.Sprintf(format, args...)}.with("resource", ids...)
}

// with checks ids that go into the request's body.
func (r route) with(what string, ids ...string) route {
	for _, id := range ids {
		r.err = errors.Join(r.err, checkID(what, id))
	}
	return r
}
