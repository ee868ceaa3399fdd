package iks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	bluemix "github.com/IBM-Cloud/bluemix-go"
	"github.com/IBM-Cloud/bluemix-go/authentication"
	"github.com/IBM-Cloud/bluemix-go/client"
	"github.com/IBM-Cloud/bluemix-go/rest"

	"github.com/rrpool/rrpool/cloud"
)

// session makes the requests: one token, one pool of connections. Its callers
// make one call at a time (Provider.lock), as the SDK is not made for concurrent use.
type session struct {
	cfg Config
	// token is what goes into Authorization; "" when a new one is due.
	token   string
	refresh string
	renewAt time.Time
	// secrets must not appear in any text. The last keys and tokens are kept: an
	// answer may be about a former one.
	secrets []string
}

func newSession(c Config) *session { return &session{cfg: c} }

// call is one request to the containers API.
type call struct {
	op, method string
	route
	// body of the request, nil for none; out takes the answer, nil for none.
	body, out any
	// service chooses the headers of the API's generation, target further ones.
	service bluemix.ServiceName
	target  map[string]string
}

// do makes a request, and repeats it once with a new token when the API says
// that an older one is no good: such a request has had no effect.
func (s *session) do(ctx context.Context, c call) error {
	if c.err != nil {
		return &cloud.Error{Kind: cloud.InvalidInput, Op: c.op, Message: s.scrub(c.err.Error())}
	}
	fresh, err := s.ensureToken(ctx)
	if err != nil {
		return err
	}
	x, cause := s.send(ctx, c)
	if x.err == nil && x.status == http.StatusUnauthorized {
		s.token = ""
		if !fresh {
			if _, err := s.ensureToken(ctx); err != nil {
				return err
			}
			x, cause = s.send(ctx, c)
			if x.err == nil && x.status == http.StatusUnauthorized {
				s.token = ""
			}
		}
	}
	if !x.ok() || cause != nil {
		return s.failure(c.op, x, cause)
	}
	return nil
}

// send makes one request with the SDK's client. The client is a few words of
// memory; connections belong to the transport.
func (s *session) send(ctx context.Context, c call) (*exchange, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	x := &exchange{ctx: ctx, base: s.cfg.Transport}
	cfg := s.sdk(x)
	// Without a token refresher the SDK does not answer a 403 with logins.
	sdk := client.New(cfg, c.service, nil)
	var raw json.RawMessage
	var into any
	if c.out != nil {
		into = &raw
	}
	err := transmit(sdk, c, into)
	if x.err == nil && x.status == 0 {
		x.err = errors.Join(errors.New("the request was not sent"), err)
	}
	if !x.ok() {
		return x, nil
	}
	if bad := x.sensible(c.out != nil); bad != nil {
		return x, bad
	}
	if err != nil || c.out == nil {
		return x, err
	}
	return x, json.Unmarshal(x.body, c.out) //nolint:wrapcheck // becomes a cloud.Error in do
}

// transmit leaves the answer to the exchange, which has read and closed it.
func transmit(sdk *client.Client, c call, into any) error {
	var err error
	switch c.method {
	case http.MethodGet:
		_, err = sdk.Get(c.path, into, c.target) //nolint:bodyclose // closed by the exchange
	case http.MethodPost:
		_, err = sdk.Post(c.path, c.body, into, c.target) //nolint:bodyclose // closed by the exchange
	case http.MethodPatch:
		_, err = sdk.Patch(c.path, c.body, into, c.target) //nolint:bodyclose // closed by the exchange
	case http.MethodDelete:
		_, err = sdk.Delete(c.path, c.target) //nolint:bodyclose // closed by the exchange
	}
	return err //nolint:wrapcheck // becomes a cloud.Error in do
}

// sdk is a configuration that leaves the SDK nothing to look up by itself.
func (s *session) sdk(x *exchange) *bluemix.Config {
	retries, delay := 0, time.Duration(0)
	return &bluemix.Config{
		IAMAccessToken: s.token, IAMRefreshToken: s.refresh,
		Region: s.cfg.Region, Endpoint: &s.cfg.CSEndpoint, TokenProviderEndpoint: &s.cfg.IAMEndpoint,
		MaxRetries: &retries, RetryDelay: &delay, HTTPClient: x.client(), UserAgent: s.cfg.UserAgent,
	}
}

