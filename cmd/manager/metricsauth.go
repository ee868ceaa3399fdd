package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// How long an answer about a token holds, how many are kept, and what asking may cost:
// a client that guesses gets 503, and the manager's own requests do not wait for it.
const (
	verdictHolds = time.Minute
	verdictsKept = 256
	authTimeout  = 10 * time.Second
	authQPS      = 5
	authParallel = 4
)

// metricsAuth lets those read the metrics who prove by a token that they may: RBAC's verb get on the path /metrics,
// as the apiserver says. controller-runtime has a filter that does so as well; it would link a gRPC exporter, CEL
// and a hundred packages more into a program that holds an API key.
type metricsAuth struct {
	reviews  kubernetes.Interface
	verdicts *cache.LRUExpireCache
	asking   chan struct{}
	log      logr.Logger
	metrics  http.Handler
}

// newMetricsAuth is a FilterProvider of the metrics server.
func newMetricsAuth(config *rest.Config, _ *http.Client) (server.Filter, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.Timeout = authQPS, 2*authQPS, authTimeout
	reviews, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("guarding the metrics: %w", err)
	}
	return authorizedBy(reviews), nil
}

func authorizedBy(reviews kubernetes.Interface) server.Filter {
	return func(log logr.Logger, metrics http.Handler) (http.Handler, error) {
		return &metricsAuth{reviews, cache.NewLRUExpireCache(verdictsKept), make(chan struct{}, authParallel), log, metrics}, nil
	}
}

// ServeHTTP implements http.Handler.
func (g *metricsAuth) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "give a bearer token", http.StatusUnauthorized)
		return
	}
	code, err := g.verdict(r.Context(), strings.TrimSpace(token), strings.ToLower(r.Method), r.URL.Path)
	switch {
	case err != nil:
		g.log.Error(err, "no request for metrics can be authorized")
		http.Error(w, "the apiserver does not say who may read this", http.StatusServiceUnavailable)
	case code == http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "the token is not valid", code)
	case code == http.StatusForbidden:
		http.Error(w, "the ClusterRole rrpool-metrics-reader is needed", code)
	default:
		g.metrics.ServeHTTP(w, r)
	}
}

// verdict is 200, 401 or 403. Tokens are remembered by their hash.
func (g *metricsAuth) verdict(ctx context.Context, token, verb, path string) (int, error) {
	key := sha256.Sum256([]byte(verb + " " + path + " " + token))
	if code, known := g.verdicts.Get(key); known {
		return code.(int), nil //nolint:forcetypeassert // nothing else is kept there
	}
	select {
	case g.asking <- struct{}{}:
		defer func() { <-g.asking }()
	default:
		return 0, fmt.Errorf("asking about a token: %d others are being asked about", authParallel)
	}
	code, err := g.ask(ctx, token, verb, path)
	if err == nil {
		g.verdicts.Add(key, code, verdictHolds)
	}
	return code, err
}

func (g *metricsAuth) ask(ctx context.Context, token, verb, path string) (int, error) {
	who, err := g.reviews.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("asking whose token it is: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := who.Status.User
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for name, values := range user.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	may, err := g.reviews.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: verb},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("asking whether %s may read the metrics: %w", user.Username, err)
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
