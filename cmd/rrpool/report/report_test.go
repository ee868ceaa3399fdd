package report

import (
	"archive/tar"
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"os"
	"path"
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

func TestWhatLooksLikeASecretGoes(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"an API key of IBM Cloud":     {"key " + ibmAPIKey + ", refused", "key [redacted], refused"},
		"a bearer token":              {"Authorization: Bearer abc.def-ghi", "Authorization: [redacted]"},
		"basic credentials":           {`"Authorization":["Basic dXNlcjpwYXNz"]`, `"Authorization":["[redacted]"]`},
		"a bearer token alone":        {"used bearer abcdefghi now", "used bearer [redacted] now"},
		"a JSON Web Token":            {"got " + jsonWebTok + ".", "got [redacted]."},
		"an assignment":               {"password=hunter2 next", "password=[redacted] next"},
		"a field of JSON":             {`{"apikey":"hunter2","a":1}`, `{"apikey":[redacted],"a":1}`},
		"a field of JSON in JSON":     {`"{\"apikey\":\"hunter2\"}"`, `"{\"apikey\":[redacted]}"`},
		"a field of YAML":             {"  client-key-data: aHVudGVyMg==\n  next: 1", "  client-key-data: [redacted]\n  next: 1"},
		"BIRD's password":             {`  password "hunter2";`, `  password "[redacted]";`},
		"an argument":                 {"--api-token=hunter2 --v=2", "--api-token=[redacted] --v=2"},
		"a variable":                  {"IBMCLOUD_API_KEY=hunter2", "IBMCLOUD_API_KEY=[redacted]"},
		"a URL":                       {"https://me:hunter2@host/x", "https://me:[redacted]@host/x"},
		"a password with an @":        {"at https://me:p@ss@host/x and", "at https://me:[redacted]@host/x and"},
		"a password with a slash":     {`"https://me:p/w@host/x"`, `"https://me:[redacted]@host/x"`},
		"a password of digits":        {"etcd://me:1234@host:2379/x", "etcd://me:[redacted]@host:2379/x"},
		"auth of Docker":              {`{"auths":{"icr.io":{"auth":"dTpw","email":"a"}}}`, `{"auths":{"icr.io":{"auth":[redacted],"email":"a"}}}`},
		"auth of Docker in JSON":      {`"{\"auth\":\"dTpw\"}"`, `"{\"auth\":[redacted]}"`},
		"a Secret of Docker's":        {".dockerconfigjson: eyJhIjoxfQ==", ".dockerconfigjson: [redacted]"},
		"pass":                        {"user=me pass=hunter2 next", "user=me pass=[redacted] next"},
		"DB_PASS and pwd":             {"DB_PASS=hunter2; pwd: 'a b'", "DB_PASS=[redacted]; pwd: [redacted]"},
		"dbPass":                      {`{"dbPass":"hunter2","a":1}`, `{"dbPass":[redacted],"a":1}`},
		"mysqlPwd":                    {"mysqlPwd=hunter2 next", "mysqlPwd=[redacted] next"},
		"DB_PASSWD":                   {"DB_PASSWD=hunter2 next", "DB_PASSWD=[redacted] next"},
		"apiToken":                    {"apiToken: hunter2", "apiToken: [redacted]"},
		"x-api-key":                   {"X-Api-Key: hunter2", "X-Api-Key: [redacted]"},
		"what only ends like that":    {"compass=north, bypass: 1, encompass: 2, COMPASS=3", "compass=north, bypass: 1, encompass: 2, COMPASS=3"},
		"what only begins like that":  {"passive: true, bypass: 1, author=me, 3 tests pass", "passive: true, bypass: 1, author=me, 3 tests pass"},
		"a token as a URL's user":     {"get http://TOKEN@host/x", "get http://[redacted]@host/x"},
		"a flag's argument":           {`run --api-key x1 --db-password 'y2' --token-file /kept -v`, `run --api-key [redacted] --db-password '[redacted]' --token-file /kept -v`},
		"arguments as JSON":           {`["--api-key","x1","--token","-v"]`, `["--api-key","[redacted]","--token","-v"]`},
		"curl -u":                     {"curl -u me:hunter2 https://h; curl --user=me:a,b", "curl -u me:[redacted] https://h; curl --user=me:[redacted],b"},
		"webhooks":                    {"https://hooks.slack.com/services/T0/B0/xyz https://discord.com/api/webhooks/1/ab", "https://hooks.slack.com/services/[redacted] https://discord.com/api/webhooks/[redacted]"},
		"signed URLs":                 {"https://h/x?sv=1&sig=a%2Bb&se=2 https://h?X-Amz-Signature=abc", "https://h/x?sv=1&sig=[redacted]&se=2 https://h?X-Amz-Signature=[redacted]"},
		"an account's key":            {"AccountName=a;AccountKey=Zm9v==;End=1", "AccountName=a;AccountKey=[redacted];End=1"},
		"a key of AWS":                {"id AKIAIOSFODNN7EXAMPLE.", "id [redacted]."},
		"cookies":                     {"Cookie: a=b; c=d\nset-cookie: [\"x=y\"]", "Cookie: [redacted]\nset-cookie: [\"[redacted]\"]"},
		"a private key":               {"a\n-----BEGIN EC PRIVATE KEY-----\nMHc\n-----END EC PRIVATE KEY-----\nb", "a\n[redacted]\nb"},
		"a private key that is cut":   {"a\n-----BEGIN PRIVATE KEY-----\nMHc", "a\n[redacted]"},
		"a name of a worker stays":    {"kube-c0ffee0000000000000000-mycluster-default-000001f2", "kube-c0ffee0000000000000000-mycluster-default-000001f2"},
		"a name with 44 letters":      {"kube-c0ffee000000000000-mycluster-default-01", "kube-c0ffee000000000000-mycluster-default-01"},
		"a message about a Secret":    {"Secret rrpool-system/rrpool-ibmcloud does not exist", "Secret rrpool-system/rrpool-ibmcloud does not exist"},
		"a metric":                    {`rrpool_condition{type="Ready",status="True"} 1`, `rrpool_condition{type="Ready",status="True"} 1`},
		"an address with a port":      {"dial tcp 10.0.0.1:443: refused", "dial tcp 10.0.0.1:443: refused"},
		"a URL without a password":    {"https://host:8080/path@1", "https://host:8080/path@1"},
		"a step that names a session": {"waits for 10.0.0.7 ↔ 10.0.0.42 to be Established", "waits for 10.0.0.7 ↔ 10.0.0.42 to be Established"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, (&redactor{}).text(tc.text))
		})
	}
}

