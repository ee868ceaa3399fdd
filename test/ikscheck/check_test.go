package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/iksserver"
)

const (
	apiKey  = "s3cr3t+key"
	account = "0123456789abcdef0123456789abcdef"
)

// cloudOf has one cluster; its answers about it name its owner and the account.
func cloudOf(generation string, profile iksserver.Profile) *iksserver.Server {
	s := iksserver.New(iksserver.Config{APIKeys: []string{apiKey}, Profile: profile})
	c := iksserver.Cluster{ID: "c1", Name: "prod", Provider: generation, ResourceGroup: strings.Repeat("ab", 16)}
	zone := iksserver.Zone{ID: "dal10", VLANs: []iksserver.VLAN{{ID: "1", Type: "private", Router: "bcr01a"}, {ID: "2", Type: "public", Router: "fcr01a"}}}
	if generation == iksserver.VPC {
		c.VPCID, zone = "r006-vpc", iksserver.Zone{ID: "us-south-1", Subnets: []iksserver.Subnet{{ID: "s1", CIDR: "10.0.0.0/24", Available: 9}}}
	}
	c.Zones = []iksserver.Zone{zone}
	c.Pools = []iksserver.Pool{{Name: "default", Flavor: "bx2.4x16", SizePerZone: 1, Zones: []string{zone.ID}}}
	s.AddCluster(c)
	s.Inject(iksserver.Fault{Path: "getCluster$", Spoil: func(b []byte) []byte {
		return bytes.Replace(b, []byte("{"), []byte(`{"ownerEmail":"jane@example.org","apiUser":"IBMid-27000","crn":"crn:v1:bluemix:public:containers-kubernetes:us-south:a/`+
			account+`:c1::","note":"you sent `+apiKey+` and token-00000003-secret for jane@example.org",`), 1)
	}})
	return s
}

// ran runs the program in a synctest bubble.
func ran(ctx context.Context, s http.RoundTripper, dir string) (string, error) {
	var out bytes.Buffer
	err := run(ctx, &out, s, func(name string) string {
		return map[string]string{
			"CLUSTER": "c1", "IBMCLOUD_API_KEY": apiKey, "ANSWERS": dir,
			"IBMCLOUD_CS_API_ENDPOINT": "https://cs.invalid/global", "IBMCLOUD_IAM_API_ENDPOINT": "https://iam.invalid",
		}[name]
	})
	return out.String(), err
}

func TestEveryCloudIsAsAssumedAndOnlyRead(t *testing.T) {
	for _, generation := range []string{iksserver.VPC, iksserver.Classic} {
		for _, profile := range iksserver.Profiles {
			t.Run(fmt.Sprintf("%s, %s", generation, profile), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := cloudOf(generation, profile)
					out, err := ran(t.Context(), s.Transport(), t.TempDir())
					require.NoError(t, err, out)
					require.NotContains(t, out, "DIFFERS")
					_, changes, _ := s.Counts()
					require.Zero(t, changes)
				})
			})
		}
	}
}

// saved is all that is in the folder.
func saved(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var all strings.Builder
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(content)
	}
	return all.String()
}

var secrets = regexp.MustCompile(regexp.QuoteMeta(apiKey) + `|token-0|jane|IBMid-|` + account + `|(ab){16}`)

func TestNoSecretIsSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir := cloudOf(iksserver.VPC, iksserver.Documented), t.TempDir()
		_, err := ran(t.Context(), s.Transport(), dir)
		require.NoError(t, err)
		require.NotRegexp(t, secrets, saved(t, dir))
		// The control: each of them was in an answer.
		heard := &hearing{RoundTripper: s.Transport()}
		_, err = ran(t.Context(), heard, t.TempDir())
		require.NoError(t, err)
		for _, secret := range []string{apiKey, "token-0", "jane", "IBMid-", account, strings.Repeat("ab", 16)} {
			require.Contains(t, heard.all.String(), secret)
			require.Regexp(t, secrets, secret)
		}
	})
}

// hearing keeps the answers as they come.
type hearing struct {
	http.RoundTripper
	all bytes.Buffer
}

func (h *hearing) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := h.RoundTripper.RoundTrip(r)
	if err == nil && strings.Contains(r.URL.Path, "getCluster") {
		var body bytes.Buffer
		_, err = body.ReadFrom(answer.Body)
		_ = answer.Body.Close()
		_, _ = h.all.Write(body.Bytes())
		answer.Body = http.NoBody
		if err == nil {
			again := httptest.NewRecorder()
			_, _ = again.Write(body.Bytes())
			answer.Body = again.Result().Body
		}
	}
	return answer, err
}
