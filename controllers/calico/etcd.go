package calico

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/apiconfig"
	libapiv3 "github.com/projectcalico/calico/libcalico-go/lib/apis/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/model"
	"github.com/sirupsen/logrus"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/srv"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// EtcdAPI is what status.calicoAPI says where Calico keeps its objects in an etcd of its own. They have the shape of GroupV3 there.
const EtcdAPI = string(apiconfig.EtcdV3)

// The variables of Calico that say where its etcd is.
const (
	endpointsVariable = "ETCD_ENDPOINTS"
	discoveryVariable = "ETCD_DISCOVERY_SRV"
	usernameVariable  = "ETCD_USERNAME"
	caVariable        = "ETCD_CA_CERT_FILE"
	certVariable      = "ETCD_CERT_FILE"
	keyVariable       = "ETCD_KEY_FILE"
)

// etcdAnswer is how long etcd may take to answer: without an end its client waits for ever.
const etcdAnswer = 5 * time.Second

// etcdCheckEvery is how often it is asked whether etcd answers. Its client reports no connection that is lost.
const etcdCheckEvery = 5 * time.Second

// Etcd reads and writes Calico's objects in its own etcd, as client.Client does those of an apiserver; what rrpool does not use is not
// there. It does not go through libcalico-go's client, which drops the fields of a newer Calico from what it writes.
type Etcd struct {
	client.WithWatch // nil: what is not below is not used

	config apiconfig.EtcdConfig
	kv     *clientv3.Client
	scheme *runtime.Scheme
	// endpoints and secured are what kv has, for probe.
	endpoints []string
	secured   *tls.Config
	// ca is what the file of the CA had when kv was made, which does not read it again.
	ca []byte
	// doubt is called before watches are interrupted.
	doubt func()
	// seen and cluster are the latest revision of alive and whose it was. Only alive has them.
	seen    int64
	cluster uint64

	mu sync.Mutex
	// watching ends with interrupt, and all watches with it.
	watching  context.Context //nolint:containedctx // of the watches
	interrupt context.CancelFunc
}

// datastoreConfig is what the environment says, as calicoctl reads it, nil for the Kubernetes datastore. Of that it reads nothing else.
func datastoreConfig() (*apiconfig.EtcdConfig, error) {
	etcd := slices.ContainsFunc(os.Environ(), func(v string) bool { return strings.Contains(v, "ETCD_") || strings.Contains(v, datastoreVariable) })
	if !etcd || os.Getenv(datastoreVariable) == string(apiconfig.Kubernetes) {
		return nil, nil
	}
	config, err := apiconfig.LoadClientConfigFromEnvironment()
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it reads
	}
	spec := config.Spec
	switch {
	case spec.DatastoreType == apiconfig.Kubernetes:
		return nil, nil
	case spec.DatastoreType != apiconfig.EtcdV3:
		return nil, fmt.Errorf("%s=%q is not a datastore: unset it, or set it to %q or %q", datastoreVariable, spec.DatastoreType, apiconfig.Kubernetes, apiconfig.EtcdV3)
	case spec.EtcdEndpoints == "" && spec.EtcdDiscoverySrv == "":
		return nil, fmt.Errorf("%s=%q, but neither %s nor %s is set: set one as calico-node has it", datastoreVariable, spec.DatastoreType, endpointsVariable, discoveryVariable)
	case spec.EtcdEndpoints != "" && spec.EtcdDiscoverySrv != "":
		return nil, fmt.Errorf("%s=%q and %s=%q are both set: unset one", endpointsVariable, spec.EtcdEndpoints, discoveryVariable, spec.EtcdDiscoverySrv)
	}
	return &spec.EtcdConfig, nil
}

// EtcdFromEnvironment makes the client for the etcd that the environment names, nil where Calico's objects are in the apiserver.
func EtcdFromEnvironment() (*Etcd, error) {
	config, err := datastoreConfig()
	if err != nil || config == nil {
		return nil, err
	}
	return newEtcd(*config)
}

