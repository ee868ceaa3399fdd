package report

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whatever pods and namespaces are called, the archive unpacks into its folder, and each
// file is there once.
func FuzzArchive(f *testing.F) {
	f.Add("rrpool-manager-0", "manager", "log of pod x")
	f.Add("../../etc", "passwd", "a\nb")
	f.Add("/root", "..", "\x1b[2J")
	f.Add("a\x00b", "c\\..\\d", "")
	f.Add(strings.Repeat("p", 300), "", "what")
	f.Add("a", "b", "")
	f.Fuzz(func(t *testing.T, pod, container, what string) {
		r := &reader{redact: &redactor{}, limit: 1 << 10, now: time.Unix(1e9, 0)}
		r.add("logs/"+pod+"/"+container+".log", what, "content\n")
		r.add("metrics/"+pod+".txt", what, "content\n")
		r.add("logs/a/b.log", "log of pod a", "content\n")
		packed, err := pack("rrpool-report-x", r.entries, r.now)
		require.NoError(t, err)
		zipped, err := gzip.NewReader(bytes.NewReader(packed))
		require.NoError(t, err)
		names := map[string]bool{}
		for archive := tar.NewReader(zipped); ; {
			header, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			require.Equal(t, path.Clean(header.Name), header.Name)
			require.True(t, strings.HasPrefix(header.Name, "rrpool-report-x/"), "%q", header.Name)
			require.NotContains(t, header.Name, "\\")
			require.NotContains(t, header.Name, "\n")
			require.EqualValues(t, tar.TypeReg, header.Typeflag)
			names[header.Name] = true
		}
		require.Len(t, names, len(r.entries))
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
		r := &reader{redact: &redactor{}, limit: 1 << 20}
		r.redact.learn(secret, false)
		r.add("a", "what", before+secret+after)
		object := r.redact.object(map[string]any{"spec": map[string]any{field: before + secret + after, "list": []any{secret}}})
		require.NotContains(t, string(r.entries[0].content), secret)
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
