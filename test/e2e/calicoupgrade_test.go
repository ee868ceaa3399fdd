//go:build linux

package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/e2e/expect"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

// Calico is upgraded to 3.33 under a cluster on reflectors: first its CRDs, whose reports have a status subresource, to which reporters of v3.31
// do not write; then calico-node, node by node. Where that takes long no reflector is heard, and the mesh comes on. Nothing is lost.
func TestCalicoIsUpgraded(t *testing.T) {
	lab.SkipLong(t)
	for name, late := range map[string]bool{"calico-node follows at once": false, "calico-node follows late": true} {
		t.Run(name, func(t *testing.T) {
			ctx, s := site.ForTest(t, site.Options{})
			migrate(t, ctx, s, nil)
			sessions := established(t, s)
			time.Sleep(15 * time.Second) // the reports settle into their long period

			s.Lab.Checkpoint("upgrade")
			seen := record(t, ctx, s)
			definitions := t.TempDir()
			require.NoError(t, controlplane.NewerCRDs(ctx, definitions, false))
			require.NoError(t, controlplane.InstallCRDs(s.Lab.AdminConfig(), definitions))
			if late {
				require.NoError(t, s.WaitFor(within(t, ctx), "the mesh to be requested", func(*v1alpha1.RouteReflectorPool) bool { return meshOn(t, ctx, s) }))
				among := len(s.Workers) * (len(s.Workers) - 1)
				soon(t, func(c *assert.CollectT) { require.Len(c, established(c, s), len(sessions)+among) })
			}
			kubeconfig := through(t, s, func(*http.Request) {}, nil)
			for _, node := range s.Lab.Nodes() {
				require.NoError(t, s.Lab.ReplaceCalicoNode(ctx, node, kubeconfig))
				soon(t, func(c *assert.CollectT) { require.Subset(c, established(c, s), sessions) })
			}
			replaced := time.Now()
			soon(t, func(c *assert.CollectT) {
				reports, err := s.Lab.Calico().CalicoNodeStatus().List(ctx, options.ListOptions{})
				require.NoError(c, err)
				for _, report := range reports.Items {
					require.True(c, report.Status.LastUpdated.After(replaced), "%s is not heard", report.Name)
				}
			})
			require.NoError(t, s.WaitFor(within(t, ctx), "the end of the upgrade", func(o *v1alpha1.RouteReflectorPool) bool {
				if late { // nothing but time is missing: so long the mesh stays on, in case it is needed again
					waits := o.Status.Step.WaitingFor
					return len(waits) > 0 && !slices.ContainsFunc(waits, func(w string) bool { return !strings.Contains(w, "for 5m0s") })
				}
				return isReady(o)
			}))
			if !late {
				requireMigrated(t, s, 3)
			}
			for _, at := range seen() {
				require.NotContains(t, at.degraded, "True")
				require.False(t, at.mesh && (!late || at.after < time.Minute), "the mesh is on, and the reports were unheard for less than a minute")
			}
			expect.NothingLost(t, s)
		})
	}
}

// moment is from when on the mesh and the conditions were as they were.
type moment struct {
	after           time.Duration
	mesh            bool
	ready, degraded string
}

// record notes every change until the function that it returns is called. The test logs them.
func record(t *testing.T, ctx context.Context, s *site.Site) func() []moment { //nolint:revive // t comes first in tests
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	begun, seen := time.Now(), []moment{{}}
	var done sync.WaitGroup
	done.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			o, err := s.Pool(ctx)
			config, failed := s.Lab.Calico().BGPConfigurations().Get(ctx, "default", options.GetOptions{})
			if err != nil || failed != nil {
				continue
			}
			last, condition := seen[len(seen)-1], func(name string) string {
				c := meta.FindStatusCondition(o.Status.Conditions, name)
				return string(c.Status) + " " + c.Reason
			}
			now := moment{last.after, ptr.Deref(config.Spec.NodeToNodeMeshEnabled, true), condition(v1alpha1.ConditionReady), condition(v1alpha1.ConditionDegraded)}
			if now != last {
				now.after = time.Since(begun)
				seen = append(seen, now)
			}
		}
	})
	stop := func() []moment {
		cancel()
		done.Wait()
		return seen[1:]
	}
	t.Cleanup(func() {
		for _, at := range stop() {
			t.Logf("%5.1f s: mesh %t, Ready %s, Degraded %s", at.after.Seconds(), at.mesh, at.ready, at.degraded)
		}
	})
	return stop
}