// newEtcd makes a client. It makes no request, but for the log-in of a user.
func newEtcd(config apiconfig.EtcdConfig) (*Etcd, error) {
	e := &Etcd{config: config, scheme: runtime.NewScheme(), doubt: func() {}}
	e.watching, e.interrupt = context.WithCancel(context.Background())
	if err := apiv3.AddToScheme(e.scheme); err != nil {
		return nil, fmt.Errorf("creating the client for etcd: %w", err)
	}
	e.scheme.AddKnownTypes(GroupV3, &libapiv3.Node{}, &libapiv3.NodeList{})
	e.endpoints = strings.Split(config.EtcdEndpoints, ",")
	if config.EtcdDiscoverySrv != "" {
		found, err := srv.GetClient("etcd-client", config.EtcdDiscoverySrv, "")
		if err != nil {
			return nil, fmt.Errorf("%s=%q names no etcd: %w", discoveryVariable, config.EtcdDiscoverySrv, err)
		}
		e.endpoints = found.Endpoints
	}
	if err := e.checkFiles(time.Now()); err != nil {
		return nil, err
	}
	e.ca, _ = os.ReadFile(config.EtcdCACertFile) // checkFiles has read it
	info := transport.TLSInfo{TrustedCAFile: config.EtcdCACertFile, CertFile: config.EtcdCertFile, KeyFile: config.EtcdKeyFile}
	var err error
	if e.secured, err = info.ClientConfig(); err != nil {
		return nil, fmt.Errorf("%s=%q and %s=%q are no certificate and its key: %w", certVariable, config.EtcdCertFile, keyVariable, config.EtcdKeyFile, err)
	}
	to := clientv3.Config{
		Endpoints: e.endpoints, TLS: e.secured, DialTimeout: etcdAnswer, DialKeepAliveTime: etcdCheckEvery, DialKeepAliveTimeout: etcdAnswer, Logger: zap.NewNop(),
	}
	if config.EtcdUsername != "" && config.EtcdPassword != "" { // as Calico does
		to.Username, to.Password = config.EtcdUsername, config.EtcdPassword
	}
	if e.kv, err = clientv3.New(to); err != nil {
		return nil, e.explain(err)
	}
	return e, nil
}

// checkFiles names the file that is missing, or is no certificate that holds now: etcd's own answer would not say which.
func (e *Etcd) checkFiles(now time.Time) error {
	for _, file := range []struct{ variable, path string }{
		{caVariable, e.config.EtcdCACertFile}, {certVariable, e.config.EtcdCertFile}, {keyVariable, e.config.EtcdKeyFile},
	} {
		if file.path == "" {
			continue
		}
		content, err := os.ReadFile(file.path)
		if err != nil {
			return fmt.Errorf("%s=%q cannot be read: mount the file, or correct the variable: %w", file.variable, file.path, errors.Unwrap(err))
		}
		if block, _ := pem.Decode(content); block == nil {
			return fmt.Errorf("%s=%q has no PEM block: give the file that calico-node has", file.variable, file.path)
		}
		if file.variable == keyVariable {
			continue
		}
		until, err := validUntil(content, file.variable == caVariable)
		if err != nil {
			return fmt.Errorf("%s=%q is no certificate: %w", file.variable, file.path, err)
		}
		if now.After(until) {
			return fmt.Errorf("%s=%q has expired at %s: renew the certificate", file.variable, file.path, rfc3339(until))
		}
	}
	return nil
}

// validUntil is when the first certificate of a file expires, or the last of all.
func validUntil(content []byte, all bool) (until time.Time, err error) {
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return until, err //nolint:wrapcheck // it says what it reads
		}
		if certificate.NotAfter.After(until) {
			until = certificate.NotAfter
		}
		if !all {
			return until, nil
		}
	}
	if until.IsZero() {
		return until, errors.New("it has no PEM block of type CERTIFICATE")
	}
	return until, nil
}

