package calico

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/api/pkg/lib/numorstring"
	libapiv3 "github.com/projectcalico/calico/libcalico-go/lib/apis/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/model"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/rrpool/rrpool/controllers/calico/etcd"
	"github.com/rrpool/rrpool/test/controlplane"
)

// etcdOf makes another client of Calico's etcd.
func etcdOf(t *testing.T) *etcd.Client {
	t.Helper()
	c, err := etcd.FromEnvironment()
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// keysOf makes a client for the keys of Calico's etcd.
func keysOf(t *testing.T) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{os.Getenv(endpointsVariable)}, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// endpointsVariable says where Calico's etcd is.
const endpointsVariable = "ETCD_ENDPOINTS"

// calicoNodes makes the bench's client one of Calico's etcd as well, and says there that Calico is installed.
func (b *bench) calicoNodes(kube client.Client) {
	b.kube = both{kube, etcdOf(b.t), keysOf(b.t)}
	info := apiv3.NewClusterInformation()
	info.Name, info.Spec.DatastoreReady = defaultConfig, ptr.To(true)
	err := b.kube.Create(b.t.Context(), info)
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(b.t, err)
	}
}

// moveTo makes another etcd Calico's, for the rest of the test.
func (b *bench) moveTo(to *controlplane.Etcd) {
	b.t.Setenv(endpointsVariable, to.URL)
	before := b.kube
	b.calicoNodes(before.(both).Client)
	b.t.Cleanup(func() { b.kube = before })
	b.other = othersOf(b.t, b.plane)
	b.Adapter = b.adapter()
}

// calicoNode creates the Calico Node of a Kubernetes Node, by what its annotations say.
func (b *bench) calicoNode(kube *corev1.Node, name string) *libapiv3.Node {
	b.t.Helper()
	n := libapiv3.NewNode()
	n.Name, n.Labels = name, kube.Labels
	n.Spec.OrchRefs = []libapiv3.OrchRef{{Orchestrator: "k8s", NodeName: kube.Name}}
	n.Spec.BGP = &libapiv3.NodeBGPSpec{
		IPv4Address: kube.Annotations[ipv4Annotation], IPv6Address: kube.Annotations[ipv6Annotation],
		RouteReflectorClusterID: kube.Annotations[clusterIDAnnotation],
	}
	if since, ok := kube.Annotations[sinceAnnotation]; ok {
		n.Annotations = map[string]string{sinceAnnotation: since}
	}
	if as, err := numorstring.ASNumberFromString(kube.Annotations[asnAnnotation]); err == nil {
		n.Spec.BGP.ASNumber = &as
	}
	require.NoError(b.t, b.kube.Create(b.t.Context(), n))
	return n
}

// both reads and writes Calico's objects in its etcd, and all others in the apiserver.
type both struct {
	client.Client
	etcd *etcd.Client
	keys *clientv3.Client
}

func (c both) of(o any) (client.Client, bool) {
	switch o := o.(type) {
	case *unstructured.Unstructured:
		return c.etcd, o.GroupVersionKind().Group == GroupV3.Group
	case *unstructured.UnstructuredList:
		return c.etcd, o.GroupVersionKind().Group == GroupV3.Group
	case client.Object:
		_, err := apiutil.GVKForObject(o, c.etcd.Scheme())
		return c.etcd, err == nil
	}
	return nil, false
}

func (c both) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if at, ok := c.of(o); ok {
		return at.Get(ctx, key, o)
	}
	return c.Client.Get(ctx, key, o, opts...)
}

func (c both) List(ctx context.Context, o client.ObjectList, opts ...client.ListOption) error {
	if at, ok := c.of(o); ok {
		return at.List(ctx, o)
	}
	return c.Client.List(ctx, o, opts...)
}

func (c both) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	raw, custom := o.(*unstructured.Unstructured)
	switch at, ok := c.of(o); {
	case custom && raw.GetKind() == libapiv3.KindBlockAffinity:
		spec := raw.Object["spec"].(map[string]any)
		affinity := cmp.Or(fmt.Sprint(spec["type"]), "host")
		key := fmt.Sprintf("/calico/ipam/v2/%s/%s/ipv4/block/%s", affinity, spec["node"], strings.ReplaceAll(fmt.Sprint(spec["cidr"]), "/", "-"))
		value, _ := json.Marshal(model.BlockAffinity{State: model.BlockAffinityState(fmt.Sprint(spec["state"])), Deleted: spec["deleted"] == "true"})
		_, err := c.keys.Put(ctx, key, string(value))
		return err
	case ok:
		return at.Create(ctx, o)
	}
	return c.Client.Create(ctx, o, opts...)
}

func (c both) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	if at, ok := c.of(o); ok {
		return at.Update(ctx, o)
	}
	return c.Client.Update(ctx, o, opts...)
}

func (c both) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if at, ok := c.of(o); ok {
		return at.Delete(ctx, o, opts...)
	}
	return c.Client.Delete(ctx, o, opts...)
}

func (c both) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	if _, ok := c.of(o); !ok {
		return c.Client.Patch(ctx, o, p, opts...)
	}
	raw := &unstructured.Unstructured{}
	kind, err := apiutil.GVKForObject(o, c.etcd.Scheme())
	if err != nil {
		return err
	}
	raw.SetGroupVersionKind(kind)
	if err := c.etcd.Get(ctx, client.ObjectKeyFromObject(o), raw); err != nil {
		return err
	}
	change, err := p.Data(o)
	var fields map[string]any
	if err == nil {
		err = json.Unmarshal(change, &fields)
	}
	if err != nil {
		return err
	}
	merge(raw.Object, fields)
	return c.etcd.Update(ctx, raw)
}

// merge is what a merge patch does.
func merge(into, change map[string]any) {
	for key, value := range change {
		fields, nested := value.(map[string]any)
		at, there := into[key].(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case nested && there:
			merge(at, fields)
		default:
			into[key] = value
		}
	}
}

// revision is etcd's own, 0 where Calico's objects are in the apiserver.
func (b *bench) revision() int64 {
	b.t.Helper()
	c, ok := b.kube.(both)
	if !ok {
		return 0
	}
	answer, err := c.keys.Get(b.t.Context(), "/calico/")
	require.NoError(b.t, err)
	return answer.Header.Revision
}

// writesSince are those to Calico's objects after a revision, in the words of the apiserver.
func (b *bench) writesSince(revision int64) (out []string) {
	b.t.Helper()
	until := b.revision()
	if until == revision {
		return nil
	}
	keys := b.kube.(both).keys
	_, err := keys.Put(b.t.Context(), "/calico/end", "")
	require.NoError(b.t, err)
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	for answer := range keys.Watch(ctx, "/calico/", clientv3.WithPrefix(), clientv3.WithRev(revision+1)) {
		for _, event := range answer.Events {
			if event.Kv.ModRevision > until {
				return out
			}
			verb := "update"
			switch resource := path.Base(path.Dir(string(event.Kv.Key))); {
			case resource == "nodes":
				verb = "patch"
			case event.IsCreate():
				verb = "create"
			case event.Type == clientv3.EventTypeDelete:
				verb = "delete"
			}
			out = append(out, verb+" "+path.Base(path.Dir(string(event.Kv.Key)))+"/"+path.Base(string(event.Kv.Key)))
		}
	}
	return out
}
