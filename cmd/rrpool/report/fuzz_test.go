package report

import (
	"archive/tar"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