// explain adds to what the client of etcd says which variable is to blame, and what to do.
func (e *Etcd) explain(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	if expired := e.checkFiles(time.Now()); expired != nil {
		return expired
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.Join(err, e.probe())
	}
	at := fmt.Sprintf("%s=%q", endpointsVariable, e.config.EtcdEndpoints)
	if e.config.EtcdDiscoverySrv != "" {
		at = fmt.Sprintf("%s=%q", discoveryVariable, e.config.EtcdDiscoverySrv)
	}
	text := strings.ReplaceAll(err.Error(), "\n", ": ")
	return fmt.Errorf("etcd of %s: %s: %s", at, text, e.remedy(err, text))
}

// remedy is what to do about an error.
func (e *Etcd) remedy(err error, text string) string {
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
	}
	refused := []error{rpctypes.ErrAuthFailed, rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty, rpctypes.ErrPermissionNotGranted}
	switch {
	case has("certificate has expired or is not yet valid"):
		return "the certificate of etcd has expired: renew it"
	case has("failed to verify certificate", "certificate signed by unknown authority"):
		return fmt.Sprintf("%s=%q does not prove the certificate of etcd: give the CA that has signed it, and an address that it names", caVariable, e.config.EtcdCACertFile)
	case has("bad certificate", "certificate required", "expired certificate", "unknown certificate authority"):
		return fmt.Sprintf("etcd does not accept %s=%q: give a certificate that its CA has signed", certVariable, e.config.EtcdCertFile)
	case has("does not look like a TLS handshake"):
		return "etcd speaks no TLS there: write http:// instead of https://"
	case slices.ContainsFunc(refused, func(is error) bool { return errors.Is(err, is) }), has("authentication failed", "permission denied", "user name is empty"):
		return fmt.Sprintf("etcd does not let %s=%q read and write below /calico: correct the user or ETCD_PASSWORD, or grant that right", usernameVariable, e.config.EtcdUsername)
	}
	return "check the address, the network, and that etcd runs"
}

// probe is why no connection comes about, which the client of etcd keeps to itself.
func (e *Etcd) probe() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var errs []error
	for _, endpoint := range e.endpoints {
		at, err := url.Parse(endpoint)
		if err != nil || at.Scheme != "https" {
			continue
		}
		connection, err := (&tls.Dialer{Config: e.secured}).DialContext(ctx, "tcp", at.Host)
		if err == nil {
			_ = connection.SetReadDeadline(time.Now().Add(time.Second))
			_, err = connection.Read(make([]byte, 1)) // with TLS 1.3 a certificate is refused only now
			_ = connection.Close()
		}
		if err != nil && !os.IsTimeout(err) && !errors.Is(err, io.EOF) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// errNewCA: the file of the CA has changed, which only a new client reads.
var errNewCA = errors.New("the process ends, to begin anew with it")

// alive proves that etcd answers, has Calico's objects, and is not one that was restored. When it does not, watches end and all is to be listed
// anew: what a watch brings later may be old, and one from a revision that etcd does not have yet brings nothing.
func (e *Etcd) alive(ctx context.Context) error {
	err := e.look(ctx)
	if err == nil || ctx.Err() != nil {
		return err
	}
	e.doubt()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.interrupt()
	e.watching, e.interrupt = context.WithCancel(context.Background())
	if ca, readErr := os.ReadFile(e.config.EtcdCACertFile); e.ca != nil && readErr == nil && !bytes.Equal(ca, e.ca) {
		return fmt.Errorf("%w; %s=%q has changed since: %w", err, caVariable, e.config.EtcdCACertFile, errNewCA)
	}
	return err
}

func (e *Etcd) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, etcdAnswer)
	defer cancel()
	found, err := e.kv.Get(ctx, prefixOf(apiv3.KindClusterInformation)+defaultConfig, clientv3.WithKeysOnly())
	if err != nil {
		return e.explain(err)
	}
	before, cluster := e.seen, e.cluster
	e.seen, e.cluster = found.Header.Revision, found.Header.ClusterId
	switch {
	case len(found.Kvs) == 0:
		return fmt.Errorf("the etcd of %s=%q has no ClusterInformation %q: is it the one that calico-node uses?", endpointsVariable, e.config.EtcdEndpoints, defaultConfig)
	case e.seen < before || cluster != 0 && e.cluster != cluster:
		return fmt.Errorf("the etcd of %s=%q has been restored to an earlier state: everything is listed anew", endpointsVariable, e.config.EtcdEndpoints)
	}
	return nil
}

