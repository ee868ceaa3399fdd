package intercept_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rrpool/rrpool/test/controlplane/intercept"
)

// far is an apiserver that agrees to everything, and a cloud that does.
type far struct {
	reached atomic.Int32
	from    atomic.Value // the Authorization that came last
}

func (f *far) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.reached.Add(1)
	f.from.Store(r.Header.Get("Authorization"))
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") != "" {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	_, _ = io.WriteString(w, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"}}`)
}

// scene is a client on a line to a far apiserver.
type scene struct {
	*testing.T
	far     *far
	between *intercept.Interceptor
	line    *intercept.Line
	client  kubernetes.Interface
	cut     atomic.Int32
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t, far: &far{}, between: intercept.New()}
	server := httptest.NewServer(s.far)
	t.Cleanup(server.Close)
	var err error
	s.line, err = s.between.Open("one", &rest.Config{Host: server.URL, BearerToken: "identity"}, s.far, func() { s.cut.Add(1) })
	require.NoError(t, err)
	t.Cleanup(s.line.Close)
	config := s.line.Config()
	config.QPS = -1
	s.client, err = kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return s
}

func (s *scene) patch() error {
	_, err := s.client.CoreV1().Nodes().Patch(s.Context(), "n", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	return err
}

// at gives a verdict on the n-th write.
func at(n int, v intercept.Verdict) intercept.Rule {
	return func(r intercept.Request) intercept.Verdict {
		if r.Number == n {
			return v
		}
		return intercept.Verdict{}
	}
}

func TestWhatPassesIsCountedAndCarriesTheIdentity(t *testing.T) {
	s := newScene(t)
	var observed []string
	s.between.Observe(func(r intercept.Request) { observed = append(observed, r.Kind()) })
	require.NoError(t, s.patch())
	_, err := s.client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "Bearer identity", s.far.from.Load())
	response, err := http.Post(s.line.CloudURL()+"/v2/vpc/createWorkerPool", "application/json", strings.NewReader(`{}`))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	work := s.between.Work()
	require.Len(t, work, 2, "reads do not count")
	require.Equal(t, "1 patch nodes n, 2 POST /v2/vpc/createWorkerPool ",
		fmt.Sprintf("%d %s %s, %d %s %s", work[0].Number, work[0].Kind(), work[0].Name, work[1].Number, work[1].Kind(), work[1].Name))
	require.Equal(t, []string{"patch nodes", "POST /v2/vpc/createWorkerPool"}, observed)
	require.True(t, work[0].Executed())
}

func TestALineIsCutBeforeOrAfterAWrite(t *testing.T) {
	for _, executed := range []bool{false, true} {
		s := newScene(t)
		s.between.Rules(at(2, intercept.Verdict{Cut: true, Executed: executed}))
		require.NoError(t, s.patch())
		require.Zero(t, s.cut.Load())
		require.Error(t, s.patch(), "no answer comes back")
		require.EqualValues(t, 1, s.cut.Load())
		require.EqualValues(t, map[bool]int{false: 1, true: 2}[executed], s.far.reached.Load())
		require.Error(t, s.patch())
		_, err := s.client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
		require.Error(t, err, "nothing passes any more")
		require.EqualValues(t, map[bool]int{false: 1, true: 2}[executed], s.far.reached.Load())
		require.Len(t, s.between.Work(), 2, "nor is it recorded")
		require.Equal(t, executed, s.between.Work()[1].Executed())
	}
}

func TestWhatIsHeldArrivesThoughTheSenderHasGone(t *testing.T) {
	s := newScene(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.between.Rules(func(intercept.Request) intercept.Verdict {
		cancel() // the sender goes once its request is there
		return intercept.Verdict{Delay: 500 * time.Millisecond}
	})
	_, err := s.client.CoreV1().Nodes().Patch(ctx, "n", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	require.ErrorIs(t, err, context.Canceled)
	require.Eventually(t, func() bool { return s.far.reached.Load() == 1 }, time.Minute, 10*time.Millisecond)
}
