package report

import (
	"archive/tar"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/version"
	"github.com/rrpool/rrpool/test/cli"
)

func TestTheReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.tar.gz")
	got := ask(t, "--output-file", path, "--kubeconfig", cli.Serve(t, world()))
	require.Zero(t, got.Code, got.Err)
	require.Equal(t, path+"\n", got.Out)
	require.Contains(t, got.Err, "‼ not in the report: objects/bgpfilters.yaml: the cluster does not know bgpfilters.crd.projectcalico.org")
	require.Contains(t, got.Err, "next: look into it before you send it: tar -xzf "+path)
	files, headers, _ := unpack(t, read(t, path))
	require.True(t, slices.IsSortedFunc(headers, func(a, b *tar.Header) int { return strings.Compare(a.Name, b.Name) }))
	for _, header := range headers {
		require.True(t, strings.HasPrefix(header.Name, "rrpool-report-20261121T090000Z/"), header.Name)
		require.Equal(t, int64(0o600), header.Mode)
		require.True(t, header.ModTime.Equal(cli.Now))
		require.Zero(t, header.Uid)
	}
	place := regexp.MustCompile(`http://127\.0\.0\.1:\d+`) // of the apiserver
	for name, golden := range map[string]string{
		"index.txt": "index.txt", "snapshot.yaml": "snapshot.yaml", "objects/nodes.yaml": "nodes.yaml", "objects/manager-deployments.yaml": "manager-deployments.yaml",
		"objects/secrets.yaml": "secrets.yaml", "logs/rrpool-manager-a/manager.log": "manager.log",
	} {
		text := strings.ReplaceAll(files[name], version.Get().Of("rrpool"), "rrpool devel")
		cli.Golden(t, golden, place.ReplaceAllString(text, "http://127.0.0.1:1"))
	}
	for name, words := range map[string]string{
		"objects/routereflectorpools.yaml": "mode: RouteReflector", "objects/bgppeers.yaml": "name: rrpool-clients", "objects/bgpconfigurations.yaml": "nodeToNodeMeshEnabled: false",
		"objects/caliconodestatuses.yaml": "node: node-0", "objects/ippools.yaml": "cidr: 10.1.0.0/16", "objects/felixconfigurations.yaml": "credentialsFile: /etc/key",
		"objects/blockaffinities.yaml": "cidr: 10.1.0.0/26", "objects/manager-pods.yaml": "restartCount: 2", "objects/leases.yaml": "holderIdentity: rrpool-manager-a",
		"objects/calico-node-pods.yaml": "nodeName: node-0", "objects/clusterinformations.yaml": "calicoVersion: v3.31.0", "events/default.yaml": "name: e1", "events/kube-system.yaml": "name: e3",
		"events/rrpool-system.yaml": "# none", "logs/rrpool-manager-a/manager.previous.log": "panic: before the restart",
	} {
		require.Contains(t, files[name], words, name)
	}
	require.NotContains(t, files["objects/calico-node-pods.yaml"], "annotations")
	require.NotContains(t, files["objects/nodes.yaml"], "managedFields")
	require.NotContains(t, files["objects/nodes.yaml"], "too-much")
	require.NotContains(t, files["events/default.yaml"], "nothing of ours")
	require.Contains(t, files["logs/rrpool-manager-a/manager.log"], "step DisableMesh: the mesh is switched off", "what is no secret stays")
	require.Contains(t, files["objects/secrets.yaml"], "apikey")

	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing temporary stays")

	t.Run("the same cluster gives the same bytes", func(t *testing.T) {
		a := world()
		kubeconfig := cli.Serve(t, a)
		var archives [][]byte
		for range 2 {
			require.NoError(t, os.Remove(path))
			require.Zero(t, ask(t, "--output-file", path, "--kubeconfig", kubeconfig).Code)
			archives = append(archives, read(t, path))
		}
		require.Equal(t, archives[0], archives[1])
		for _, asked := range a.asked {
			require.True(t, strings.HasPrefix(asked, "GET "), "it changes nothing: %s", asked)
		}
	})
	t.Run("into the current folder by default", func(t *testing.T) {
		t.Chdir(t.TempDir())
		got := ask(t, "--kubeconfig", cli.Serve(t, world()))
		require.Equal(t, "rrpool-report-20261121T090000Z.tar.gz\n", got.Out)
		require.FileExists(t, strings.TrimSpace(got.Out))
	})
}

