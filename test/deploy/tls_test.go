package deploy_test

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// unverified gives a field a value, or hands it on, that makes a client talk to any server: fields of crypto/tls, of client-go, and
// of the SDK of IBM Cloud.
var unverified = regexp.MustCompile(`\b(?:InsecureSkipVerify|Insecure|InsecureSkipTLSVerify|SSLDisable|VerifyPeerCertificate|VerifyConnection)` +
	`\b(?::| *=[^=]|\))`)

// asTheUserSays is where the choice of a user's own kubeconfig is handed on, for the command
// line. The manager takes no such kubeconfig.
const asTheUserSays = "controllers/calico/client.go: InsecureSkipTLSVerify:"

// No code of the product can be made to talk to a server that cannot prove who it is.
func TestNoCodeTalksToAnybody(t *testing.T) {
	var found []string
	count := 0
	for _, folder := range []string{"cloud", "cmd", "config", "controllers"} {
		require.NoError(t, filepath.WalkDir(path(folder), func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			count++
			at, err := filepath.Rel(path(), name)
			for _, field := range unverified.FindAllString(text(t, name), -1) {
				found = append(found, at+": "+field)
			}
			return err
		}))
	}
	require.Equal(t, []string{asTheUserSays}, found)
	require.Greater(t, count, 100, "the code was looked at")
	for _, source := range []string{
		"tls.Config{InsecureSkipVerify: true}", "c.InsecureSkipVerify = no()", "flag(&c.InsecureSkipVerify)",
		"rest.TLSClientConfig{Insecure: true}", "bluemix.Config{SSLDisable: true}",
	} {
		require.Regexp(t, unverified, source, "negative control")
	}
}
