package controlplane

import (
	"fmt"
	"net"
	"os"
	"strconv"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
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
		Host: "https://" + net.JoinHostPort(c.options.Host, strconv.Itoa(c.options.Port)),
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

// Kubeconfig renders a configuration of ours as a kubeconfig file.
func Kubeconfig(config *rest.Config) ([]byte, error) {
	const name = "rrpool"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	data, err := clientcmd.Write(*file)
	if err != nil {
		return nil, fmt.Errorf("rendering a kubeconfig: %w", err)
	}
	return data, nil
}

// WriteKubeconfig writes a configuration of ours to a kubeconfig file that only its owner may read.
func WriteKubeconfig(path string, config *rest.Config) error {
	data, err := Kubeconfig(config)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return nil
}
