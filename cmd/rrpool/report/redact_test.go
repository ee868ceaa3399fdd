package report

import (
	"archive/tar"
	"encoding/base64"
	"net/url"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
			"password": "p", "apiKey": "k", "empty-token": "", "secretName": "kept", "passwordSecretRef": map[string]any{"name": "kept", "key": "kept"}, "tokenFile": "/kept",
			"env":  []any{map[string]any{"name": "DB_PASSWORD", "value": "p"}, map[string]any{"name": "KEPT", "value": "kept"}},
			"args": []any{"--token=t", "--kept=1"}, "tokens": []any{"a", "b"}, "seconds": int64(3),
		},
	})
	require.Equal(t, map[string]any{
		"metadata": map[string]any{"name": "x"},
		"spec": map[string]any{
			"password": gone, "apiKey": gone, "empty-token": "", "secretName": "kept", "passwordSecretRef": map[string]any{"name": "kept", "key": "kept"}, "tokenFile": "/kept",
			"env":  []any{map[string]any{"name": "DB_PASSWORD", "value": gone}, map[string]any{"name": "KEPT", "value": "kept"}},
			"args": []any{"--token=" + gone, "--kept=1"}, "tokens": []any{gone, gone}, "seconds": int64(3),
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
