//go:build linux

package monitoring_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/test/e2e/site"
)

// scrape is what a manager served at one moment: values by series. A manager that could
// not be asked served nothing.
type scrape struct {
	at     time.Time
	values map[string]float64
}

// scraper asks every second, as Prometheus does.
type scraper struct {
	token  string
	client *http.Client

	mu   sync.Mutex
	all  []scrape
	kind map[string]string // what the manager says of each metric: type and help
}

// startScraper gives Prometheus' account the right to read metrics, and begins to.
func startScraper(t *testing.T, ctx context.Context, s *site.Site) *scraper { //nolint:revive // t comes first in tests
	t.Helper()
	p := &scraper{
		token: readerToken(t, ctx, s), kind: map[string]string{},
		client: &http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // it signs itself, as servicemonitor.yaml says
		}},
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for tick := time.NewTicker(time.Second); ; {
			p.ask(ctx)
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	}()
	return p
}

func readerToken(t *testing.T, ctx context.Context, s *site.Site) string { //nolint:revive // t comes first in tests
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: "prometheus"}}
	require.NoError(t, s.Client.Create(ctx, account))
	require.NoError(t, s.Client.Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics"},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
	}))
	require.NoError(t, s.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "metrics"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: site.Namespace, Name: account.Name}},
	}))
	var token authenticationv1.TokenRequest
	require.NoError(t, s.Client.SubResource("token").Create(ctx, account, &token))
	return token.Status.Token
}

func (p *scraper) ask(ctx context.Context) {
	now := time.Now()
	families, err := p.get(ctx)
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	one := scrape{at: now, values: map[string]float64{"up": 0}}
	if err == nil {
		one.values["up"] = 1
	}
	for name, family := range families {
		if !strings.HasPrefix(name, "rrpool_") {
			continue
		}
		p.kind[name] = strings.ToLower(family.GetType().String()) + " " + family.GetHelp()
		if family.GetType() == dto.MetricType_HISTOGRAM {
			continue // no alert looks at one
		}
		for _, m := range family.GetMetric() {
			one.values[name+labels(m)] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	p.all = append(p.all, one)
}

func (p *scraper) get(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+site.Metrics+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+p.token)
	response, err := p.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the manager answers %s", response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(response.Body)
}

func labels(m *dto.Metric) string {
	var out []string
	for _, l := range m.GetLabel() {
		out = append(out, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
	}
	return strings.Join(append([]string{""}, out...), ",")
}

// until waits for a scrape that is as asked, and gives all since the last call.
func (p *scraper) until(t *testing.T, what string, is func(scrape) bool) []scrape {
	t.Helper()
	began := time.Now()
	for deadline := began.Add(limit); ; time.Sleep(200 * time.Millisecond) {
		p.mu.Lock()
		if n := len(p.all); n > 0 && p.all[n-1].at.After(began) && is(p.all[n-1]) {
			out := p.all
			p.all = nil
			p.mu.Unlock()
			t.Logf("%s: %d scrapes", what, len(out))
			return out
		}
		last := ""
		if n := len(p.all); n > 0 {
			last = fmt.Sprint(p.all[n-1].values)
		}
		p.mu.Unlock()
		require.True(t, time.Now().Before(deadline), "%s has not come; the manager says %s", what, last)
	}
}
