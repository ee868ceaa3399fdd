// Package etcd reads and writes Calico's objects where Calico has an etcd of its own, in the shape that they have in API group projectcalico.org.
package etcd

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
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

// CheckPeriod is how often Alive should be called: the client of etcd does not report that a connection is lost.
const CheckPeriod = 5 * time.Second

// timeout bounds a request. Without one the client of etcd waits for ever.
const timeout = 5 * time.Second

// Client is a client.Client for Calico's etcd, without the methods that rrpool does not use. libcalico-go's own client is not used because it
// drops the fields of a newer Calico from what it writes.
type Client struct {
	client.WithWatch // nil: rrpool uses only the methods that are defined here

	config apiconfig.EtcdConfig
	kv     *clientv3.Client
	scheme *runtime.Scheme
	// endpoints and tls are those of kv.
	endpoints []string
	tls       *tls.Config
	// ca is the content of the CA's file when kv was made. kv does not read the file again.
	ca []byte
	// interrupting is called before all watches are interrupted.
	interrupting func()
	// revision is the latest one that Alive has seen, and cluster the ID of the etcd cluster. Only Alive uses them.
	revision int64
	cluster  uint64

	mu sync.Mutex
	// watching is the parent context of all watches, and interrupt cancels it.
	watching  context.Context //nolint:containedctx // of the watches
	interrupt context.CancelFunc
}

// FromEnvironment makes a Client for the etcd that the environment names, nil where Calico's objects are in the apiserver.
func FromEnvironment() (*Client, error) {
	config, err := ConfigFromEnvironment()
	if err != nil || config == nil {
		return nil, err
	}
	return New(*config, func() {})
}

// New makes a Client. If a user is configured, it logs in; it makes no other request. interrupting is called before Alive interrupts the watches.
func New(config apiconfig.EtcdConfig, interrupting func()) (*Client, error) {
	c := &Client{config: config, scheme: runtime.NewScheme(), interrupting: interrupting}
	c.watching, c.interrupt = context.WithCancel(context.Background())
	if err := apiv3.AddToScheme(c.scheme); err != nil {
		return nil, fmt.Errorf("creating the client for etcd: %w", err)
	}
	c.scheme.AddKnownTypes(apiv3.SchemeGroupVersion, &libapiv3.Node{}, &libapiv3.NodeList{})
	var err error
	if c.endpoints, err = endpointsOf(config); err != nil {
		return nil, err
	}
	if err := c.checkFiles(time.Now()); err != nil {
		return nil, err
	}
	c.ca, _ = os.ReadFile(config.EtcdCACertFile) // checkFiles has read it
	info := transport.TLSInfo{TrustedCAFile: config.EtcdCACertFile, CertFile: config.EtcdCertFile, KeyFile: config.EtcdKeyFile}
	if c.tls, err = info.ClientConfig(); err != nil {
		return nil, fmt.Errorf("%s=%q and %s=%q are no certificate and its key: %w", certVariable, config.EtcdCertFile, keyVariable, config.EtcdKeyFile, err)
	}
	to := clientv3.Config{
		Endpoints: c.endpoints, TLS: c.tls, DialTimeout: timeout, DialKeepAliveTime: CheckPeriod, DialKeepAliveTimeout: timeout, Logger: zap.NewNop(),
	}
	if config.EtcdUsername != "" && config.EtcdPassword != "" { // as Calico does
		to.Username, to.Password = config.EtcdUsername, config.EtcdPassword
	}
	if c.kv, err = clientv3.New(to); err != nil {
		return nil, c.explain(err)
	}
	return c, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.kv.Close() } //nolint:wrapcheck // it is for the caller to say

// ErrNewCA means that the CA's file has changed. Only a new client reads the new file.
var ErrNewCA = errors.New("the process ends, to begin anew with it")

// Alive checks that etcd answers, has Calico's objects, and was not restored from a backup. If a check fails, all watches end and must begin with
// a new list: their later events may be old, and a watch from a revision that etcd does not have yet brings no events.
func (c *Client) Alive(ctx context.Context) error {
	err := c.check(ctx)
	if err == nil || ctx.Err() != nil {
		return err
	}
	c.interrupting()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupt()
	c.watching, c.interrupt = context.WithCancel(context.Background())
	if c.newCA() {
		return fmt.Errorf("%w; %s=%q has changed since: %w", err, caVariable, c.config.EtcdCACertFile, ErrNewCA)
	}
	return err
}