// A known value goes whatever it looks like, and however it is written.
func TestWhatIsKnownGoes(t *testing.T) {
	r := &redactor{}
	const value = `blue "moon" & <tree>`
	r.learn(value+"\n", true)
	r.learn("short", false)
	for _, text := range []string{
		value, `blue \"moon\" \u0026 \u003ctree\u003e`, url.QueryEscape(value), base64.StdEncoding.EncodeToString([]byte(value)), base64.RawURLEncoding.EncodeToString([]byte(value)),
	} {
		require.Equal(t, "a [redacted] b", r.text("a "+text+" b"))
	}
	require.Equal(t, "a short b", r.text("a short b"), "what may be any word is not")
	r.learn("-----BEGIN X-----\nline-one-of-it\nline-two-of-it\n-----END X-----", false)
	require.Equal(t, "[redacted] and [redacted]", r.text("line-two-of-it and line-one-of-it"))
	r.learn("  \n", true)
	require.Equal(t, "a  b", r.text("a  b"), "nothing is no secret")
}

func TestFieldsOfObjects(t *testing.T) {
	got := (&redactor{}).object(map[string]any{
		"metadata": map[string]any{"name": "x", "managedFields": []any{"y"}, "annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": "z"}},
		"spec": map[string]any{
			"password": "p", "auth": "a", "pass": "p", "dbPass": "p", "mysqlPwd": "p", "db.pwd": "p", "apiToken": "p", "x-api-key": "p", "compass": "kept", "bypass": "kept", "passive": "kept", ".dockerconfigjson": "d", "apiKey": "k", "empty-token": "", "secretName": "kept", "passwordSecretRef": map[string]any{"name": "kept", "key": "kept"}, "tokenFile": "/kept",
			"env":  []any{map[string]any{"name": "DB_PASSWORD", "value": "p"}, map[string]any{"name": "KEPT", "value": "kept"}},
			"args": []any{"--token=t", "--kept=1"}, "command": []any{"--api-key", "x", "--token", "--kept", "--token-file", "kept"}, "tokens": []any{"a", "b"}, "seconds": int64(3),
		},
	})
	require.Equal(t, map[string]any{
		"metadata": map[string]any{"name": "x"},
		"spec": map[string]any{
			"password": gone, "auth": gone, "pass": gone, "dbPass": gone, "mysqlPwd": gone, "db.pwd": gone, "apiToken": gone, "x-api-key": gone, "compass": "kept", "bypass": "kept", "passive": "kept", ".dockerconfigjson": gone, "apiKey": gone, "empty-token": "", "secretName": "kept", "passwordSecretRef": map[string]any{"name": "kept", "key": "kept"}, "tokenFile": "/kept",
			"env":  []any{map[string]any{"name": "DB_PASSWORD", "value": gone}, map[string]any{"name": "KEPT", "value": "kept"}},
			"args": []any{"--token=" + gone, "--kept=1"}, "command": []any{"--api-key", gone, "--token", "--kept", "--token-file", "kept"}, "tokens": []any{gone, gone}, "seconds": int64(3),
		},
	}, got)
}

