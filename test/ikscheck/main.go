// Command ikscheck compares a real cluster at IBM Cloud with what rrpool assumes of one, and saves every answer without
// secrets, so that test/iksserver can replay it (iksserver.Replay). It only reads, unless ORDER=yes: then it orders a
// worker pool of a name of its own with one worker, takes it through its life, and deletes it whatever happens.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

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

// run does all that the variables ask for.
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