// Calico moves its objects to its other API group under a cluster that is on reflectors, as DatastoreMigration does it: a lock, a copy, and
// calico-node replaced node by node. The manager writes nothing meanwhile, and then goes on in the new group. Nothing is lost.
func TestCalicoMovesItsObjectsToItsOtherGroup(t *testing.T) {
	lab.SkipLong(t)
	ctx, s := site.ForTest(t, site.Options{MeshPassword: "s3cret"})
	objects, err := dynamic.NewForConfig(s.Lab.AdminConfig())
	require.NoError(t, err)
	migrate(t, ctx, s, nil, "--leader-elect=false")
	sessions := established(t, s)

	s.Lab.Checkpoint("move")
	definitions := t.TempDir()
	require.NoError(t, controlplane.NativeCRDs(ctx, definitions))
	require.NoError(t, controlplane.InstallCRDs(s.Lab.AdminConfig(), definitions))
	ready := func(group schema.GroupVersion, is bool) {
		patch(t, ctx, objects, group, "clusterinformations", "default", map[string]any{"spec": map[string]any{"datastoreReady": is}})
	}
	ready(calico.GroupV1, false)
	require.NoError(t, s.WaitFor(within(t, ctx), "the manager to be locked", locked))
	since := time.Now()
	migration := &unstructured.Unstructured{Object: map[string]any{"kind": "DatastoreMigration", "metadata": map[string]any{"name": "v1-to-v3"}}}
	migration.SetAPIVersion(migrations.String())
	_, err = objects.Resource(migrations.WithResource("datastoremigrations")).Create(ctx, migration, metav1.CreateOptions{})
	require.NoError(t, err)
	phase := func(is string) {
		patch(t, ctx, objects, migrations, "datastoremigrations", "v1-to-v3", map[string]any{"status": map[string]any{"phase": is}})
	}
	phase("Migrating")
	for _, resource := range moved {
		move(t, ctx, objects, resource)
	}
	ready(calico.GroupV3, true)
	phase("Converged")
	require.Eventually(t, s.ManagerEnded, time.Minute, 100*time.Millisecond, "it goes on in the dead group")
	require.NoError(t, s.StartManager("--leader-elect=false"))
	kubeconfig := native(t, s)
	for _, node := range s.Lab.Nodes() {
		require.NoError(t, s.Lab.ReplaceCalicoNode(ctx, node, kubeconfig))
		soon(t, func(c *assert.CollectT) { require.Equal(c, sessions, established(c, s)) })
	}
	require.NoError(t, s.WaitFor(ctx, "still locked", locked))
	writes, err := s.Lab.ControlPlane().Writes(site.User(), since)
	require.NoError(t, err)
	for _, w := range writes {
		require.True(t, w.Lease() || w.Group == v1alpha1.GroupVersion.Group || w.Group == "events.k8s.io", "written while Calico's objects were moved: %s", w)
	}
	phase("Complete")
	require.NoError(t, s.WaitFor(within(t, ctx), "Ready in the new group", func(o *v1alpha1.RouteReflectorPool) bool {
		return isReady(o) && !locked(o) && o.Status.CalicoAPI == calico.GroupV3.String()
	}))
	require.Equal(t, sessions, established(t, s), "on the reflectors")
	expect.NothingLost(t, s)

	s.Lab.Checkpoint("return")
	require.NoError(t, s.SetMode(ctx, v1alpha1.ModeFullMesh))
	require.NoError(t, s.WaitReady(within(t, ctx)))
	for _, resource := range []string{"bgppeers", "caliconodestatuses"} {
		list, err := objects.Resource(calico.GroupV3.WithResource(resource)).List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		require.Empty(t, list.Items)
	}
	writes, err = s.Lab.ControlPlane().Writes(site.User(), since)
	require.NoError(t, err)
	groups := map[string]int{}
	for _, w := range writes {
		groups[w.Group]++
	}
	require.NotZero(t, groups[calico.GroupV3.Group])
	require.Zero(t, groups[calico.GroupV1.Group], "nothing is written to the dead group")
	soon(t, func(c *assert.CollectT) {
		for _, session := range established(c, s) {
			require.Contains(c, session, " Mesh_")
		}
	})
	expect.NothingLost(t, s)
}

var (
	migrations = schema.GroupVersion{Group: "migration.projectcalico.org", Version: "v1"}
	moved      = []string{"bgpconfigurations", "bgppeers", "blockaffinities", "caliconodestatuses", "clusterinformations", "ippools"}
)

func locked(o *v1alpha1.RouteReflectorPool) bool {
	c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionProgressing)
	return c != nil && c.Reason == "DatastoreLocked"
}

func established(t require.TestingT, s *site.Site) (out []string) {
	for _, name := range s.Workers {
		sessions, err := s.Lab.Sessions(name)
		require.NoError(t, err)
		for _, session := range sessions {
			require.True(t, session.Established(), "%s: %+v", name, session)
			out = append(out, name+" "+session.Name)
		}
	}
	return out
}