func (c *Client) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	const name = "default"
	found, err := c.kv.Get(ctx, prefixOf(apiv3.KindClusterInformation)+name, clientv3.WithKeysOnly())
	if err != nil {
		return c.explain(err)
	}
	revision, cluster := c.revision, c.cluster
	c.revision, c.cluster = found.Header.Revision, found.Header.ClusterId
	switch {
	case len(found.Kvs) == 0:
		return fmt.Errorf("the etcd of %s=%q has no ClusterInformation %q: is it the one that calico-node uses?", endpointsVariable, c.config.EtcdEndpoints, name)
	case c.revision < revision || cluster != 0 && c.cluster != cluster:
		return fmt.Errorf("the etcd of %s=%q has been restored to an earlier state: everything is listed anew", endpointsVariable, c.config.EtcdEndpoints)
	}
	return nil
}

// Scheme implements client.Client.
func (c *Client) Scheme() *runtime.Scheme { return c.scheme }

// affinityPrefix is where Calico's IPAM keeps the block affinities, as values without metadata.
var affinityPrefix = model.ListOptionsToDefaultPathRoot(model.BlockAffinityListOptions{})

// prefixOf returns what the keys of a kind's objects begin with.
func prefixOf(kind string) string {
	if kind == libapiv3.KindBlockAffinity {
		return affinityPrefix
	}
	return model.ListOptionsToDefaultPathRoot(model.ResourceListOptions{Kind: kind}) + "/"
}

// kindOf returns the kind of an object, or of the objects in a list.
func (c *Client) kindOf(o runtime.Object) (string, error) {
	gvk, err := apiutil.GVKForObject(o, c.scheme)
	return strings.TrimSuffix(gvk.Kind, "List"), err
}

func resourceOf(kind string) schema.GroupResource {
	plural, _ := meta.UnsafeGuessKindToResource(apiv3.SchemeGroupVersion.WithKind(kind))
	return plural.GroupResource()
}

// conflict returns the error of a write to an object that has another revision now.
func conflict(kind, name string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: kind}, name, errors.New("it has been written since")) //nolint:wrapcheck // it is made here
}

// Get implements client.Reader.
func (c *Client) Get(ctx context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	kind, err := c.kindOf(into)
	if err != nil {
		return err
	}
	found, err := c.read(ctx, kind, key.Name)
	if err != nil {
		return err
	}
	return parse(found, into)
}

func (c *Client) read(ctx context.Context, kind, name string) (*mvccpb.KeyValue, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found, err := c.kv.Get(ctx, prefixOf(kind)+name)
	if err != nil {
		return nil, c.explain(err)
	}
	if len(found.Kvs) == 0 {
		return nil, apierrors.NewNotFound(resourceOf(kind), name) //nolint:wrapcheck // it is made here
	}
	return found.Kvs[0], nil
}

func setVersion(o client.Object, revision int64) {
	o.SetResourceVersion(strconv.FormatInt(revision, 10))
}

// parse reads an object. Its resource version is the revision that has written it.
func parse(kv *mvccpb.KeyValue, into client.Object) error {
	if err := json.Unmarshal(kv.Value, into); err != nil {
		return fmt.Errorf("parsing %s of etcd: %w", kv.Key, err)
	}
	setVersion(into, kv.ModRevision)
	return nil
}