// Close ends the connection.
func (e *Etcd) Close() error { return e.kv.Close() } //nolint:wrapcheck // it is for the caller to say

// Scheme implements client.Client.
func (e *Etcd) Scheme() *runtime.Scheme { return e.scheme }

// affinities is where Calico's IPAM keeps which node has which block: not as an object.
var affinities = model.ListOptionsToDefaultPathRoot(model.BlockAffinityListOptions{})

// prefixOf is where the objects of a kind are.
func prefixOf(kind string) string {
	if kind == libapiv3.KindBlockAffinity {
		return affinities
	}
	return model.ListOptionsToDefaultPathRoot(model.ResourceListOptions{Kind: kind}) + "/"
}

// kindIn is the kind of an object or of those in a list.
func (e *Etcd) kindIn(o runtime.Object) (string, error) {
	gvk, err := apiutil.GVKForObject(o, e.scheme)
	return strings.TrimSuffix(gvk.Kind, "List"), err
}

// Get implements client.Reader.
func (e *Etcd) Get(ctx context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	kind, err := e.kindIn(into)
	if err != nil {
		return err
	}
	found, err := e.read(ctx, kind, key.Name)
	if err != nil {
		return err
	}
	return parse(found, into)
}

func (e *Etcd) read(ctx context.Context, kind, name string) (*mvccpb.KeyValue, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdAnswer)
	defer cancel()
	found, err := e.kv.Get(ctx, prefixOf(kind)+name)
	if err != nil {
		return nil, e.explain(err)
	}
	if len(found.Kvs) == 0 {
		return nil, apierrors.NewNotFound(resourceOf(kind), name) //nolint:wrapcheck // it is made here
	}
	return found.Kvs[0], nil
}

func resourceOf(kind string) schema.GroupResource {
	plural, _ := meta.UnsafeGuessKindToResource(GroupV3.WithKind(kind))
	return plural.GroupResource()
}

// parse reads an object; its version is the revision that has written it.
func parse(kv *mvccpb.KeyValue, into client.Object) error {
	if err := json.Unmarshal(kv.Value, into); err != nil {
		return fmt.Errorf("parsing %s of etcd: %w", kv.Key, err)
	}
	into.SetResourceVersion(strconv.FormatInt(kv.ModRevision, 10))
	return nil
}

// parseAffinity reads a block affinity into the shape that it has in the apiserver.
func parseAffinity(kv *mvccpb.KeyValue, deleted bool) (*unstructured.Unstructured, error) {
	key, ok := model.BlockAffinityListOptions{}.KeyFromDefaultPath(string(kv.Key)).(model.BlockAffinityKey)
	if !ok {
		return nil, fmt.Errorf("parsing %s of etcd: it is no block affinity", kv.Key)
	}
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(GroupV3.WithKind(libapiv3.KindBlockAffinity))
	o.SetName(strings.ReplaceAll(strings.TrimPrefix(string(kv.Key), affinities), "/", "-"))
	o.SetResourceVersion(strconv.FormatInt(kv.ModRevision, 10))
	if deleted {
		return o, nil
	}
	is := model.BlockAffinity{State: model.StateConfirmed} // of old ones the value is empty
	if err := json.Unmarshal(kv.Value, &is); err != nil && len(kv.Value) > 0 {
		return nil, fmt.Errorf("parsing %s of etcd: %w", kv.Key, err)
	}
	o.Object["spec"] = map[string]any{"node": key.Host, "cidr": key.CIDR.String(), "state": string(is.State), "deleted": strconv.FormatBool(is.Deleted)}
	return o, nil
}

