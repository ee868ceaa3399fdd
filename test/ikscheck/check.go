// Command ikscheck compares a real cluster at IBM Cloud with rrpool's assumptions, and saves every response without secrets, so that
// test/iksserver can be compared with it. It only reads, unless ORDER=yes: then it orders a worker pool with a name of its own and one worker,
// replaces and removes the worker, and deletes the pool in any case.
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/cloud/iks"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, http.DefaultTransport, os.Getenv)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, wire http.RoundTripper, env func(string) string) error {
	key := strings.TrimSpace(env("IBMCLOUD_API_KEY"))
	c := &check{
		out: out, cluster: env("CLUSTER"),
		cs:   strings.TrimRight(cmp.Or(env(iks.CSEndpointVariable), "https://containers.cloud.ibm.com/global"), "/"),
		name: "rrpool-check-" + strings.ToLower(rand.Text()[:4]), flavor: env("FLAVOR"), zone: env("ZONE"),
	}
	if c.cluster == "" || key == "" {
		return fmt.Errorf("set IBMCLOUD_API_KEY, and give the cluster's id: make iks-check CLUSTER=…")
	}
	dir := cmp.Or(env("ANSWERS"), "bin/iks-check/"+time.Now().UTC().Format("20060102-150405"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the folder for the answers: %w", err)
	}
	c.wire = &recorder{base: wire, dir: dir, salt: rand.Text(), secrets: []string{key}}
	provider, err := iks.New(iks.Config{
		ClusterID: c.cluster, PoolName: c.name, APIKey: key, CSEndpoint: c.cs, IAMEndpoint: env(iks.IAMEndpointVariable), Transport: c.wire,
	})
	if err != nil {
		return err
	}
	c.provider = provider
	defer func() {
		c.say("every answer is in %s, without keys, tokens, accounts and e-mail addresses; look before you pass it on", dir)
	}()
	if err := c.read(ctx); err != nil {
		return err
	}
	if env("ORDER") != "yes" {
		c.say("nothing was ordered; ORDER=yes orders one worker for some half an hour")
		return nil
	}
	return c.order(ctx)
}

type check struct {
	out                io.Writer
	wire               *recorder
	provider           cloud.Provider
	cluster, cs        string
	name, flavor, zone string
	group, region      string
	classic            bool
}

func (c *check) say(format string, args ...any) { fmt.Fprintf(c.out, format+"\n", args...) }

// compare prints an observation, and whether it is as rrpool assumes.
func (c *check) compare(as bool, format string, args ...any) {
	c.say(map[bool]string{true: "as assumed  ", false: "DIFFERS     "}[as]+format, args...)
}

