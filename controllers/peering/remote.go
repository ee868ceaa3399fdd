package peering

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/controllers/plan/peering"
)

// remote returns the remote cluster, or an error if it is not known.
func (r *Reconciler) remote(ctx context.Context, o *v1alpha1.ClusterPeering) (*peering.Side, error) {
	spec := o.Spec.Remote
	if spec.Static != nil {
		return static(*spec.Static)
	}
	d, began := r.dampingOf(o), r.now()
	if began.Before(d.retryAt) {
		return nil, d.failed
	}
	config, err := r.remoteConfig(ctx, spec.KubeconfigSecretRef)
	if err != nil {
		return nil, err
	}
	read := r.ReadSide
	if read == nil {
		read = calico.ReadSide
	}
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	side, err := func() (peering.Side, error) {
		r.mu.Unlock()
		defer r.mu.Lock() // after a panic too
		return read(ctx, config)
	}()
	if err == nil {
		return &side, nil
	}
	if now := r.now(); now.Sub(began) >= slowRead {
		d.retryAt, d.failed = now.Add(r.wait(slowReadPause)), err
	}
	return nil, err
}

func static(spec v1alpha1.StaticRemote) (*peering.Side, error) {
	const field = "spec.remote.static."
	var out peering.Side
	var errs [4]error
	out.ASN, errs[0] = peering.ParseASN(spec.ASNumber)
	if errs[0] != nil {
		errs[0] = invalid(field+"asNumber", errs[0])
	}
	out.Reflectors, errs[1] = parsed(field+"reflectors", spec.Reflectors, peering.ParseAddr)
	out.Pods, errs[2] = parsed(field+"podCIDRs", spec.PodCIDRs, peering.ParseRange)
	out.Services, errs[3] = parsed(field+"serviceCIDRs", spec.ServiceCIDRs, peering.ParseRange)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, specError{err}
	}
	slices.SortFunc(out.Reflectors, netip.Addr.Compare)
	return &out, nil
}

// damping is what is remembered of one ClusterPeering's remote cluster until the spec changes.
type damping struct {
	peering.Damping
	uid        types.UID
	generation int64
	// retryAt is when the remote cluster may be read again after a slow failure. failed is the error of that failure.
	retryAt time.Time
	failed  error
}

func (r *Reconciler) now() time.Time {
	if r.Now == nil {
		return time.Now()
	}
	return r.Now()
}

// dampingOf returns the damping of a ClusterPeering, a new one if its spec has changed.
func (r *Reconciler) dampingOf(o *v1alpha1.ClusterPeering) *damping {
	d := r.damping[o.Name]
	if d == nil || d.uid != o.UID || d.generation != o.Generation {
		d = &damping{uid: o.UID, generation: o.Generation}
		if r.damping == nil {
			r.damping = map[string]*damping{}
		}
		r.damping[o.Name] = d
	}
	return d
}

// damp keeps an earlier declaration of a remote cluster that changes its declaration too often.
func (r *Reconciler) damp(s *scope) {
	o := s.object
	if s.desired.Deleted || o.Spec.Remote.Static != nil {
		delete(r.damping, o.Name)
		return
	}
	if s.observed.Remote == nil {
		return
	}
	var taken peering.Side
	taken, s.held = r.dampingOf(o).Take(*s.observed.Remote, r.now())
	s.observed.Remote = &taken
}

// remoteConfig reads a kubeconfig from a Secret. It refuses a kubeconfig that would make the manager run a program or read a file.
func (r *Reconciler) remoteConfig(ctx context.Context, ref v1alpha1.SecretKeyRef) (*rest.Config, error) {
	secret, where := &corev1.Secret{}, fmt.Sprintf("Secret %s/%s", r.Namespace, ref.Name)
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: ref.Name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no %s: %s", where, kubeconfigRemedy)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", where, err)
	}
	content, ok := secret.Data[ref.Key]
	if !ok {
		return nil, fmt.Errorf("%s has no key %q: %s", where, ref.Key, kubeconfigRemedy)
	}
	if parts := bytes.Count(content, []byte(",")) + bytes.Count(content, []byte("\n")) + bytes.Count(content, []byte("{")) +
		bytes.Count(content, []byte("[")) + bytes.Count(content, []byte("*")); parts > maxParts {
		return nil, fmt.Errorf("key %q of %s is larger than a kubeconfig of one cluster: %s", ref.Key, where, kubeconfigRemedy)
	}
	file, err := clientcmd.Load(content)
	if err != nil { // err may quote a secret
		return nil, fmt.Errorf("key %q of %s is no kubeconfig: %s", ref.Key, where, kubeconfigRemedy)
	}
	if why := refused(file); why != "" {
		return nil, fmt.Errorf("the kubeconfig in %s %s: %s", where, why, kubeconfigRemedy)
	}
	config, err := clientcmd.NewDefaultClientConfig(*file, nil).ClientConfig()
	if err != nil || !rest.IsConfigTransportTLS(*config) {
		return nil, fmt.Errorf("the kubeconfig in %s names no cluster and user with https as its current context: %s", where, kubeconfigRemedy)
	}
	return config, nil
}

// maxParts limits the values of a kubeconfig, YAML aliases among them: more could take seconds to parse, and hundreds of MiB.
const maxParts = 10_000

// kubeconfigRemedy is the remedy for a kubeconfig that cannot be used.
const kubeconfigRemedy = `"rrpool peering kubeconfig", run in the remote cluster, prints one`

// refused returns why a kubeconfig is not used, "" if it is used. A kubeconfig must not name files: they would be read in the manager's own file system.
func refused(file *clientcmdapi.Config) string {
	for _, c := range file.Clusters {
		if c.CertificateAuthority != "" {
			return "refers to files (certificate-authority)"
		}
		if c.InsecureSkipTLSVerify {
			return "says insecure-skip-tls-verify, so any machine could be that apiserver"
		}
	}
	for _, u := range file.AuthInfos {
		switch {
		case u.ClientCertificate+u.ClientKey+u.TokenFile != "":
			return "refers to files (client-certificate, client-key or tokenFile)"
		case u.Exec != nil || u.AuthProvider != nil:
			return "would run a program to log in (exec or auth-provider)"
		case u.Impersonate+u.ImpersonateUID != "" || len(u.ImpersonateGroups)+len(u.ImpersonateUserExtra) > 0:
			return "asks for the rights of another account (as, as-uid, as-groups or as-user-extra)"
		}
	}
	return ""
}

// parsed parses the values of a field.
func parsed[V any](field string, texts []string, parse func(string) (V, error)) ([]V, error) {
	var out []V
	for _, text := range texts {
		v, err := parse(text)
		if err != nil {
			return nil, invalid(field, err)
		}
		out = append(out, v)
	}
	return out, nil
}

func invalid(field string, err error) error {
	remedy := ": correct it"
	if strings.HasSuffix(err.Error(), "?") { // err proposes a value
		remedy = ""
	}
	return specError{fmt.Errorf("%s: %w%s", field, err, remedy)}
}
