//go:build linux

// Package image has no code of its own: its tests unpack the image that make image makes,
// and run what is in it as a cluster would, against a real apiserver.
package image

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/iksserver"
	"github.com/rrpool/rrpool/test/lab"
)

// archiveVariable names the archive to test, which make image has made. The compiler needs minutes for what
// is linked as it is in an image, so that make test does without.
const archiveVariable = "RRPOOL_IMAGE"

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard()) // of clients that have nothing to say
	lab.Main(m, controlplane.StopShared)
}

func made(t *testing.T) archive {
	t.Helper()
	path := os.Getenv(archiveVariable)
	if path == "" {
		t.Skip("needs the image, which takes minutes to compile: make image-check")
	}
	dir := t.TempDir()
	tar(t, "-xf", path, "-C", dir)
	return archive(dir)
}

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
		began := time.Now()
		run, log := launch(t, b, image.command(manager), c.environment(t, image, manager))
		awaitReady(t, run, "http://"+ports["probes"]+manager.ReadinessProbe.HTTPGet.Path)
		if took := time.Since(began); i == 0 || took < best {
			best = took
		}
		if i == 0 {
			// The kernel says who it is, and that it may do nothing.
			status := status(t, run.Pid())
			id := func(id int) string { return strings.TrimSpace(strings.Repeat(strconv.Itoa(id)+" ", 4)) }
			sets := []string{"CapInh", "CapPrm", "CapEff", "CapAmb"}
			if b.asRoot {
				require.Equal(t, id(b.uid), status["Uid"])
				require.Equal(t, id(b.gid), status["Gid"])
				require.Empty(t, status["Groups"])
				sets = append(sets, "CapBnd") // a user namespace begins with all
			}
			for _, set := range sets {
				require.Equal(t, "0000000000000000", status[set], set)
			}
			require.Equal(t, "1", status["NoNewPrivs"])
			require.True(t, strings.HasSuffix(status["NSpid"], " 1"), "%s: it is the first process of its own", status["NSpid"])
			require.Equal(t, "manager", status["Name"])
			// The token and the rights do.
			require.Eventually(t, func() bool {
				leader, err := c.leader(t.Context())
				return err == nil && strings.HasPrefix(leader, hostname)
			}, patience, 50*time.Millisecond)
			// The metrics answer, to those only who may read them.
			metrics := "https://" + ports["metrics"] + "/metrics"
			var code int
			require.Eventually(t, func() bool { // it makes its certificate while the rest is ready
				code, _ = get(t, metrics, "")
				return code != 0
			}, patience, 20*time.Millisecond)
			require.Equal(t, http.StatusUnauthorized, code)
			code, body := get(t, metrics, c.token(t, scraper))
			require.Equal(t, http.StatusOK, code)
			require.Contains(t, body, "\nrrpool_")
		}
		requireEnds(t, run, grace)
		require.NotContains(t, textOf(t, log), syscall.EROFS.Error(), "it tried to write")
	}
	t.Logf("ready after %s, the best of %d", best.Round(time.Millisecond), i)
	require.Less(t, best, soon)
}

func launch(t *testing.T, b *box, command, env []string) (run *controlplane.Process, log string) {
	t.Helper()
	log = filepath.Join(t.TempDir(), "log")
	run, err := b.start(command, env, log)
	require.NoError(t, err)
	t.Cleanup(func() {
		run.Kill()
		if t.Failed() {
			t.Logf("what it said:\n%s", textOf(t, log))
		}
	})
	return run, log
}

// awaitReady asks until the answer is yes, or the program has ended.
func awaitReady(t *testing.T, run *controlplane.Process, url string) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for code := 0; code != http.StatusOK; {
		select {
		case <-run.Done():
			require.FailNow(t, "it ended before it was ready", "%v", run.Err)
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

// requireEnds: as the kubelet ends it, in the time that the Deployment gives it.
func requireEnds(t *testing.T, run *controlplane.Process, grace time.Duration) {
	t.Helper()
	began := time.Now()
	require.NoError(t, run.Signal(syscall.SIGTERM))
	select {
	case <-run.Done():
		require.NoError(t, run.Err)
		t.Logf("ended %s after SIGTERM", time.Since(began).Round(time.Millisecond))
	case <-time.After(grace):
		require.FailNow(t, "it did not end on SIGTERM")
	}
}

const (
	apiKey    = "not-to-be-seen"
	clusterID = "c1"
	rootsFile = "etc/ssl/certs/ca-certificates.crt" // where Go looks first
)

// The manager believes the cloud when the image's certificates vouch for it, and does not give its API key to another.
func TestTheManagerTrustsTheCertificatesOfTheImageOnly(t *testing.T) {
	image, root := unpacked(t)
	c := install(t)
	manager := c.container(t)
	cloud := iksserver.New(iksserver.Config{APIKeys: []string{apiKey}})
	cloud.AddCluster(iksserver.Cluster{ID: clusterID, Name: "test", Provider: iksserver.VPC, VPCID: "r006-test"})
	web := httptest.NewUnstartedServer(cloud)
	web.Config.ErrorLog = log.New(io.Discard, "", 0) // that a client hangs up is what we want
	web.StartTLS()
	t.Cleanup(web.Close)
	// A pool on IBM Cloud, with what the user and IKS put there.
	require.NoError(t, v1alpha1.AddToScheme(scheme.Scheme))
	admin, err := client.New(c.plane.AdminConfig(), client.Options{Scheme: scheme.Scheme})
	require.NoError(t, err)
	pool := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName}}
	pool.Spec.Provider.Type = v1alpha1.ProviderIKS
	for _, o := range []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "rrpool-ibmcloud"}, StringData: map[string]string{"apikey": apiKey}},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-info"},
			Data:       map[string]string{"cluster-config.json": `{"cluster_id":"` + clusterID + `"}`},
		},
		pool,
	} {
		require.NoError(t, admin.Create(t.Context(), o))
		t.Cleanup(func() { // the manager that would do so is gone
			require.NoError(t, admin.Patch(context.Background(), o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
			require.NoError(t, client.IgnoreNotFound(admin.Delete(context.Background(), o)))
		})
	}
	run := func(until func() bool) {
		env := append(c.environment(t, image, manager), "IBMCLOUD_CS_API_ENDPOINT="+web.URL, "IBMCLOUD_IAM_API_ENDPOINT="+web.URL)
		started, _ := launch(t, newBox(t, root, c.secrets), image.command(manager), env)
		require.Eventually(t, until, patience, 50*time.Millisecond)
		requireEnds(t, started, patience)
	}
	run(func() bool {
		require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(pool), pool))
		for _, condition := range pool.Status.Conditions {
			if strings.Contains(condition.Message, "x509: certificate signed by unknown authority") {
				t.Logf("%s: %s", condition.Type, condition.Message)
				return true
			}
		}
		return false
	})
	require.Empty(t, cloud.Requests())

	bundle, err := os.OpenFile(filepath.Join(root, rootsFile), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	require.NoError(t, pem.Encode(bundle, &pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}))
	require.NoError(t, bundle.Close())
	run(func() bool { return len(cloud.Requests()) > 1 }) // the token was given, and used
}
