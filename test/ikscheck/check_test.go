package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/iksserver"
)

const (
	apiKey  = "s3cr3t+key"
	account = "0123456789abcdef0123456789abcdef"
)

var spoiled strings.Builder

// cloudOf has one cluster; its answers about it name its owner and the account.
func cloudOf(generation string, profile iksserver.Profile) *iksserver.Server {
	s := iksserver.New(iksserver.Config{
		APIKeys: []string{apiKey}, Profile: profile,
		Delays: iksserver.Delays{Pending: time.Minute, Provisioning: time.Minute, Deploying: time.Minute, Deleting: time.Minute},
	})
	c := iksserver.Cluster{ID: "c1", Name: "prod", Provider: generation, ResourceGroup: strings.Repeat("ab", 16)}
	zone := iksserver.Zone{ID: "dal10", VLANs: []iksserver.VLAN{{ID: "1", Type: "private", Router: "bcr01a"}, {ID: "2", Type: "public", Router: "fcr01a"}}}
	if generation == iksserver.VPC {
		c.VPCID, zone = "r006-vpc", iksserver.Zone{ID: "us-south-1", Subnets: []iksserver.Subnet{{ID: "s1", CIDR: "10.0.0.0/24", Available: 9}}}
	}
	c.Zones = []iksserver.Zone{zone}
	c.Pools = []iksserver.Pool{{Name: "default", Flavor: "bx2.4x16", SizePerZone: 1, Zones: []string{zone.ID}}}
	s.AddCluster(c)
	s.Inject(iksserver.Fault{Path: "getCluster$", Spoil: func(b []byte) []byte {
		b = bytes.Replace(b, []byte("{"), []byte(`{"ownerEmail":"jane@example.org","apiUser":"IBMid-27000","crn":"crn:v1:bluemix:public:containers-kubernetes:us-south:a/`+
			account+`:c1::","note":"you sent `+apiKey+` and token-00000003-secret for jane@example.org",`), 1)
		spoiled.Write(b)
		return b
	}})
	return s
}

func ran(ctx context.Context, s http.RoundTripper, dir, order string) (string, error) {
	var out bytes.Buffer
	err := run(ctx, &out, s, func(name string) string {
		return map[string]string{
			"CLUSTER": "c1", "IBMCLOUD_API_KEY": apiKey, "ORDER": order, "ANSWERS": dir,
			"IBMCLOUD_CS_API_ENDPOINT": "https://cs.invalid/global", "IBMCLOUD_IAM_API_ENDPOINT": "https://iam.invalid",
		}[name]
	})
	return out.String(), err
}

func everyCloud(t *testing.T, test func(t *testing.T, s *iksserver.Server, generation string)) {
	t.Helper()
	for _, generation := range []string{iksserver.VPC, iksserver.Classic} {
		for _, profile := range iksserver.Profiles {
			t.Run(fmt.Sprintf("%s, %s", generation, profile), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { test(t, cloudOf(generation, profile), generation) })
			})
		}
	}
}

func TestReadingOrdersNothing(t *testing.T) {
	everyCloud(t, func(t *testing.T, s *iksserver.Server, _ string) {
		t.Helper()
		out, err := ran(t.Context(), s.Transport(), t.TempDir(), "")
		require.NoError(t, err, out)
		require.NotContains(t, out, "DIFFERS")
		require.Contains(t, out, "nothing was ordered")
		_, changes, _ := s.Counts()
		require.Zero(t, changes)
	})
}

func TestTheLifeOfAPoolIsOrderedAndEnds(t *testing.T) {
	everyCloud(t, func(t *testing.T, s *iksserver.Server, generation string) {
		t.Helper()
		out, err := ran(t.Context(), s.Transport(), t.TempDir(), "yes")
		require.NoError(t, err, out)
		for _, says := range []string{"COST: three workers", "asked for again", "is replaced", "removeWorkerPoolZone with a worker in it: 204", "the pool is deleted"} {
			require.Contains(t, out, says)
		}
		require.Equal(t, generation == iksserver.VPC, strings.Contains(out, "USD an hour"))
		require.Less(t, strings.Index(out, "COST"), strings.Index(out, "created the pool"))
		require.Equal(t, []string{"default"}, s.Pools("c1"))
	})
}

// Whenever it is interrupted, and whatever is refused, the pool goes; where it cannot, the command is said that deletes it.
func TestAPoolIsDeletedWhateverHappens(t *testing.T) {
	for name, spoil := range map[string]func(s *iksserver.Server, stop func()){
		"interrupted while the pool is made": func(_ *iksserver.Server, stop func()) { time.AfterFunc(2*time.Second, stop) },
		"interrupted later":                  func(_ *iksserver.Server, stop func()) { time.AfterFunc(4*time.Minute, stop) },
		"a quota":                            func(s *iksserver.Server, _ func()) { s.SetQuota(1) },
		"a zone is refused": func(s *iksserver.Server, _ func()) {
			s.Inject(iksserver.Fault{Method: "POST", Path: "one(s)?$", Status: 400, Body: `{"code":"E1","description":"no"}`})
		},
		"a deletion that fails at first": func(s *iksserver.Server, stop func()) {
			time.AfterFunc(time.Minute, stop)
			s.Inject(iksserver.Fault{Method: "DELETE", Status: 500, Times: 2})
		},
		"a deletion that fails": func(s *iksserver.Server, stop func()) {
			time.AfterFunc(time.Minute, stop)
			s.Inject(iksserver.Fault{Method: "DELETE", Status: 500})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := cloudOf(iksserver.VPC, iksserver.Slow)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				spoil(s, stop)
				out, err := ran(ctx, s.Transport(), t.TempDir(), "yes")
				require.Error(t, err, out)
				if name == "a deletion that fails" {
					require.ErrorContains(t, err, "IS STILL THERE")
					require.Regexp(t, `ibmcloud ks worker-pool rm --cluster c1 --worker-pool rrpool-check-\w{4}`, err.Error())
					return
				}
				time.Sleep(5 * time.Minute) // by when one that was under way would be there
				require.Equal(t, []string{"default"}, s.Pools("c1"), out)
			})
		})
	}
}

var secrets = regexp.MustCompile(regexp.QuoteMeta(apiKey) + `|token-0|jane|IBMid-|` + account + `|(ab){16}`)

func TestNoSecretIsSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spoiled.Reset()
		s, dir := cloudOf(iksserver.VPC, iksserver.Documented), t.TempDir()
		_, err := ran(t.Context(), s.Transport(), dir, "")
		require.NoError(t, err)
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		var all strings.Builder
		for _, file := range files {
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			all.Write(content)
		}
		require.NotRegexp(t, secrets, all.String())
		// The control: each of them was in an answer.
		for _, secret := range []string{apiKey, "token-0", "jane", "IBMid-", account, strings.Repeat("ab", 16)} {
			require.Contains(t, spoiled.String(), secret)
			require.Regexp(t, secrets, secret)
		}
	})
}
