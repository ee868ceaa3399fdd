package controlplane

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// AdminConfig returns a copy of the configuration of a user who may do everything, without a client-side rate limit.
func (c *ControlPlane) AdminConfig() *rest.Config { return rest.CopyConfig(c.admin) }

// UserConfig returns a configuration with which the admin acts as a user with these groups, and may do only what RBAC grants that user.
func (c *ControlPlane) UserConfig(user string, groups ...string) *rest.Config {
	config := rest.CopyConfig(c.admin)
	config.QPS, config.Burst = 0, 0 // the limits that clients have by themselves
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return config
}

// ServiceAccountConfig returns a configuration that the apiserver takes for the service account's own: the same
// user name and groups as its token would give. The ServiceAccount object need not exist.
func (c *ControlPlane) ServiceAccountConfig(namespace, name string) *rest.Config {
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
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{
		Token: config.BearerToken, Impersonate: config.Impersonate.UserName, ImpersonateGroups: config.Impersonate.Groups,
	}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return nil
}