// parseAffinity parses a block affinity into the shape that it has in the apiserver. A deleted affinity has no value in etcd, so it gets no spec.
func parseAffinity(kv *mvccpb.KeyValue, deleted bool) (*unstructured.Unstructured, error) {
	key, ok := model.BlockAffinityListOptions{}.KeyFromDefaultPath(string(kv.Key)).(model.BlockAffinityKey)
	if !ok {
		return nil, fmt.Errorf("parsing %s of etcd: it is no block affinity", kv.Key)
	}
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(apiv3.SchemeGroupVersion.WithKind(libapiv3.KindBlockAffinity))
	o.SetName(strings.ReplaceAll(strings.TrimPrefix(string(kv.Key), affinityPrefix), "/", "-"))
	setVersion(o, kv.ModRevision)
	if deleted {
		return o, nil
	}
	affinity := model.BlockAffinity{State: model.StateConfirmed} // old versions of Calico write an empty value
	if err := json.Unmarshal(kv.Value, &affinity); err != nil && len(kv.Value) > 0 {
		return nil, fmt.Errorf("parsing %s of etcd: %w", kv.Key, err)
	}
	o.Object["spec"] = map[string]any{
		"node": key.Host, "cidr": key.CIDR.String(), "state": string(affinity.State), "deleted": strconv.FormatBool(affinity.Deleted),
	}
	return o, nil
}

// item makes an object of the type that a list has, from a key and value of etcd. A deleted object has only a name and a version.
func (c *Client) item(kind string, list runtime.Object, kv *mvccpb.KeyValue, deleted bool) (client.Object, error) {
	if kind == libapiv3.KindBlockAffinity {
		return parseAffinity(kv, deleted)
	}
	var o client.Object = &unstructured.Unstructured{}
	if _, raw := list.(*unstructured.UnstructuredList); !raw {
		typed, err := c.scheme.New(apiv3.SchemeGroupVersion.WithKind(kind))
		if err != nil {
			return nil, err //nolint:wrapcheck // it names the kind
		}
		o = typed.(client.Object) //nolint:forcetypeassert // every kind is one
	}
	if deleted {
		o.GetObjectKind().SetGroupVersionKind(apiv3.SchemeGroupVersion.WithKind(kind))
		o.SetName(path.Base(string(kv.Key)))
		setVersion(o, kv.ModRevision) // the next watch begins there
		return o, nil
	}
	return o, parse(kv, o)
}

