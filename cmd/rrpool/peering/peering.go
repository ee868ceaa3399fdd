// Package peering is the command `rrpool peering`, which makes the kubeconfig by which a ClusterPeering reads the other cluster.
package peering

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applyrbacv1 "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
)

// New makes the command, whose only subcommand is kubeconfig.
func New(s iostreams.Streams) *cobra.Command {
	cmd := iostreams.Command(&cobra.Command{
		Use:     "peering",
		Short:   "Let another cluster peer with this one",
		Long:    "What a ClusterPeering in another cluster needs of this one.",
		Example: "  rrpool peering kubeconfig --context b --secret cluster-b | kubectl --context a --namespace rrpool-system apply -f -",
	}, func(cmd *cobra.Command) error { return cmd.Help() })
	cmd.AddCommand(newKubeconfig(s))
	return cmd
}

// remoteName is the name of the ClusterRole in config/rbac, and of the ServiceAccount and Secret made for it.
const remoteName = "rrpool-remote"

type flags struct {
	snapshot.Flags
	server, secret string
}

func newKubeconfig(s iostreams.Streams) *cobra.Command {
	f := &flags{}
	cmd := iostreams.Command(&cobra.Command{
		Use:   "kubeconfig",
		Short: "Print a kubeconfig by which another cluster follows this one's route reflectors",
		Long: `Prints a kubeconfig for a ClusterPeering of another cluster. It may read what that needs and nothing else:
the nodes, the RouteReflectorPool, and Calico's BGPConfigurations and IPPools.

For it the ServiceAccount rrpool-remote, a Secret with its token, and the binding to the ClusterRole of that name are
made in this cluster, where they are not there yet. The token has no end: delete the Secret to end it.`,
		Example: `  rrpool peering kubeconfig --context b --secret cluster-b | kubectl --context a --namespace rrpool-system apply -f -`,
	}, func(cmd *cobra.Command) error { return f.run(cmd.Context(), s) })
	set := cmd.Flags()
	set.StringVar(&f.server, "server", "", "`address` of this cluster's apiserver as the other cluster reaches it; default: that of the kubeconfig")
	set.StringVar(&f.secret, "secret", "", "print it as a Secret of this `name`, as the other cluster's ClusterPeering needs it")
	iostreams.CompleteNothing(cmd, "server")
	iostreams.CompleteNothing(cmd, "secret")
	f.Register(set)
	return cmd
}

func (f *flags) run(ctx context.Context, s iostreams.Streams) error {
	c, err := f.Connect()
	if err != nil {
		return err
	}
	address, err := f.address(c)
	if err != nil {
		return err
	}
	if err := rest.LoadTLSFiles(c.Config); err != nil {
		return fmt.Errorf("--kubeconfig: the certificate of context %q cannot be read: %w", c.Name, iostreams.Reason(err))
	}
	secret, err := f.token(ctx, c)
	if err != nil {
		return err
	}
	content, err := f.kubeconfig(c.Config, address.String(), secret)
	if err != nil {
		return fmt.Errorf("rendering what is printed: %w", err)
	}
	if _, err := s.Out.Write(content); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	if ip, _ := netip.ParseAddr(address.Hostname()); ip.IsLoopback() || address.Hostname() == "localhost" {
		_, _ = fmt.Fprintf(s.Err, "‼ %s can be reached from this machine only: call it again with --server and an address for the other cluster\n", address)
	}
	if f.secret == "" {
		_, _ = fmt.Fprintf(s.Err, "Next: put this into a Secret in the other cluster; --secret <name> prints one for kubectl --namespace %s apply -f -\n", snapshot.DefaultNamespace)
	}
	return nil
}

// address returns the address by which the other cluster reaches the apiserver.
func (f *flags) address(c *cluster.Connection) (*url.URL, error) {
	out, err := url.Parse(cmp.Or(f.server, c.Server))
	if err != nil || f.server != "" && (out.Scheme != "https" || out.Host == "") {
		return nil, fmt.Errorf("--server: %q is no address of an apiserver: use for example https://10.0.0.1:6443", f.server)
	}
	return out, nil
}

// token makes the ServiceAccount, its ClusterRoleBinding and its Secret, and waits until the Secret has a token.
func (f *flags) token(ctx context.Context, c *cluster.Connection) (*corev1.Secret, error) {
	const kind = "clusterroles.rbac.authorization.k8s.io"
	err := c.Get(ctx, client.ObjectKey{Name: remoteName}, &rbacv1.ClusterRole{})
	if cluster.IsMissing(err) {
		return nil, fmt.Errorf("the cluster of context %q has no ClusterRole %s: install rrpool there first (kubectl apply --server-side -k config/rbac)", c.Name, remoteName)
	}
	if err != nil {
		return nil, c.Explain(err, "get", kind)
	}
	for _, made := range []struct {
		resource string
		object   runtime.ApplyConfiguration
	}{
		{"serviceaccounts", applycorev1.ServiceAccount(remoteName, f.Namespace)},
		{"clusterrolebindings.rbac.authorization.k8s.io", applyrbacv1.ClusterRoleBinding(remoteName + "-" + f.Namespace).
			WithRoleRef(applyrbacv1.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName(remoteName)).
			WithSubjects(applyrbacv1.Subject().WithKind(rbacv1.ServiceAccountKind).WithNamespace(f.Namespace).WithName(remoteName))},
		{"secrets", applycorev1.Secret(remoteName, f.Namespace).WithType(corev1.SecretTypeServiceAccountToken).
			WithAnnotations(map[string]string{corev1.ServiceAccountNameKey: remoteName})},
	} {
		if err := c.Apply(ctx, made.object, client.FieldOwner("rrpool-cli")); err != nil {
			return nil, c.Explain(err, "patch", made.resource)
		}
	}
	secret := &corev1.Secret{}
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, c.Timeout, true, func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKey{Namespace: f.Namespace, Name: remoteName}, secret)
		return len(secret.Data[corev1.ServiceAccountTokenKey]) > 0, err //nolint:wrapcheck // it is explained below
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return nil, fmt.Errorf("secret %s/%s has got no token within %s: is it of another ServiceAccount, and does kube-controller-manager run?", f.Namespace, remoteName, c.Timeout)
	}
	if err != nil {
		return nil, c.Explain(err, "get", "secrets")
	}
	return secret, nil
}

// kubeconfig renders a kubeconfig with the token, inside a Secret if --secret names one. Its CA
// is that of the user's kubeconfig, or if that skips verification, the CA in the token's Secret.
func (f *flags) kubeconfig(user *rest.Config, server string, secret *corev1.Secret) ([]byte, error) {
	ca := user.CAData
	if user.Insecure {
		ca = secret.Data[corev1.ServiceAccountRootCAKey]
	}
	content, err := clientcmd.Write(clientcmdapi.Config{
		CurrentContext: remoteName,
		Contexts:       map[string]*clientcmdapi.Context{remoteName: {Cluster: remoteName, AuthInfo: remoteName}},
		Clusters:       map[string]*clientcmdapi.Cluster{remoteName: {Server: server, CertificateAuthorityData: ca, TLSServerName: user.ServerName}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{remoteName: {Token: string(bytes.TrimSpace(secret.Data[corev1.ServiceAccountTokenKey]))}},
	})
	if err == nil && f.secret != "" {
		content, err = yaml.Marshal(map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": f.secret}, "stringData": map[string]any{"kubeconfig": string(content)},
		})
	}
	return content, err //nolint:wrapcheck // the caller wraps
}
