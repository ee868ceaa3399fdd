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

// session makes the requests, with one token. Its callers make one call at a time (Provider.lock).
type session struct {
	cfg Config
	// group is the id of the resource group that requests name, "" for none: an empty
	// header would mean the account's default group.
	group string
	// classic: the cluster is one, and calls of the v1 API are about it.
	classic bool
	// token is what goes into Authorization; "" when a new one is due.
	token   string
	refresh string
	renewAt time.Time
	// account says what IAM has to accept about the service account's token that it got last, for people.
	account string
	// secrets must not appear in any text. The last keys and tokens are kept: an answer may be about a former one.
	secrets []string
}

// do makes a request to the containers API, with the body unless that is nil, and
// reads the answer into out unless that is nil. It repeats the request once with a new
// token when the API says that an older one is no good: such a request has had no effect.
func (s *session) do(ctx context.Context, op, method string, at route, body, out any) error {
	if at.err != nil {
		return &cloud.Error{Kind: cloud.InvalidInput, Op: op, Message: s.scrub(at.err.Error())}
	}
	service, header := bluemix.VpcContainerService, map[string]string{}
	if s.group != "" {
		header["X-Auth-Resource-Group"] = s.group
	}
	if s.classic && strings.HasPrefix(at.path, "/v1/") {
		service = bluemix.ContainerService
		if s.cfg.Region != "" {
			header["X-Region"] = s.cfg.Region
		}
	}
	for {
		fresh, err := s.ensureToken(ctx)
		if err != nil {
			return err
		}
		status, err := s.exchange(ctx, op, out, func(config *bluemix.Config) error {
			sdk := client.New(config, service, nil) // without a token refresher it does not answer a 403 with a login
			request := rest.NewRequest(sdk.URL(at.path)).Method(method).Body(body)
			for key, value := range header {
				request.Set(key, value)
			}
			_, err := sdk.SendRequest(request, nil) //nolint:bodyclose // the carrier has closed it
			return err                              //nolint:wrapcheck // becomes a cloud.Error in exchange
		})
		if status != http.StatusUnauthorized {
			return err
		}
		s.token = ""
		if fresh {
			return err
		}
	}
}

// ensureToken makes sure of a token; fresh says that it was fetched just now.
func (s *session) ensureToken(ctx context.Context) (fresh bool, err error) {
	if s.token != "" && s.cfg.Now().Before(s.renewAt) {
		return false, nil
	}
	login, err := s.login()
	if err != nil {
		return false, err
	}
	var granted struct {
		AccessToken  string `json:"access_token"`
		RefreshToken string `json:"refresh_token"`
		TokenType    string `json:"token_type"`
		ExpiresIn    int64  `json:"expires_in"`
	}
	if _, err = s.exchange(ctx, opLogin, &granted, login); err != nil {
		return false, err
	}
	granted.RefreshToken = strings.TrimPrefix(granted.RefreshToken, "not_supported") // which is how IAM says that there is none
	s.keepSecret(granted.AccessToken)
	s.keepSecret(granted.RefreshToken)
	token := granted.TokenType + " " + granted.AccessToken
	switch {
	case strings.TrimSpace(granted.AccessToken) == "" || strings.TrimSpace(granted.TokenType) == "":
		return false, s.senseless(opLogin, "IAM gave an empty token")
	case strings.ContainsFunc(granted.TokenType+granted.AccessToken, func(r rune) bool { return r <= ' ' || r > '~' }):
		return false, s.senseless(opLogin, "IAM gave a token that cannot be put into a header")
	}
	lifetime := time.Hour
	if year := int64(365 * 24 * 3600); granted.ExpiresIn > 0 && granted.ExpiresIn <= year {
		lifetime = time.Duration(granted.ExpiresIn) * time.Second
	}
	s.token, s.refresh, s.renewAt = token, granted.RefreshToken, s.cfg.Now().Add(lifetime/5*4)
	return true, nil
}