// List implements client.Reader. It lists all objects in one request, and leaves out objects that cannot be parsed. libcalico-go does both too.
func (c *Client) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	kind, err := c.kindOf(list)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*timeout)
	defer cancel()
	found, err := c.kv.Get(ctx, prefixOf(kind), clientv3.WithPrefix())
	if err != nil {
		return c.explain(err)
	}
	var items []runtime.Object
	for _, kv := range found.Kvs {
		o, err := c.item(kind, list, kv, false)
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
func (c *Client) Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	kind, err := c.kindOf(list)
	if err != nil {
		return nil, err
	}
	from, err := strconv.ParseInt((&client.ListOptions{}).ApplyOptions(opts).AsListOptions().ResourceVersion, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", kind, err)
	}
	c.mu.Lock()
	watching := c.watching
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	unregister := context.AfterFunc(watching, cancel)
	events := make(chan watch.Event)
	out := watch.NewProxyWatcher(events)
	go func() {
		defer cancel()
		<-out.StopChan()
	}()
	go func() {
		defer close(events)
		defer cancel()
		defer unregister()
		for answer := range c.kv.Watch(ctx, prefixOf(kind), clientv3.WithPrefix(), clientv3.WithRev(from+1)) {
			for _, event := range c.eventsOf(kind, list, answer) {
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

func (c *Client) eventsOf(kind string, list runtime.Object, answer clientv3.WatchResponse) (out []watch.Event) {
	switch err := answer.Err(); {
	case errors.Is(err, rpctypes.ErrCompacted):
		return []watch.Event{{Type: watch.Error, Object: &apierrors.NewResourceExpired(err.Error()).ErrStatus}}
	case err != nil:
		return []watch.Event{{Type: watch.Error, Object: &apierrors.NewInternalError(err).ErrStatus}}
	}
	for _, event := range answer.Events {
		deleted := event.Type == clientv3.EventTypeDelete
		o, err := c.item(kind, list, event.Kv, deleted)
		if err != nil {
			logrus.WithError(err).Warning("an object is left out")
			continue
		}
		eventType := watch.Modified
		switch {
		case deleted:
			eventType = watch.Deleted
		case event.IsCreate():
			eventType = watch.Added
		}
		out = append(out, watch.Event{Type: eventType, Object: o})
	}
	return out
}

// Create implements client.Writer. It sets the UID and the creation time, as Calico's own clients do.
func (c *Client) Create(ctx context.Context, o client.Object, _ ...client.CreateOption) error {
	if o.GetUID() == "" {
		o.SetUID(uuid.NewUUID())
	}
	if created := o.GetCreationTimestamp(); created.IsZero() {
		o.SetCreationTimestamp(metav1.NewTime(time.Unix(time.Now().Unix(), 0)))
	}
	return c.put(ctx, o, 0)
}

// Update implements client.Writer. If etcd has another version than the object's, the error is a conflict.
func (c *Client) Update(ctx context.Context, o client.Object, _ ...client.UpdateOption) error {
	revision, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return fmt.Errorf("updating %q: resource version: %w", o.GetName(), err)
	}
	return c.put(ctx, o, revision)
}

// Delete implements client.Writer, with preconditions as an apiserver has them.
func (c *Client) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	kind, err := c.kindOf(o)
	if err != nil {
		return err
	}
	kv, err := c.read(ctx, kind, o.GetName())
	if err != nil {
		return err
	}
	live := &unstructured.Unstructured{}
	if err := parse(kv, live); err != nil {
		return err
	}
	only := ptr.Deref((&client.DeleteOptions{}).ApplyOptions(opts).Preconditions, metav1.Preconditions{})
	if ptr.Deref(only.UID, live.GetUID()) != live.GetUID() || ptr.Deref(only.ResourceVersion, live.GetResourceVersion()) != live.GetResourceVersion() {
		return conflict(kind, o.GetName())
	}
	_, err = c.commit(ctx, kind, o.GetName(), kv.ModRevision, clientv3.OpDelete(string(kv.Key)))
	return err
}

// reporterVersion is stored as resource version in every CalicoNodeStatus, and is wrong on purpose. Calico's reporter (3.31) updates an object
// with the version that is stored in it. Without a version, the update is refused for ever. With a wrong version, it is a conflict, and the
// reporter then reads the right version.
const reporterVersion = "1"

// put writes an object if its key still has the given revision; revision 0 means that
// there must be no such key. If etcd has the same value already, it writes nothing.
func (c *Client) put(ctx context.Context, o client.Object, revision int64) error {
	kind, err := c.kindOf(o)
	if err != nil {
		return err
	}
	name := o.GetName()
	value, err := encode(kind, o)
	if err != nil {
		return err
	}
	if revision != 0 {
		if live, err := c.read(ctx, kind, name); err == nil && live.ModRevision == revision && bytes.Equal(live.Value, value) {
			return nil
		}
	}
	done, err := c.commit(ctx, kind, name, revision, clientv3.OpPut(prefixOf(kind)+name, string(value)))
	if err == nil {
		o.GetObjectKind().SetGroupVersionKind(apiv3.SchemeGroupVersion.WithKind(kind))
		setVersion(o, done.Header.Revision)
	}
	return err
}

// encode renders an object as Calico's own clients store it.
func encode(kind string, o client.Object) ([]byte, error) {
	o = o.DeepCopyObject().(client.Object) //nolint:forcetypeassert // it is a copy
	o.GetObjectKind().SetGroupVersionKind(apiv3.SchemeGroupVersion.WithKind(kind))
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
		return nil, fmt.Errorf("rendering %s %q: %w", kind, o.GetName(), err)
	}
	return value, nil
}

// commit makes a write if the key still has the given revision. If not, it returns the error that an apiserver would.
func (c *Client) commit(ctx context.Context, kind, name string, revision int64, write clientv3.Op) (*clientv3.TxnResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	key := prefixOf(kind) + name
	done, err := c.kv.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).Then(write).Else(clientv3.OpGet(key, clientv3.WithKeysOnly())).Commit()
	switch {
	case err != nil:
		return nil, c.explain(err)
	case done.Succeeded:
		return done, nil
	case revision == 0:
		return nil, apierrors.NewAlreadyExists(resourceOf(kind), name) //nolint:wrapcheck // it is made here
	case len(done.Responses[0].GetResponseRange().Kvs) == 0:
		return nil, apierrors.NewNotFound(resourceOf(kind), name) //nolint:wrapcheck // it is made here
	}
	return nil, conflict(kind, name)
}
