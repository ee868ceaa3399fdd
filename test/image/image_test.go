//go:build linux

// Package image has no code of its own: its tests unpack the image that make image makes,
// and run what is in it as a cluster would, against a real apiserver.
package image

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/lab"
)

// archiveVariable names the archive to test, which make image has made. The compiler needs minutes for what
// is linked as it is in an image, so that make test does without.
const archiveVariable = "RRPOOL_IMAGE"

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // of clients that have nothing to say
	if spec := os.Getenv(boxVariable); spec != "" {
		os.Exit(enter(spec))
	}
	lab.Main(m, controlplane.StopShared)
}

// made is the archive that the tests are about.
func made(t *testing.T) archive {
	t.Helper()
	path := os.Getenv(archiveVariable)
	if path == "" {
		t.Skip("needs the image, which takes minutes to compile: make image-check")
	}
	return readArchive(t, path)
}

// unpacked is the image for this machine in a folder.
func unpacked(t *testing.T) (contents, string) {
	t.Helper()
	return made(t).image(t, runtime.GOARCH)
}

// patience is how long anything may take on a machine that has much to do.
const patience = 2 * time.Minute

// soon is how long a manager may take to be ready: the best of three, and of up to ten where the machine has let none of these be
// that fast.
const (
	soon       = 2 * time.Second
	starts     = 3
	mostStarts = 10
)

// The image runs as a pod runs it: as a user that the system does not know, without a right on its
// machine, its files read-only. It is ready soon, does its work, and ends on SIGTERM.
func TestTheImageRunsAsAnyoneOnAReadOnlyRoot(t *testing.T) {
	image, root := unpacked(t)
	c := install(t)
	manager := c.container(t)
	grace := time.Duration(*c.deployment.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	ports := map[string]string{}
	for _, p := range manager.Ports {
		ports[p.Name] = "127.0.0.1:" + strconv.Itoa(int(p.ContainerPort))
	}
	var best time.Duration
	i := 0
	for ; i < starts || i < mostStarts && best >= soon; i++ {
		b := newBox(t, root, c.secrets)
		b.Args, b.Env = image.command(manager), c.environment(t, image, manager)
		began := time.Now()
		run := launch(t, b)
		run.awaitReady(t, "http://"+ports["probes"]+manager.ReadinessProbe.HTTPGet.Path)
		if took := time.Since(began); i == 0 || took < best {
			best = took
		}
		if i == 0 {
			requirePowerless(t, run, b)
			requireLeads(t, c)
			requireMetrics(t, "https://"+ports["metrics"]+"/metrics", c.token(t, scraper))
		}
		run.requireEnds(t, grace)
		require.NotContains(t, run.log.String(), syscall.EROFS.Error(), "it tried to write")
	}
	t.Logf("ready after %s, the best of %d", best.Round(time.Millisecond), i)
	require.Less(t, best, soon)
}

func launch(t *testing.T, b *box) *contained {
	t.Helper()
	run, err := b.start()
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = run.cmd.Process.Kill()
		if t.Failed() {
			t.Logf("what it said:\n%s", run.log)
		}
	})
	return run
}

// awaitReady asks until the answer is yes, or the program has ended.
func (c *contained) awaitReady(t *testing.T, url string) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for code := 0; code != http.StatusOK; {
		select {
		case err := <-c.done:
			require.FailNow(t, "it ended before it was ready", "%v", err)
		case <-deadline:
			require.FailNow(t, "it did not become ready", "the last answer was %d", code)
		case <-ticker.C:
			code, _ = get(t, url, "")
		}
	}
}

// get asks for a page; no server is code 0.
func get(t *testing.T, url, token string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true} // it signs for itself
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

// requirePowerless: the kernel says who it is, and that it may do nothing.
func requirePowerless(t *testing.T, run *contained, b *box) {
	t.Helper()
	status := run.status(t)
	id := func(id int) string { return strings.TrimSpace(strings.Repeat(strconv.Itoa(id)+" ", 4)) }
	if b.Groups {
		require.Equal(t, id(b.UID), status["Uid"])
		require.Equal(t, id(b.GID), status["Gid"])
		require.Empty(t, status["Groups"])
	}
	mapped, err := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", run.cmd.Process.Pid))
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(b.UID), strings.Fields(string(mapped))[0], "no other user is in there")
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		require.Equal(t, "0000000000000000", status[set], set)
	}
	require.Equal(t, "1", status["NoNewPrivs"])
	require.True(t, strings.HasSuffix(status["NSpid"], " 1"), "%s: it is the first process of its own", status["NSpid"])
	require.Equal(t, "manager", status["Name"])
}

// requireLeads: the token and the rights do.
func requireLeads(t *testing.T, c *cluster) {
	t.Helper()
	require.Eventually(t, func() bool {
		leader, err := c.leader(t.Context())
		return err == nil && strings.HasPrefix(leader, hostname)
	}, patience, 50*time.Millisecond)
}

// requireMetrics: they answer, to those only who may read them.
func requireMetrics(t *testing.T, url, token string) {
	t.Helper()
	var code int
	require.Eventually(t, func() bool { // it makes its certificate while the rest is ready
		code, _ = get(t, url, "")
		return code != 0
	}, patience, 20*time.Millisecond)
	require.Equal(t, http.StatusUnauthorized, code)
	code, body := get(t, url, token)
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "\nrrpool_")
}

// requireEnds: as the kubelet ends it, in the time that the Deployment gives it.
func (c *contained) requireEnds(t *testing.T, grace time.Duration) {
	t.Helper()
	began := time.Now()
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-c.done:
		require.NoError(t, err)
		t.Logf("ended %s after SIGTERM", time.Since(began).Round(time.Millisecond))
	case <-time.After(grace):
		require.FailNow(t, "it did not end on SIGTERM")
	}
}