// ensureToken makes sure of a token; fresh says that it was fetched just now.
func (s *session) ensureToken(ctx context.Context) (fresh bool, err error) {
	if s.token != "" && s.cfg.Now().Before(s.renewAt) {
		return false, nil
	}
	const op = "getting an IAM token"
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	key, err := s.cfg.APIKey(ctx)
	if err != nil {
		return false, s.noKey(ctx, op, err)
	}
	key = strings.TrimSpace(key)
	if key == "" {
		return false, &cloud.Error{Kind: cloud.Unauthorized, Op: op, Message: "the API key is empty", RetryAfter: deniedPause}
	}
	s.keepSecret(key)
	x := &exchange{ctx: ctx, base: s.cfg.Transport}
	cfg := s.sdk(x)
	cfg.IAMAccessToken, cfg.IAMRefreshToken = "", ""
	iam, err := authentication.NewIAMAuthRepository(cfg, &rest.Client{
		HTTPClient:    x.client(),
		DefaultHeader: http.Header{"X-Original-User-Agent": {s.cfg.UserAgent}},
	})
	if err == nil {
		err = iam.AuthenticateAPIKey(key)
	}
	if x.err == nil && x.status == 0 {
		x.err = errors.Join(errors.New("the request was not sent"), err)
	}
	if !x.ok() {
		return false, s.failure(op, x, nil)
	}
	if bad := errors.Join(x.sensible(true), err); bad != nil {
		return false, s.failure(op, x, bad)
	}
	return true, s.accept(op, x, cfg)
}

// noKey is the error of an APIKey function.
func (s *session) noKey(ctx context.Context, op string, err error) error {
	var typed *cloud.Error
	switch {
	case errors.As(err, &typed):
		return typed
	case ctx.Err() != nil:
		return cloud.Interrupted(ctx, op)
	}
	return &cloud.Error{
		Kind: cloud.Unauthorized, Op: op, RetryAfter: deniedPause,
		Message: "the API key cannot be read: " + s.scrub(err.Error()),
	}
}

// longestLifetime of a token that is believed, in seconds.
const longestLifetime = 1 << 32

// accept takes over the token of a good answer. The SDK is content with none.
func (s *session) accept(op string, x *exchange, cfg *bluemix.Config) error {
	var granted struct {
		AccessToken string `json:"access_token"`
		TokenType   string `json:"token_type"`
		ExpiresIn   int64  `json:"expires_in"`
	}
	if err := json.Unmarshal(x.body, &granted); err != nil {
		return s.failure(op, x, err)
	}
	s.keepSecret(granted.AccessToken)
	s.keepSecret(cfg.IAMRefreshToken)
	if strings.TrimSpace(granted.AccessToken) == "" || strings.TrimSpace(granted.TokenType) == "" {
		return s.failure(op, x, errors.New("IAM gave an empty token"))
	}
	if strings.ContainsFunc(granted.TokenType+granted.AccessToken, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return s.failure(op, x, errors.New("IAM gave a token that cannot be put into a header"))
	}
	s.token, s.refresh = cfg.IAMAccessToken, cfg.IAMRefreshToken
	lifetime := time.Duration(min(granted.ExpiresIn, longestLifetime)) * time.Second
	if lifetime <= 0 {
		lifetime = time.Hour
	}
	s.renewAt = s.cfg.Now().Add(lifetime / 5 * 4)
	return nil
}

func (s *session) keepSecret(secret string) {
	const most = 32
	if strings.TrimSpace(secret) == "" || slices.Contains(s.secrets, secret) {
		return
	}
	s.secrets = append(s.secrets, secret)
	if len(s.secrets) > most {
		s.secrets = s.secrets[len(s.secrets)-most:]
	}
}

// maxBody bounds an answer: 500 workers are some 500 kB.
const maxBody = 16 << 20

// exchange carries one request of the SDK under a context, which the SDK does
// not know, and keeps what the SDK throws away: status, headers and whole body.
type exchange struct {
	//nolint:containedctx // this is how the context gets into the SDK, for one call
	ctx    context.Context
	base   http.RoundTripper
	status int
	header http.Header
	body   []byte
	err    error
}

// RoundTrip implements http.RoundTripper.
func (x *exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := x.base.RoundTrip(r.WithContext(x.ctx))
	if err != nil {
		x.err = err
		return nil, err //nolint:wrapcheck // a RoundTripper passes on
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	x.status, x.header = resp.StatusCode, resp.Header
	x.body, x.err = io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if x.err == nil && len(x.body) > maxBody {
		x.err = fmt.Errorf("the answer is larger than %d bytes", maxBody)
	}
	if x.err != nil {
		return nil, x.err
	}
	resp.Body = io.NopCloser(bytes.NewReader(x.body))
	return resp, nil
}

// client is an http.Client for this one exchange; connections belong to base.
func (x *exchange) client() *http.Client {
	return &http.Client{
		Transport: x,
		// A redirect would carry the token along, or turn a POST into a GET.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (x *exchange) ok() bool { return x.err == nil && x.status >= 200 && x.status <= 299 }

// sensible checks the body of a good answer: JSON where a value is expected, and
// no page of a proxy where nothing is.
func (x *exchange) sensible(value bool) error {
	body := bytes.TrimSpace(x.body)
	switch {
	case len(body) == 0 && value:
		return errors.New("the answer is empty")
	case len(body) == 0:
		return nil
	case !json.Valid(body):
		return errors.New("the answer is not (complete) JSON")
	case value && string(body) == "null":
		return errors.New("the answer is null")
	}
	return nil
}