func patch(t *testing.T, ctx context.Context, objects dynamic.Interface, group schema.GroupVersion, resource, name string, change map[string]any) { //nolint:revive // t comes first in tests
	t.Helper()
	body, err := json.Marshal(change)
	require.NoError(t, err)
	_, err = objects.Resource(group.WithResource(resource)).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
	require.NoError(t, err)
}

// move copies a kind's objects. In the first group Calico keeps an object's metadata in an annotation.
func move(t *testing.T, ctx context.Context, objects dynamic.Interface, resource string) { //nolint:revive // t comes first in tests
	t.Helper()
	list, err := objects.Resource(calico.GroupV1.WithResource(resource)).List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	to := objects.Resource(calico.GroupV3.WithResource(resource))
	for _, from := range list.Items {
		metadata := struct{ Labels, Annotations map[string]string }{Labels: from.GetLabels()}
		if text := from.GetAnnotations()["projectcalico.org/metadata"]; text != "" {
			require.NoError(t, json.Unmarshal([]byte(text), &metadata))
		}
		o := &unstructured.Unstructured{Object: map[string]any{"kind": from.GetKind(), "spec": from.Object["spec"]}}
		o.SetAPIVersion(calico.GroupV3.String())
		o.SetName(from.GetName())
		o.SetLabels(metadata.Labels)
		o.SetAnnotations(metadata.Annotations)
		if resource == "blockaffinities" {
			deleted, _, _ := unstructured.NestedString(o.Object, "spec", "deleted")
			require.NoError(t, unstructured.SetNestedField(o.Object, deleted == "true", "spec", "deleted"))
		}
		created, err := to.Create(ctx, o, metav1.CreateOptions{})
		require.NoError(t, err)
		if created.Object["status"] = from.Object["status"]; resource == "caliconodestatuses" {
			_, err = to.UpdateStatus(ctx, created, metav1.UpdateOptions{})
			require.NoError(t, err)
		}
	}
}

// native makes Calico's programs, which are of a release that knows the first group only, work in the second: what they ask for and what they
// get is translated on the way. It returns the kubeconfig that leads them there.
func native(t *testing.T, s *site.Site) string {
	t.Helper()
	v1, v3 := "/apis/"+calico.GroupV1.String()+"/", "/apis/"+calico.GroupV3.String()+"/"
	version := func(group schema.GroupVersion) []byte { return []byte(`"apiVersion":"` + group.String() + `"`) }
	return through(t, s, func(r *http.Request) {
		path, ours := strings.CutPrefix(r.URL.Path, v1)
		if !ours {
			return
		}
		r.URL.Path = v3 + path
		r.Header.Del("Accept-Encoding")
		if r.Body == nil { // a proxy drops an empty one
			return
		}
		body, _ := io.ReadAll(r.Body)
		body = bytes.ReplaceAll(body, version(calico.GroupV1), version(calico.GroupV3))
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}, func(r *http.Response) error {
		if !strings.HasPrefix(r.Request.URL.Path, v3) {
			return nil
		}
		from, body := r.Body, bufio.NewReader(r.Body)
		out, in := io.Pipe()
		go func() {
			defer func() { _ = from.Close() }()
			for {
				line, err := body.ReadBytes('\n')
				line = bytes.ReplaceAll(line, version(calico.GroupV3), version(calico.GroupV1))
				line = bytes.ReplaceAll(line, []byte(`"deleted":false`), []byte(`"deleted":"false"`))
				if _, gone := in.Write(line); gone != nil || err != nil {
					_ = in.CloseWithError(err)
					return
				}
			}
		}()
		r.Body, r.ContentLength = out, -1
		r.Header.Del("Content-Length")
		return nil
	})
}

// through returns a kubeconfig for calico-node that leads to the apiserver through changes. On the way the reporter's Update becomes the
// UpdateStatus that it is in Calico 3.33.
func through(t *testing.T, s *site.Site, request func(*http.Request), response func(*http.Response) error) string {
	t.Helper()
	config := s.Lab.ControlPlane().UserConfig("lab-calico-node", "system:masters")
	target, err := url.Parse(config.Host)
	require.NoError(t, err)
	transport, err := rest.TransportFor(config)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, ModifyResponse: response, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		if r.Out.Method == http.MethodPut && strings.Contains(r.Out.URL.Path, "/caliconodestatuses/") {
			r.Out.URL.Path += "/status"
		}
		request(r.Out)
	}}
	listener, err := net.Listen("tcp", net.JoinHostPort(target.Hostname(), "0"))
	require.NoError(t, err)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: proxy, ReadHeaderTimeout: 10 * time.Second}}
	server.Start()
	t.Cleanup(server.CloseClientConnections)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, controlplane.WriteKubeconfig(kubeconfig, &rest.Config{Host: server.URL}))
	return kubeconfig
}