// object gives one of a list from what is stored, and nil for what is not an object of the kind.
func (e *Etcd) object(kind string, list runtime.Object, kv *mvccpb.KeyValue, deleted bool) (client.Object, error) {
	if kind == libapiv3.KindBlockAffinity {
		return parseAffinity(kv, deleted)
	}
	var o client.Object = &unstructured.Unstructured{}
	if _, raw := list.(*unstructured.UnstructuredList); !raw {
		typed, err := e.scheme.New(GroupV3.WithKind(kind))
		if err != nil {
			return nil, err //nolint:wrapcheck // it names the kind
		}
		o = typed.(client.Object) //nolint:forcetypeassert // every kind is one
	}
	if deleted {
		o.GetObjectKind().SetGroupVersionKind(GroupV3.WithKind(kind))
		o.SetName(path.Base(string(kv.Key)))
		o.SetResourceVersion(strconv.FormatInt(kv.ModRevision, 10)) // the next watch begins there
		return o, nil
	}
	return o, parse(kv, o)
}

// List implements client.Reader. What cannot be read is left out, as libcalico-go does. All are listed at once, as it does.
func (e *Etcd) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	kind, err := e.kindIn(list)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*etcdAnswer)
	defer cancel()
	found, err := e.kv.Get(ctx, prefixOf(kind), clientv3.WithPrefix())
	if err != nil {
		return e.explain(err)
	}
	var items []runtime.Object
	for _, kv := range found.Kvs {
		o, err := e.object(kind, list, kv, false)
		if err != nil {
			logrus.WithError(err).Warning("an object is left out")
			continue
		}
		items = append(items, o)
	}
	list.SetResourceVersion(strconv.FormatInt(found.Header.Revision, 10))
	return meta.SetList(list, items) //nolint:wrapcheck // it is a list
}

// Watch implements client.WithWatch, from the version that the options name.
func (e *Etcd) Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	kind, err := e.kindIn(list)
	if err != nil {
		return nil, err
	}
	from, err := strconv.ParseInt((&client.ListOptions{}).ApplyOptions(opts).AsListOptions().ResourceVersion, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", kind, err)
	}
	e.mu.Lock()
	watching := e.watching
	e.mu.Unlock()
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	forget := context.AfterFunc(watching, cancel)
	events := make(chan watch.Event)
	out := watch.NewProxyWatcher(events)
	go func() {
		defer cancel()
		<-out.StopChan()
	}()
	go func() {
		defer close(events)
		defer cancel()
		defer forget()
		for answer := range e.kv.Watch(ctx, prefixOf(kind), clientv3.WithPrefix(), clientv3.WithRev(from+1)) {
			for _, event := range e.eventsOf(kind, list, answer) {
				select {
				case events <- event:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out, nil
}

func (e *Etcd) eventsOf(kind string, list runtime.Object, answer clientv3.WatchResponse) (out []watch.Event) {
	switch err := answer.Err(); {
	case errors.Is(err, rpctypes.ErrCompacted):
		return []watch.Event{{Type: watch.Error, Object: &apierrors.NewResourceExpired(err.Error()).ErrStatus}}
	case err != nil:
		return []watch.Event{{Type: watch.Error, Object: &apierrors.NewInternalError(err).ErrStatus}}
	}
	for _, event := range answer.Events {
		o, err := e.object(kind, list, event.Kv, event.Type == clientv3.EventTypeDelete)
		if err != nil {
			logrus.WithError(err).Warning("an object is left out")
			continue
		}
		is := watch.Event{Type: watch.Modified, Object: o}
		switch {
		case event.Type == clientv3.EventTypeDelete:
			is.Type = watch.Deleted
		case event.IsCreate():
			is.Type = watch.Added
		}
		out = append(out, is)
	}
	return out
}

// reporterVersion is stored in a CalicoNodeStatus. Calico's reporter takes an object as etcd has it, in which Calico's own clients store no
// version, and without one its every update is refused (Calico 3.31). One that is wrong is a conflict, upon which it reads the right one.
const reporterVersion = "1"

// put writes an object where the key still has a revision, 0 for a key that is not there. What is there already is not written.
func (e *Etcd) put(ctx context.Context, o client.Object, revision int64) error {
	kind, err := e.kindIn(o)
	if err != nil {
		return err
	}
	into := o
	o = o.DeepCopyObject().(client.Object) //nolint:forcetypeassert // it is a copy
	o.GetObjectKind().SetGroupVersionKind(GroupV3.WithKind(kind))
	o.SetResourceVersion("")
	if kind == apiv3.KindCalicoNodeStatus {
		o.SetResourceVersion(reporterVersion)
	}
	if len(o.GetLabels()) == 0 { // as an apiserver does
		o.SetLabels(nil)
	}
	if len(o.GetAnnotations()) == 0 {
		o.SetAnnotations(nil)
	}
	value, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("rendering %s %q: %w", kind, o.GetName(), err)
	}
	if revision != 0 {
		if live, err := e.read(ctx, kind, o.GetName()); err == nil && live.ModRevision == revision && bytes.Equal(live.Value, value) {
			return nil
		}
	}
	key := prefixOf(kind) + o.GetName()
	done, err := e.commit(ctx, kind, o.GetName(), revision, clientv3.OpPut(key, string(value)))
	if err == nil {
		into.GetObjectKind().SetGroupVersionKind(GroupV3.WithKind(kind))
		into.SetResourceVersion(strconv.FormatInt(done.Header.Revision, 10))
	}
	return err
}

// commit makes a write where the key still has a revision, else it says why not as an apiserver does.
func (e *Etcd) commit(ctx context.Context, kind, name string, revision int64, write clientv3.Op) (*clientv3.TxnResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdAnswer)
	defer cancel()
	key := prefixOf(kind) + name
	done, err := e.kv.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).Then(write).Else(clientv3.OpGet(key, clientv3.WithKeysOnly())).Commit()
	switch {
	case err != nil:
		return nil, e.explain(err)
	case done.Succeeded:
		return done, nil
	case revision == 0:
		return nil, apierrors.NewAlreadyExists(resourceOf(kind), name) //nolint:wrapcheck // it is made here
	case len(done.Responses[0].GetResponseRange().Kvs) == 0:
		return nil, apierrors.NewNotFound(resourceOf(kind), name) //nolint:wrapcheck // it is made here
	}
	return nil, changed(kind, name, "it has been written since")
}

