package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/iksserver"
)

// site is a cluster with a manager, and a cloud that can be exchanged.
type site struct {
	*testing.T
	plane   *controlplane.ControlPlane
	admin   client.Client
	cloud   *iksserver.Server
	serving atomic.Pointer[iksserver.Server]
	manager running
	scraper string // the token of one who may read the metrics
}

// ServeHTTP implements http.Handler.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.serving.Load().ServeHTTP(w, r) }

// refusal is something in the way, as a user meets it.
type refusal struct {
	name string
	// cause makes it; what it returns, if anything, takes it away again.
	cause func(s *site) func()
	// reason of the condition Degraded, and words that its message has.
	reason string
	says   []string
	// orders: the cloud is asked for workers, as it should be.
	orders bool
}

var refusals = []refusal{
	{
		name: "a BGPPeer of others under our name",
		cause: func(s *site) func() {
			return s.peer("rrpool-clients", map[string]any{"peerIP": "192.0.2.1", "asNumber": int64(64513)})
		},
		reason: "NameTaken", says: []string{"BGPPeer rrpool-clients", "rename or delete it"},
	},
	{
		name: "a worker pool of others of our name",
		cause: func(s *site) func() {
			s.cloud.AddPool(testClusterID, iksserver.Pool{
				Name: "route-reflectors", Flavor: "bx2.2x8", SizePerZone: 1, Zones: []string{"us-south-1"},
			})
			return nil
		},
		reason: "PoolConflict", says: []string{`"route-reflectors"`, "spec.provider.iks.poolName"},
	},
	{
		name: "an IKS cluster without credentials",
		cause: func(s *site) func() {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "rrpool-ibmcloud"}}
			require.NoError(s, s.admin.Get(s.Context(), client.ObjectKeyFromObject(secret), secret))
			require.NoError(s, s.admin.Delete(s.Context(), secret))
			secret.ResourceVersion = ""
			return func() { require.NoError(s, s.admin.Create(s.Context(), secret)) }
		},
		reason: "CredentialsMissing", says: []string{"rrpool-ibmcloud", "kubectl --namespace rrpool-system create secret"},
	},
	{
		name: "a key that IAM refuses",
		cause: fault(iksserver.Fault{
			Status: http.StatusUnauthorized, Body: `{"errorCode":"BXNIM0415E","errorMessage":"Provided API key ` + testKey + ` could not be found."}`,
		}.On(http.MethodPost, "/identity/token")),
		reason: "CloudUnauthorized", says: []string{"API key must be valid"},
	},
	{
		name: "workers that fail",
		cause: func(s *site) func() {
			s.cloud.FailNext(1000, "provision_failed", "no capacity for "+testKey)
			return nil
		},
		reason: "PoolProblem", says: []string{"no capacity for"}, orders: true,
	},
	{
		name:   "no CalicoNodeStatus",
		cause:  (*site).withoutReports,
		reason: "NodeStatusCRDMissing", says: []string{"CalicoNodeStatus", "rollout.gate: Timer"},
	},
}

// The manager as it is deployed, in clusters where something is in its way: it
// says what and what would help, touches nothing, and never shows the key.
func TestWhatIsInTheWayIsSaidAndLeftAlone(t *testing.T) {
	besideOthers(t)
	plane := auditedPlane(t)
	s := &site{T: t, plane: plane, admin: adminOf(t, plane)}
	cluster(t, s.admin)
	s.newCloud()
	letRead(t, s.admin, "scraper")
	s.scraper = tokenOf(t, s.admin, "scraper")
	config := plane.ServiceAccountConfig(testNamespace, "rrpool-manager")
	s.manager = start(t, config, endpoints(t, s), "--zap-log-level=debug")
	for _, tc := range refusals {
		met := t.Run(tc.name, func(t *testing.T) {
			s.T = t
			s.meet(tc)
		})
		if !met {
			break // the next would find what this one left
		}
	}
	s.T = t
}

// auditedPlane is a control plane of the test's own, whose audit log has every request.
func auditedPlane(t *testing.T) *controlplane.ControlPlane {
	t.Helper()
	ctx := t.Context()
	calico, err := controlplane.CalicoCRDs(ctx)
	require.NoError(t, err)
	plane, err := controlplane.Start(ctx, controlplane.Options{AuditReads: true, CRDs: []string{calico, controlplane.OwnCRDs()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plane.Stop()) })
	return plane
}

func (s *site) newCloud() {
	s.Helper()
	s.cloud = cloudFor(s.T, s.admin)
	s.serving.Store(s.cloud)
}