// The hunt: no planted secret is in any byte of the archive, in whatever encoding.
func TestNoSecretIsInTheArchive(t *testing.T) {
	a := world()
	served := &record{}
	r, err := newReader(cli.Connect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.ServeHTTP(recording{w, served}, r) })), "rrpool-system", cli.Now)
	require.NoError(t, err)
	content, err := r.archive(t.Context(), "report")
	require.NoError(t, err)
	_, _, text := unpack(t, content)
	for _, secret := range planted {
		require.NotContains(t, text, secret)
		require.NotContains(t, text, encoded(secret))
	}

	// The negative control: the cluster has answered with what is planted.
	served.mu.Lock()
	defer served.mu.Unlock()
	for _, secret := range readable {
		require.Contains(t, served.text.String(), secret)
	}
}

// record is what a handler has answered.
type record struct {
	mu   sync.Mutex
	text strings.Builder
}

// recording keeps what is written to it.
type recording struct {
	http.ResponseWriter
	to *record
}

func (r recording) Write(content []byte) (int, error) {
	r.to.mu.Lock()
	defer r.to.mu.Unlock()
	r.to.text.Write(content)
	return r.ResponseWriter.Write(content)
}

func (r recording) Flush() { r.ResponseWriter.(http.Flusher).Flush() } //nolint:forcetypeassert // the server of tests is one

// What is reported while it is read, and what stands in errors, is redacted as well.
func TestNoSecretIsSaid(t *testing.T) {
	a := world()
	a.texts["/version?"] = "token=" + argToken
	got := ask(t, "--output-file", filepath.Join(t.TempDir(), "x"), "--kubeconfig", cli.Serve(t, a))
	for _, secret := range planted {
		require.NotContains(t, got.Err, secret)
	}
}

func TestFailures(t *testing.T) {
	folder := t.TempDir()
	for name, tc := range map[string]struct {
		args []string
		says []string
	}{
		"no such folder":    {[]string{"--output-file", "/nonexistent/x"}, []string{"--output-file", `"/nonexistent/x"`, "a folder that you may write to"}},
		"a folder":          {[]string{"--output-file", folder}, []string{"--output-file", folder, "name a file that is not there yet"}},
		"a page for people": {[]string{"--kubeconfig", cli.Serve(t, http.NotFoundHandler())}, []string{"could not find the requested resource"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			args := tc.args
			if !slices.Contains(args, "--output-file") {
				args = append([]string{"--output-file", filepath.Join(dir, "x")}, args...)
			}
			got := ask(t, args...)
			require.Equal(t, 1, got.Code)
			require.Empty(t, got.Out)
			lines := strings.Split(strings.TrimSpace(got.Err), "\n")
			cli.RequireSentence(t, lines[len(lines)-1]+"\n", tc.says...)
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, left, "nothing is left behind")
		})
	}
}

// Interrupted, it leaves nothing behind.
func TestInterrupted(t *testing.T) {
	for _, at := range []string{"/version", "/api/v1/nodes", "/apis/events.k8s.io/v1/namespaces/kube-system/events"} {
		ctx, cancel := context.WithCancel(t.Context())
		a := world()
		a.refuse = func(path string) int {
			if path == at {
				cancel()
				time.Sleep(10 * time.Millisecond)
			}
			return 0
		}
		dir := t.TempDir()
		path := filepath.Join(dir, "report.tar.gz")
		got := cli.Run(ctx, iostreams.Streams{}, cli.Root(New), "report", "--output-file", path, "--kubeconfig", cli.Serve(t, a))
		require.Equal(t, 1, got.Code)
		require.Contains(t, got.Err, "rrpool: interrupted\n")
		require.Empty(t, got.Out)
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
		cancel()
	}
}
