package controlplane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// AdminConfig returns a copy of the configuration of a user who may do everything, without a client-side rate limit.
func (c *ControlPlane) AdminConfig() *rest.Config { return rest.CopyConfig(c.admin) }

// UserConfig returns a configuration that authenticates as a user with these groups. The user may do only what RBAC grants.
func (c *ControlPlane) UserConfig(user string, groups ...string) (*rest.Config, error) {
	signed, err := c.authority.client(user, groups)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host: c.url,
		TLSClientConfig: rest.TLSClientConfig{
			CAData: c.authority.pem(), CertData: signed.certificate, KeyData: signed.key,
		},
	}, nil
}

// ServiceAccountConfig returns a configuration that the apiserver takes for the service account's own, by certificate: the same
// user name and groups as its token would give. The ServiceAccount object need not exist.
func (c *ControlPlane) ServiceAccountConfig(namespace, name string) (*rest.Config, error) {
	return c.UserConfig(ServiceAccountUser(namespace, name), "system:serviceaccounts", "system:serviceaccounts:"+namespace)
}

// ServiceAccountUser is the user name of a service account, as audit events have it.
func ServiceAccountUser(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

// WriteKubeconfig writes a configuration of ours to a kubeconfig file that only its owner may read.
func WriteKubeconfig(path string, config *rest.Config) error {
	const name = "rrpool"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return nil
}

// certificateLifetime outlasts any test and any demonstration.
const certificateLifetime = 7 * 24 * time.Hour

// authority signs what the apiserver serves with and what users authenticate with.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// pair is a certificate and its key, both PEM.
type pair struct {
	certificate, key []byte
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the CA key: %w", err)
	}
	certificate, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "rrpool-test-ca"}, key)
	if err != nil {
		return nil, fmt.Errorf("making the CA certificate: %w", err)
	}
	return &authority{certificate: certificate, key: key}, nil
}

func (a *authority) pem() []byte { return encode(a.certificate.Raw) }

func encode(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})
}

// serving signs a server certificate for names and addresses.
func (a *authority) serving(names ...string) (pair, error) {
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "kube-apiserver"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	return a.sign(template)
}

// client signs a certificate that authenticates a user and its groups.
func (a *authority) client(user string, groups []string) (pair, error) {
	return a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: user, Organization: groups}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *authority) sign(template *x509.Certificate) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("making a key: %w", err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100)); err != nil {
		return pair{}, fmt.Errorf("making a serial number: %w", err)
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(certificateLifetime)
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return pair{}, fmt.Errorf("signing for %q: %w", template.Subject.CommonName, err)
	}
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return pair{}, fmt.Errorf("encoding a key: %w", err)
	}
	return pair{certificate: encode(der), key: encoded}, nil
}
