package etcd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/apiconfig"
	libapiv3 "github.com/projectcalico/calico/libcalico-go/lib/apis/v3"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/test/controlplane"
)

func TestADatastoreThatCannotBeUsedIsRefusedByName(t *testing.T) {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.Contains(name, "ETCD_") || name == DatastoreVariable {
			t.Setenv(name, "")
			require.NoError(t, os.Unsetenv(name))
		}
	}
	const unreadable = "K8S_DISABLE_NODE_POLL" // is read with etcd alone
	for name, tc := range map[string]struct {
		variables map[string]string
		isEtcd    bool
		want      string
	}{
		"none":                        {map[string]string{unreadable: "perhaps"}, false, ""},
		"the apiserver":               {map[string]string{DatastoreVariable: "kubernetes", unreadable: "perhaps"}, false, ""},
		"etcd":                        {map[string]string{DatastoreVariable: "etcdv3", endpointsVariable: "http://192.0.2.1:2379"}, true, ""},
		"etcd, as calicoctl":          {map[string]string{endpointsVariable: "http://192.0.2.1:2379"}, true, ""},
		"etcd, and what is no number": {map[string]string{endpointsVariable: "http://192.0.2.1:2379", unreadable: "perhaps"}, false, "perhaps"},
		"etcd without addresses":      {map[string]string{DatastoreVariable: "etcdv3"}, false, `DATASTORE_TYPE="etcdv3", but neither ETCD_ENDPOINTS nor ETCD_DISCOVERY_SRV is set`},
		"etcd with both":              {map[string]string{endpointsVariable: "http://a:1", discoveryVariable: "b.example"}, false, `ETCD_ENDPOINTS="http://a:1" and ETCD_DISCOVERY_SRV="b.example" are both set`},
		"another":                     {map[string]string{DatastoreVariable: "incluster"}, false, `DATASTORE_TYPE="incluster" is not a datastore: unset it, or set it to "kubernetes" or "etcdv3"`},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range tc.variables {
				t.Setenv(variable, value)
			}
			config, err := ConfigFromEnvironment()
			require.Equal(t, tc.isEtcd, config != nil)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// newClient makes a client of an etcd of its own.
func newClient(t *testing.T) *Client {
	t.Helper()
	etcd, err := controlplane.StartEtcd(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(etcd.Stop)
	e, err := New(apiconfig.EtcdConfig{EtcdEndpoints: etcd.URL}, func() {})
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// authority signs certificates into a folder.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	template := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.cert, a.key = a.sign(name, template, time.Hour)
	return a
}

// sign writes NAME.crt and NAME.key.
func (a *authority) sign(name string, template *x509.Certificate, holds time.Duration) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<60))
	require.NoError(a.t, err)
	template.SerialNumber, template.Subject = serial, pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(holds)
	template.IPAddresses = []net.IP{net.ParseIP("127.0.0.1")}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	parent, by := a.cert, a.key
	if parent == nil {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	require.NoError(a.t, err)
	secret, err := x509.MarshalECPrivateKey(key)
	require.NoError(a.t, err)
	for file, block := range map[string]*pem.Block{name + ".crt": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "EC PRIVATE KEY", Bytes: secret}} {
		require.NoError(a.t, os.WriteFile(a.path(file), pem.EncodeToMemory(block), 0o600))
	}
	out, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	return out, key
}

func (a *authority) path(file string) string { return filepath.Join(a.dir, file) }