// Whatever pods and namespaces are called, the archive unpacks into its folder, and each file is there once.
func FuzzArchive(f *testing.F) {
	f.Add("rrpool-manager-0", "manager")
	f.Add("../../etc", "passwd")
	f.Add("/root", "..")
	f.Add("a\x00b", "c\\..\\d")
	f.Add(strings.Repeat("p", 300), "")
	f.Add("a", "b")
	f.Fuzz(func(t *testing.T, pod, container string) {
		r := &reader{redact: &redactor{}, now: time.Unix(1e9, 0), files: map[string]string{}}
		r.add("logs/"+pod+"/"+container+".log", "content\n")
		r.add("logs/a/b.log", "content\n")
		packed, err := pack("rrpool-report-x", r.files, r.now)
		require.NoError(t, err)
		files, headers, _ := unpack(t, packed)
		for _, header := range headers {
			require.Equal(t, path.Clean(header.Name), header.Name)
			require.True(t, strings.HasPrefix(header.Name, "rrpool-report-x/"), "%q", header.Name)
			require.NotContains(t, header.Name, "\\")
			require.NotContains(t, header.Name, "\n")
			require.EqualValues(t, tar.TypeReg, header.Typeflag)
		}
		require.Equal(t, r.files, files)
	})
}

// A secret that was read is in nothing that is written, whatever stands around it.
func FuzzRedact(f *testing.F) {
	f.Add("hush-hush-hush", "password: ", "\n", "value")
	f.Add("hush\"hush\\hush", `{"token":"`, `"}`, "password")
	f.Add("hush hush+hush/hush", "Authorization: Bearer ", ",", "name")
	f.Add("-----BEGIN RSA PRIVATE KEY-----\nabcdefgh\n-----END RSA PRIVATE KEY-----", "x", "y", "key")
	f.Add("aaaaaaaaaaaa", "aaaa", "aaaa", "a")
	f.Fuzz(func(t *testing.T, secret, before, after, field string) {
		secret = strings.TrimSpace(secret)
		if len(secret) < 8 || strings.Contains(gone, secret) || strings.ContainsAny(secret, "[]\n") || strings.HasPrefix(secret, "-----") {
			t.Skip("too short to differ from a word, or several lines")
		}
		r := &reader{redact: &redactor{}, files: map[string]string{}}
		r.redact.learn(secret, false)
		r.add("a", before+secret+after)
		object := r.redact.object(map[string]any{"spec": map[string]any{field: before + secret + after, "list": []any{secret}}})
		require.NotContains(t, r.files["a"], secret)
		spec, _ := object["spec"].(map[string]any)
		for _, value := range []any{spec[field], spec["list"]} {
			switch value := value.(type) {
			case string:
				require.NotContains(t, value, secret)
			case []any:
				require.NotContains(t, value[0], secret)
			}
		}
	})
}