// login is the request to IAM for a token.
func (s *session) login() (func(*bluemix.Config) error, error) {
	if s.cfg.byProfile() {
		return s.loginByProfile()
	}
	key := strings.TrimSpace(s.cfg.APIKey)
	if key == "" {
		return nil, &cloud.Error{Kind: cloud.Unauthorized, Op: opLogin, Message: "the API key is empty", RetryAfter: deniedPause}
	}
	s.keepSecret(key)
	return func(config *bluemix.Config) error {
		sdk := &rest.Client{HTTPClient: config.HTTPClient, DefaultHeader: http.Header{"X-Original-User-Agent": {config.UserAgent}}}
		iam, err := authentication.NewIAMAuthRepository(config, sdk)
		if err != nil {
			return err //nolint:wrapcheck // becomes a cloud.Error in exchange
		}
		return iam.AuthenticateAPIKey(key)
	}, nil
}

// keepSecret remembers the last 32.
func (s *session) keepSecret(secret string) {
	if strings.TrimSpace(secret) == "" || slices.Contains(s.secrets, secret) {
		return
	}
	s.secrets = append(s.secrets, secret)
	s.secrets = s.secrets[max(0, len(s.secrets)-32):]
}

// maxBody bounds an answer: 500 workers are some 500 kB.
const maxBody = 16 << 20

// exchange makes one request with the SDK and reads the answer into out, unless that is nil. The status is 0
// without an answer. The SDK is given everything that it would look up by itself, and repeats nothing.
func (s *session) exchange(ctx context.Context, op string, out any, send func(*bluemix.Config) error) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	x := &carrier{ctx: ctx, base: s.cfg.Transport}
	retries, delay := 0, time.Duration(0)
	err = send(&bluemix.Config{
		IAMAccessToken: s.token, IAMRefreshToken: s.refresh, Region: s.cfg.Region, UserAgent: s.cfg.UserAgent,
		Endpoint: &s.cfg.CSEndpoint, TokenProviderEndpoint: &s.cfg.IAMEndpoint, MaxRetries: &retries, RetryDelay: &delay,
		// A redirect would carry the token along, or turn a POST into a GET.
		HTTPClient: &http.Client{Transport: x, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	})
	switch {
	case x.err != nil:
		return 0, s.unanswered(op, x.err)
	case x.answer == nil:
		return 0, s.unanswered(op, errors.Join(errors.New("the request was not sent"), err))
	}
	status = x.answer.StatusCode
	if status < 200 || status > 299 {
		return status, s.refused(op, x.answer, x.body)
	}
	if err := decode(x.body, out); err != nil {
		return status, s.senseless(op, err.Error())
	}
	return status, nil
}

// carrier is the transport of one request. It adds the context, which the SDK does not
// take, and keeps the whole answer, of which the SDK drops status and headers.
type carrier struct {
	//nolint:containedctx // this is how the context gets into the SDK, for one call
	ctx    context.Context
	base   http.RoundTripper
	answer *http.Response
	body   []byte
	err    error
}

// RoundTrip implements http.RoundTripper.
func (x *carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := x.base.RoundTrip(r.WithContext(x.ctx))
	if err == nil {
		defer answer.Body.Close() //nolint:errcheck // read to its end
		x.body, err = io.ReadAll(io.LimitReader(answer.Body, maxBody+1))
	}
	if err == nil && len(x.body) > maxBody {
		err = fmt.Errorf("the answer is larger than %d bytes", maxBody)
	}
	if x.err = err; err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(x.body))
	x.answer = answer
	return answer, nil
}

// decode reads the body of a good answer: JSON where a value is expected, and no page of a proxy where nothing is.
func decode(body []byte, out any) error {
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0 && out == nil:
		return nil
	case len(body) == 0:
		return errors.New("the answer is empty")
	case !json.Valid(body):
		return errors.New("the answer is not (complete) JSON")
	case out == nil:
		return nil
	case string(body) == "null":
		return errors.New("the answer is null")
	}
	return json.Unmarshal(body, out) //nolint:wrapcheck // becomes a cloud.Error in exchange
}
