package intercept_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rrpool/rrpool/test/controlplane/intercept"
)

// far is an apiserver that agrees to everything.
type far struct{ reached atomic.Int32 }

func (f *far) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	f.reached.Add(1)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"}}`)
}

// scene is a client on a line to a far apiserver.
type scene struct {
	*testing.T
	far     *far
	between *intercept.Interceptor
	client  kubernetes.Interface
	cut     atomic.Int32
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

func TestALineIsCutBeforeOrAfterAWrite(t *testing.T) {
	for _, executed := range []bool{false, true} {
		s := &scene{T: t, far: &far{}, between: intercept.New()}
		server := httptest.NewServer(s.far)
		t.Cleanup(server.Close)
		line, err := s.between.Open("one", &rest.Config{Host: server.URL}, nil, func() { s.cut.Add(1) })
		require.NoError(t, err)
		t.Cleanup(line.Close)
		config := line.Config()
		config.QPS = -1
		s.client, err = kubernetes.NewForConfig(config)
		require.NoError(t, err)
		s.between.Rules(at(2, intercept.Verdict{Cut: true, Executed: executed}))
		require.NoError(t, s.patch())
		require.Zero(t, s.cut.Load())
		require.Error(t, s.patch(), "no answer comes back")
		require.EqualValues(t, 1, s.cut.Load())
		require.EqualValues(t, map[bool]int{false: 1, true: 2}[executed], s.far.reached.Load())
		require.Error(t, s.patch())
		_, err = s.client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
		require.Error(t, err, "nothing passes any more")
		require.EqualValues(t, map[bool]int{false: 1, true: 2}[executed], s.far.reached.Load())
		require.Len(t, s.between.Work(), 2, "nor is it recorded")
		require.Equal(t, executed, s.between.Work()[1].Executed())
	}
}