// Create implements client.Writer. An object gets what Calico's own clients give it.
func (e *Etcd) Create(ctx context.Context, o client.Object, _ ...client.CreateOption) error {
	if o.GetUID() == "" {
		o.SetUID(uuid.NewUUID())
	}
	if created := o.GetCreationTimestamp(); created.IsZero() {
		o.SetCreationTimestamp(metav1.NewTime(time.Unix(time.Now().Unix(), 0)))
	}
	return e.put(ctx, o, 0)
}

// Update implements client.Writer: of the version that the object has.
func (e *Etcd) Update(ctx context.Context, o client.Object, _ ...client.UpdateOption) error {
	revision, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return fmt.Errorf("updating %q: resource version: %w", o.GetName(), err)
	}
	return e.put(ctx, o, revision)
}

// Delete implements client.Writer, with preconditions as an apiserver has them.
func (e *Etcd) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	kind, err := e.kindIn(o)
	if err != nil {
		return err
	}
	kv, err := e.read(ctx, kind, o.GetName())
	if err != nil {
		return err
	}
	live := &unstructured.Unstructured{}
	if err := parse(kv, live); err != nil {
		return err
	}
	only := ptr.Deref((&client.DeleteOptions{}).ApplyOptions(opts).Preconditions, metav1.Preconditions{})
	if ptr.Deref(only.UID, live.GetUID()) != live.GetUID() || ptr.Deref(only.ResourceVersion, live.GetResourceVersion()) != live.GetResourceVersion() {
		return changed(kind, o.GetName(), "it has been written since")
	}
	_, err = e.commit(ctx, kind, o.GetName(), kv.ModRevision, clientv3.OpDelete(string(kv.Key)))
	return err
}