// meet has the manager meet one refusal, from a new object to its end.
func (s *site) meet(tc refusal) {
	s.Helper()
	s.newCloud()
	pod := calicoNode(s.T, s.admin, "10.1.0.1", corev1.EnvVar{Value: "bird"}) // else the manager asks nodes for their sessions first
	defer func() { require.NoError(s, s.admin.Delete(s.Context(), pod, client.GracePeriodSeconds(0))) }()
	remedy := tc.cause(s)
	began := time.Now()
	object := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName}}
	if !tc.orders {
		// What comes with the object may be seen a moment later. It is there
		// first in production, and here the pause sees to it.
		object.Spec.Mode = v1alpha1.ModePaused
	}
	require.NoError(s, s.admin.Create(s.Context(), object))
	s.awaitDegraded(object, tc)
	if !tc.orders {
		// As a person does it: whatever the manager has written meanwhile.
		require.NoError(s, s.admin.Patch(s.Context(), object, rawMerge(`{"spec":{"mode":"RouteReflector"}}`)))
		s.awaitDegraded(object, tc)
	}
	require.False(s, meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.ConditionReady))
	time.Sleep(300 * time.Millisecond) // a silence can only be waited for
	s.requireUntouched(began)
	_, mutations, _ := s.cloud.Counts()
	require.Equal(s, tc.orders, mutations > 0, "requests that change the cloud: %d", mutations)
	// The key is nowhere where the manager speaks; the log is looked at when it ends.
	require.NotContains(s, fmt.Sprintf("%+v", object), testKey)
	var events eventsv1.EventList
	require.NoError(s, s.admin.List(s.Context(), &events))
	require.NotContains(s, fmt.Sprintf("%+v", events.Items), testKey)
	await(s.T, 2*time.Minute, func(c *assert.CollectT) {
		code, body := get(c, s.manager.metrics, s.scraper)
		require.Equal(c, http.StatusOK, code, body)
		require.Contains(c, body, "rrpool_condition")
		require.NotContains(c, body, testKey)
	})

	// What was never touched does not hold up a deletion.
	require.NoError(s, s.admin.Delete(s.Context(), object))
	await(s.T, 2*time.Minute, func(c *assert.CollectT) {
		require.True(c, apierrors.IsNotFound(s.admin.Get(s.Context(), client.ObjectKeyFromObject(object), object)))
	})
	s.requireUntouched(began)
	if remedy != nil {
		remedy()
	}
}

// awaitDegraded waits until the object, as it is now, is reported as Degraded.
func (s *site) awaitDegraded(object *v1alpha1.RouteReflectorPool, tc refusal) {
	s.Helper()
	await(s.T, 2*time.Minute, func(c *assert.CollectT) {
		require.NoError(c, s.admin.Get(s.Context(), client.ObjectKeyFromObject(object), object))
		degraded := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionDegraded)
		require.NotNil(c, degraded)
		require.Equal(c, object.Generation, degraded.ObservedGeneration)
		require.Equal(c, "True "+tc.reason, fmt.Sprintf("%s %s", degraded.Status, degraded.Reason), degraded.Message)
		for _, words := range tc.says {
			require.Contains(c, degraded.Message, words)
		}
	})
}

// requireUntouched: the manager wrote nothing but what it has to say, its lease and its own object.
func (s *site) requireUntouched(since time.Time) {
	s.Helper()
	user := controlplane.ServiceAccountUser(testNamespace, "rrpool-manager")
	writes, err := s.plane.Writes(user, since)
	require.NoError(s, err)
	require.NotEmpty(s, writes, "it has said something")
	for _, write := range writes {
		own := strings.HasPrefix(write.Resource, "routereflectorpools")
		require.True(s, write.Lease() || own || write.Resource == "events", "%s", write)
	}
	requireAllowed(s.T, s.plane, user, since)
}

func fault(f iksserver.Fault) func(*site) func() {
	return func(s *site) func() {
		s.cloud.Inject(f)
		return nil
	}
}

func (s *site) peer(name string, spec map[string]any) func() {
	s.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(calico.GroupV1.WithKind("BGPPeer"))
	object.SetName(name)
	require.NoError(s, s.admin.Create(s.Context(), object))
	return func() { require.NoError(s, s.admin.Delete(s.Context(), object)) }
}

func (s *site) withoutReports() func() {
	s.Helper()
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	definition.SetName("caliconodestatuses.crd.projectcalico.org")
	require.NoError(s, s.admin.Delete(s.Context(), definition))
	await(s.T, 2*time.Minute, func(c *assert.CollectT) {
		require.True(c, apierrors.IsNotFound(s.admin.Get(s.Context(), client.ObjectKeyFromObject(definition), definition)))
	})
	return nil
}