// call sends a request with the provider's last token, and decodes the response into out unless that is nil. If group is nil there is no header.
func (c *check) call(ctx context.Context, method, path string, group *string, body, out any) (status int, err error) {
	var content []byte
	if body != nil {
		content, _ = json.Marshal(body) // cannot fail for strings
	}
	r, err := http.NewRequestWithContext(ctx, method, c.cs+path, bytes.NewReader(content))
	if err != nil {
		return 0, fmt.Errorf("asking: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+c.wire.token)
	r.Header.Set("Content-Type", "application/json")
	if group != nil {
		r.Header["X-Auth-Resource-Group"] = []string{*group}
	}
	answer, err := (&http.Client{Transport: c.wire, Timeout: 2 * time.Minute}).Do(r)
	if err != nil {
		return 0, fmt.Errorf("asking: %w", err)
	}
	defer answer.Body.Close() //nolint:errcheck // read
	if answer.StatusCode > 299 || out == nil {
		return answer.StatusCode, nil
	}
	if err := json.NewDecoder(answer.Body).Decode(out); err != nil {
		return answer.StatusCode, fmt.Errorf("the answer to %s is no JSON of the form that rrpool knows: %w", path, err)
	}
	return answer.StatusCode, nil
}

func (c *check) read(ctx context.Context) error {
	_, observed := c.provider.Observe(ctx, cloud.PoolSpec{})
	if c.wire.token == "" {
		return fmt.Errorf("IAM gives no token: %w", observed)
	}
	var seen struct {
		ID, Provider, Region, ResourceGroup string
		WorkerZones                         []string
	}
	at := "/v2/getCluster?cluster=" + url.QueryEscape(c.cluster) + "&v1-compatible"
	status, err := c.call(ctx, http.MethodGet, at, nil, nil, &seen)
	if err != nil || seen.ID == "" {
		return errors.Join(fmt.Errorf("the cluster cannot be read without a resource group: status %d", status), err)
	}
	c.cluster, c.group, c.region, c.classic = seen.ID, seen.ResourceGroup, seen.Region, seen.Provider == "classic"
	c.zone = cmp.Or(c.zone, strings.Join(seen.WorkerZones[:min(1, len(seen.WorkerZones))], ""))
	c.region = cmp.Or(c.region, strings.TrimRight(c.zone, "-0123456789"))
	c.compare(true, "getCluster without the header of the resource group: %d", status)
	c.compare(c.classic || seen.Provider == "vpc-gen2", "the provider is %q, the region %q, the zones with workers are %q", seen.Provider, c.region, seen.WorkerZones)
	c.compare(c.group != "", "getCluster gives the id of the resource group")
	for _, group := range []string{"", c.group} {
		status, err := c.call(ctx, http.MethodGet, at, &group, nil, nil)
		c.compare(err == nil && (group == "" || status == http.StatusOK), "getCluster with the header %s: %d", map[bool]string{true: "empty", false: "right"}[group == ""], status)
	}
	if err := c.pools(ctx); err != nil {
		return err
	}
	c.lists(ctx)
	c.compare(observed == nil, "rrpool's provider can read all it needs: %v", observed)
	return observed
}

// lists compares other listings that the provider uses.
func (c *check) lists(ctx context.Context) {
	listings := map[string]string{
		"workers": "/v2/vpc/getWorkers?cluster=" + c.cluster + "&showDeleted=false", "zones": "/v2/vpc/getZones?provider=vpc-gen2",
		"flavors": "/v2/getFlavors?zone=" + c.zone + "&provider=vpc-gen2",
	}
	if c.classic {
		listings = map[string]string{
			"workers": "/v1/clusters/" + c.cluster + "/workers?showDeleted=false", "zones": "/v1/zones",
			"flavors": "/v1/datacenters/" + c.zone + "/machine-types", "VLANs": "/v1/datacenters/" + c.zone + "/vlans",
		}
	}
	for _, what := range slices.Sorted(maps.Keys(listings)) {
		var list []map[string]any
		status, err := c.call(ctx, http.MethodGet, listings[what], &c.group, nil, &list)
		c.compare(err == nil && status == http.StatusOK && len(list) > 0, "the list of %s: status %d, %d entries %v", what, status, len(list), err)
	}
}

// pools compares the pools in a listing with the response for a single pool.
func (c *check) pools(ctx context.Context) error {
	list, single := "/v2/vpc/getWorkerPools?cluster="+c.cluster, "/v2/vpc/getWorkerPool"
	if c.classic {
		list, single = "/v1/clusters/"+c.cluster+"/workerpools", "/v2/classic/getWorkerPool"
	}
	var pools []map[string]any
	status, err := c.call(ctx, http.MethodGet, list, &c.group, nil, &pools)
	if err != nil || len(pools) == 0 {
		return errors.Join(fmt.Errorf("no worker pool is listed: status %d", status), err)
	}
	for _, p := range pools {
		var whole map[string]any
		id, _ := p["id"].(string)
		status, err := c.call(ctx, http.MethodGet, single+"?cluster="+c.cluster+"&workerpool="+url.QueryEscape(id), &c.group, nil, &whole)
		c.compare(err == nil && whole["id"] == id && id != "", "the answer about pool %s alone: status %d %v", cmp.Or(fmt.Sprint(p["poolName"]), id), status, err)
		c.say("seen        fields of the listing: %s", strings.Join(slices.Sorted(maps.Keys(p)), " "))
		c.say("seen        fields of the pool:    %s", strings.Join(slices.Sorted(maps.Keys(whole)), " "))
	}
	return nil
}

// order creates a pool of one worker, replaces and removes the worker, deletes the pool, and measures the times.
func (c *check) order(ctx context.Context) (err error) {
	c.flavor = cmp.Or(c.flavor, iks.DefaultFlavors(c.classic, nil)[0])
	price := "no price is known of it"
	if e := cost.Builtin().Find(c.flavor, c.region); e != nil {
		price = fmt.Sprintf("its list price is %s USD an hour (%s, %s)", e.Hourly().FloatString(4), e.Date, e.Source)
	}
	c.say("COST: three workers are ordered one after the other, at most two of them at a time, of flavor %s in zone %s; %s", c.flavor, c.zone, price)
	c.say("pool %s is made, and deleted at the end. Should this process be killed: %s", c.name, c.remedy())
	defer func() { err = errors.Join(err, c.remove()) }()

	taint := cloud.Taint{Key: "rrpool.io/dedicated", Value: "route-reflector", Effect: "NoExecute"} // as rrpool's own
	want := cloud.PoolSpec{Flavor: c.flavor, Zones: []string{c.zone}, SizePerZone: 1, Taints: []cloud.Taint{taint}}
	if err := c.until(ctx, "one worker is ready in a new pool", func(ctx context.Context) (cloud.Progress, error) { return c.provider.Ensure(ctx, want) }); err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		edit func(*cloud.PoolSpec, string)
	}{
		{"the worker is removed, and the size asked for again", func(s *cloud.PoolSpec, id string) { s.Retire = []string{id} }},
		{"the worker is replaced", func(s *cloud.PoolSpec, id string) { s.Replace = []string{id} }},
	} {
		pool, err := c.provider.Observe(ctx, cloud.PoolSpec{})
		if err != nil || len(pool.Workers) != 1 {
			return errors.Join(fmt.Errorf("one worker is expected: %+v", pool.Workers), err)
		}
		next := want
		step.edit(&next, pool.Workers[0].ID)
		if err := c.until(ctx, step.what, func(ctx context.Context) (cloud.Progress, error) { return c.provider.Ensure(ctx, next) }); err != nil {
			return err
		}
	}
	pool, err := c.provider.Observe(ctx, cloud.PoolSpec{})
	if err != nil {
		return err
	}
	body := map[string]string{"cluster": c.cluster, "workerpool": pool.ID, "zone": c.zone}
	status, err := c.call(ctx, http.MethodPost, "/v2/removeWorkerPoolZone", &c.group, body, nil)
	c.compare(err == nil && status < 300, "removeWorkerPoolZone with a worker in it: %d %v", status, err)
	return err
}

func (c *check) remedy() string {
	return fmt.Sprintf("ibmcloud ks worker-pool rm --cluster %s --worker-pool %s", c.cluster, c.name)
}

// remove deletes the pool, also when the run was interrupted.
func (c *check) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	err := c.until(ctx, "the pool is deleted", func(ctx context.Context) (cloud.Progress, error) {
		got, err := c.provider.Delete(ctx)
		if err != nil {
			c.say("            %v", err)
			return cloud.Progress{WaitingFor: "the cloud to answer"}, nil // retried for every error
		}
		return got, nil
	})
	if err != nil {
		return fmt.Errorf("POOL %s IS STILL THERE, AND COSTS. Delete it: %s (%w)", c.name, c.remedy(), err)
	}
	return nil
}

// until repeats a call until it is done, and prints how long that took. Only errors of an unavailable cloud are retried.
func (c *check) until(ctx context.Context, what string, call func(context.Context) (cloud.Progress, error)) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Hour)
	defer cancel()
	for last := ""; ; {
		got, err := call(ctx)
		after := time.Since(began).Round(time.Second)
		switch text := got.Did + got.WaitingFor; {
		case err == nil && got.Done:
			c.say("%8s    %s", after, what)
			return nil
		case err != nil && !cloud.Is(err, cloud.Unavailable) && !cloud.Is(err, cloud.RateLimited):
			return fmt.Errorf("after %s: %w", after, err)
		case text != last && err == nil:
			c.say("%8s    %s", after, text)
			last = text
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s, before %s: %w", after, what, context.Cause(ctx))
		case <-time.After(max(10*time.Second, cloud.RetryAfter(err))):
		}
	}
}