// What is wrong with ETCD_* is said by variable, value and remedy, of a real etcd that wants client certificates.
func TestEtcdThatCannotBeUsedIsExplained(t *testing.T) {
	t.Parallel()
	ca, others := newAuthority(t, "ca"), newAuthority(t, "others")
	ca.sign("server", &x509.Certificate{}, time.Hour)
	ca.sign("rrpool", &x509.Certificate{}, time.Hour)
	ca.sign("expired", &x509.Certificate{}, -time.Hour)
	others.sign("stranger", &x509.Certificate{}, time.Hour)
	etcd, err := controlplane.StartEtcd(t.Context(), t.TempDir(), "--cert-file="+ca.path("server.crt"), "--key-file="+ca.path("server.key"),
		"--trusted-ca-file="+ca.path("ca.crt"), "--client-cert-auth")
	require.NoError(t, err)
	t.Cleanup(etcd.Stop)
	good := apiconfig.EtcdConfig{
		EtcdEndpoints: etcd.URL, EtcdCACertFile: ca.path("ca.crt"), EtcdCertFile: ca.path("rrpool.crt"), EtcdKeyFile: ca.path("rrpool.key"),
	}
	ask := func(config apiconfig.EtcdConfig) error {
		e, err := New(config, func() {})
		if err != nil {
			return err
		}
		defer func() { _ = e.Close() }()
		return e.Alive(t.Context())
	}
	require.ErrorContains(t, ask(good), `has no ClusterInformation "default": is it the one that calico-node uses?`)
	e, err := New(good, func() {})
	require.NoError(t, err)
	info := apiv3.NewClusterInformation()
	info.Name = "default"
	require.NoError(t, e.Create(t.Context(), info))
	require.NoError(t, e.Close())
	require.NoError(t, ask(good))
	t.Run("one thing that is wrong", func(t *testing.T) {
		for name, tc := range map[string]struct {
			edit func(*apiconfig.EtcdConfig)
			says []string
		}{
			"another address": {
				func(c *apiconfig.EtcdConfig) { c.EtcdEndpoints = "https://127.0.0.1:1" },
				[]string{`ETCD_ENDPOINTS="https://127.0.0.1:1"`, "check the address, the network, and that etcd runs"},
			},
			"no TLS": {
				func(c *apiconfig.EtcdConfig) {
					*c = apiconfig.EtcdConfig{EtcdEndpoints: "http" + etcd.URL[len("https"):]}
				},
				[]string{"ETCD_ENDPOINTS", "check the address"},
			},
			"another CA": {
				func(c *apiconfig.EtcdConfig) { c.EtcdCACertFile = others.path("others.crt") },
				[]string{"ETCD_CA_CERT_FILE", "give the CA that has signed it"},
			},
			"the certificate of another CA": {
				func(c *apiconfig.EtcdConfig) {
					c.EtcdCertFile, c.EtcdKeyFile = others.path("stranger.crt"), others.path("stranger.key")
				},
				[]string{"etcd does not accept ETCD_CERT_FILE"},
			},
			"no certificate": {
				func(c *apiconfig.EtcdConfig) { c.EtcdCertFile, c.EtcdKeyFile = "", "" },
				[]string{`etcd does not accept ETCD_CERT_FILE=""`},
			},
			"a certificate that has expired": {
				func(c *apiconfig.EtcdConfig) {
					c.EtcdCertFile, c.EtcdKeyFile = ca.path("expired.crt"), ca.path("expired.key")
				},
				[]string{`expired.crt" has expired at`, "renew the certificate"},
			},
			"a file that is not there": {
				func(c *apiconfig.EtcdConfig) { c.EtcdKeyFile = "/nowhere/key" },
				[]string{`ETCD_KEY_FILE="/nowhere/key" cannot be read`, "mount the file"},
			},
			"a key of another certificate": {
				func(c *apiconfig.EtcdConfig) { c.EtcdKeyFile = ca.path("expired.key") },
				[]string{"ETCD_CERT_FILE=", "ETCD_KEY_FILE=", "are no certificate and its key"},
			},
			"what is no certificate": {
				func(c *apiconfig.EtcdConfig) { c.EtcdCACertFile = os.Args[0] },
				[]string{"ETCD_CA_CERT_FILE=", "has no PEM block"},
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				config := good
				tc.edit(&config)
				err := ask(config)
				for _, text := range tc.says {
					require.ErrorContains(t, err, text)
				}
			})
		}
	})
	e, err = New(good, func() {})
	require.NoError(t, err)
	_, err = e.kv.UserAdd(t.Context(), "root", "secret")
	require.NoError(t, err)
	_, err = e.kv.UserGrantRole(t.Context(), "root", "root")
	require.NoError(t, err)
	_, err = e.kv.AuthEnable(t.Context())
	require.NoError(t, err)
	require.NoError(t, e.Close())
	require.ErrorContains(t, ask(good), `etcd does not let ETCD_USERNAME="" read and write below /calico: correct the user or ETCD_PASSWORD, or grant that right`)
	good.EtcdUsername, good.EtcdPassword = "root", "secrit"
	err = ask(good)
	require.ErrorContains(t, err, `etcd does not let ETCD_USERNAME="root" read`)
	require.NotContains(t, err.Error(), "secrit")
	good.EtcdPassword = "secret"
	require.NoError(t, ask(good))
}

