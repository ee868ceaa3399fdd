package calico

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/apiconfig"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/api"
	"github.com/projectcalico/calico/libcalico-go/lib/clientv3"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// datastoreVariable is the ecosystem's own name for the choice of datastore.
const datastoreVariable = "DATASTORE_TYPE"

// qps is how many requests per second libcalico-go may make on average; its own default of 5 would take
// minutes for what a migration writes. It allows bursts of 100, which cannot be changed.
const qps = 50

// checkDatastore refuses datastores that this version cannot write to.
func checkDatastore() error {
	switch kind := os.Getenv(datastoreVariable); apiconfig.DatastoreType(kind) {
	case "", apiconfig.Kubernetes:
		return nil
	case apiconfig.EtcdV3:
		return fmt.Errorf("%s=%q is not supported yet: this version of rrpool needs Calico's Kubernetes datastore; "+
			"where Calico uses that, unset the variable or set it to %q", datastoreVariable, kind, apiconfig.Kubernetes)
	default:
		return fmt.Errorf("%s=%q is not a datastore: unset it or set it to %q", datastoreVariable, kind, apiconfig.Kubernetes)
	}
}

// objects are those of one kind, with the methods of libcalico-go's clients.
type objects[T client.Object] interface {
	Get(ctx context.Context, name string, opts options.GetOptions) (T, error)
	Create(ctx context.Context, o T, opts options.SetOptions) (T, error)
	Update(ctx context.Context, o T, opts options.SetOptions) (T, error)
	Delete(ctx context.Context, name string, opts options.DeleteOptions) (T, error)
}

// datastore is Calico's objects in one API group.
type datastore struct {
	peers   objects[*apiv3.BGPPeer]
	configs objects[*apiv3.BGPConfiguration]
	reports objects[*apiv3.CalicoNodeStatus]
	// backend lists and watches.
	backend api.Client
}

// connect makes a client for the cluster that cfg describes. It makes no request yet.
func connect(cfg *rest.Config, group schema.GroupVersion) (*datastore, error) {
	if group == GroupV3 {
		return connectNative(cfg)
	}
	kubeconfig, err := inlineKubeconfig(cfg)
	if err != nil {
		return nil, err
	}
	spec := apiconfig.NewCalicoAPIConfig()
	spec.Spec.DatastoreType = apiconfig.Kubernetes
	spec.Spec.KubeconfigInline = kubeconfig
	spec.Spec.K8sClientQPS = qps
	calico, err := clientv3.New(*spec)
	if err != nil {
		return nil, fmt.Errorf("creating the Calico client: %w", err)
	}
	accessor, ok := calico.(interface{ Backend() api.Client })
	if !ok {
		return nil, fmt.Errorf("creating the Calico client: %T has no backend to watch", calico)
	}
	return &datastore{calico.BGPPeers(), calico.BGPConfigurations(), calico.CalicoNodeStatus(), accessor.Backend()}, nil
}

// throughProxy keeps the proxy that leads to the cluster, if there is one.
func throughProxy(cfg *rest.Config, to *clientcmdapi.Cluster) error {
	if cfg.Proxy == nil {
		return nil
	}
	server, err := url.Parse(cfg.Host)
	if err != nil {
		return fmt.Errorf("reading the cluster's address %q: %w", cfg.Host, err)
	}
	proxy, err := cfg.Proxy(&http.Request{URL: server})
	if err != nil {
		return fmt.Errorf("finding the proxy to %q: %w", cfg.Host, err)
	}
	if proxy != nil {
		to.ProxyURL = proxy.String()
	}
	return nil
}

// inlineKubeconfig renders cfg as the only form in which libcalico-go takes
// credentials. Files stay files, so that rotated tokens are read again.
func inlineKubeconfig(cfg *rest.Config) (string, error) {
	const name = "rrpool"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{
		Server:                   cfg.Host,
		TLSServerName:            cfg.ServerName,
		InsecureSkipTLSVerify:    cfg.Insecure,
		CertificateAuthority:     cfg.CAFile,
		CertificateAuthorityData: cfg.CAData,
	}
	if err := throughProxy(cfg, file.Clusters[name]); err != nil {
		return "", err
	}
	user := &clientcmdapi.AuthInfo{
		ClientCertificate:     cfg.CertFile,
		ClientCertificateData: cfg.CertData,
		ClientKey:             cfg.KeyFile,
		ClientKeyData:         cfg.KeyData,
		TokenFile:             cfg.BearerTokenFile,
		Username:              cfg.Username,
		Password:              cfg.Password,
		Impersonate:           cfg.Impersonate.UserName,
		ImpersonateUID:        cfg.Impersonate.UID,
		ImpersonateGroups:     cfg.Impersonate.Groups,
		ImpersonateUserExtra:  cfg.Impersonate.Extra,
		AuthProvider:          cfg.AuthProvider,
		Exec:                  cfg.ExecProvider,
	}
	if user.TokenFile == "" {
		user.Token = cfg.BearerToken
	}
	file.AuthInfos[name] = user
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	out, err := clientcmd.Write(*file)
	if err != nil {
		return "", fmt.Errorf("rendering the cluster's credentials: %w", err)
	}
	return string(out), nil
}