// The client of etcd reads the CA once.
func TestACAThatIsReplacedEndsTheProcess(t *testing.T) {
	t.Parallel()
	one, two := newAuthority(t, "ca"), newAuthority(t, "ca")
	two.sign("server", &x509.Certificate{}, time.Hour)
	etcd, err := controlplane.StartEtcd(t.Context(), t.TempDir(), "--cert-file="+two.path("server.crt"), "--key-file="+two.path("server.key"))
	require.NoError(t, err)
	t.Cleanup(etcd.Stop)
	file := t.TempDir() + "/ca.crt"
	mount := func(a *authority) {
		content, err := os.ReadFile(a.path("ca.crt"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, content, 0o600))
	}
	mount(one)
	e, err := New(apiconfig.EtcdConfig{EtcdEndpoints: etcd.URL, EtcdCACertFile: file}, func() {})
	require.NoError(t, err)
	err = e.Alive(t.Context())
	require.ErrorContains(t, err, "does not prove the certificate")
	require.NotErrorIs(t, err, ErrNewCA)
	mount(two)
	require.ErrorIs(t, e.Alive(t.Context()), ErrNewCA)

	// A file may have several certificates; one that has expired does no harm.
	two.sign("expired", &x509.Certificate{}, -time.Hour)
	expired, err := os.ReadFile(two.path("expired.crt"))
	require.NoError(t, err)
	valid, err := os.ReadFile(two.path("ca.crt"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, append(expired, valid...), 0o600))
	require.NoError(t, e.checkFiles(time.Now()))
	require.NoError(t, os.WriteFile(file, expired, 0o600))
	require.ErrorContains(t, e.checkFiles(time.Now()), "has expired")
}

// The syncer watches again from the version of the last event, also where that was a deletion. Block affinities of old have an empty value.
func TestADeletionIsAPlaceToGoOnFrom(t *testing.T) {
	t.Parallel()
	e := newClient(t)
	const key = "n/ipv4/block/10.1.2.0-26"
	for kind, edit := range map[string]struct{ create, remove func() error }{
		libapiv3.KindBlockAffinity: {
			func() error { _, err := e.kv.Put(t.Context(), affinityPrefix+key, ""); return err },
			func() error { _, err := e.kv.Delete(t.Context(), affinityPrefix+key); return err },
		},
		apiv3.KindBGPPeer: {
			func() error { return e.Create(t.Context(), &apiv3.BGPPeer{ObjectMeta: metav1.ObjectMeta{Name: "x"}}) },
			func() error { return e.Delete(t.Context(), &apiv3.BGPPeer{ObjectMeta: metav1.ObjectMeta{Name: "x"}}) },
		},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(apiv3.SchemeGroupVersion.WithKind(kind + "List"))
		require.NoError(t, e.List(t.Context(), list))
		from := list.GetResourceVersion()
		for _, edit := range []func() error{edit.create, edit.remove, edit.create} {
			require.NoError(t, edit())
		}
		var first string
		for _, want := range []watch.EventType{watch.Added, watch.Deleted, watch.Added} {
			w, err := e.Watch(t.Context(), list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: from}})
			require.NoError(t, err)
			event := <-w.ResultChan()
			w.Stop()
			require.Equal(t, want, event.Type, kind)
			o := event.Object.(*unstructured.Unstructured)
			if first == "" {
				first = o.GetName()
			}
			require.Equal(t, first, o.GetName())
			if kind == libapiv3.KindBlockAffinity && want == watch.Added {
				state, _, err := unstructured.NestedString(o.Object, "spec", "state")
				require.NoError(t, err)
				require.Equal(t, "confirmed", state)
			}
			from = o.GetResourceVersion()
		}
	}
}

func TestPreconditionsHoldInEtcd(t *testing.T) {
	t.Parallel()
	e := newClient(t)
	peer := apiv3.NewBGPPeer()
	peer.Name = "rrpool-clients"
	require.NoError(t, e.Create(t.Context(), peer))
	require.True(t, apierrors.IsAlreadyExists(e.Create(t.Context(), peer.DeepCopy())))
	old := peer.DeepCopy()
	peer.Spec.PeerIP = "192.0.2.1"
	require.NoError(t, e.Update(t.Context(), peer))
	before := peer.ResourceVersion
	require.NoError(t, e.Update(t.Context(), peer))
	require.Equal(t, before, peer.ResourceVersion, "the same is not written again")
	require.True(t, apierrors.IsConflict(e.Update(t.Context(), old.DeepCopy())))
	for _, only := range []client.Preconditions{{ResourceVersion: &old.ResourceVersion}, {UID: ptr.To(old.UID + "x")}} {
		require.True(t, apierrors.IsConflict(e.Delete(t.Context(), peer, only)))
	}
	var list apiv3.BGPPeerList
	require.NoError(t, e.List(t.Context(), &list))
	require.Equal(t, "rrpool-clients", list.Items[0].Name)
	require.NoError(t, e.Delete(t.Context(), peer, client.Preconditions{UID: ptr.To(peer.UID)}))
	require.True(t, apierrors.IsNotFound(e.Delete(t.Context(), peer)))
	require.True(t, apierrors.IsNotFound(e.Update(t.Context(), peer)))
}
