package iks

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	sdk "github.com/IBM-Cloud/bluemix-go/http"
	"github.com/IBM-Cloud/bluemix-go/rest"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/untrusted"
)

// session makes the requests, with one token. Provider.lock allows one call at a time.
type session struct {
	cfg Config
	// group is the ID of the resource group that requests name, "" for none: an empty header would mean the default group.
	group string
	// classic says that the cluster is one, which the v1 API is about.
	classic bool
	// token is what goes into Authorization; "" when a new one is due.
	token   string
	refresh string
	renewAt time.Time
	// account says for people what IAM has to accept of the service account's last token.
	account string
	// secrets must not appear in any text: the last keys and tokens, as an answer may repeat a former one.
	secrets []string
}

// do makes a request to the containers API, with the body unless that is nil, and reads the answer into out unless that is nil. Where
// the API refuses an older token, the request has had no effect, and is repeated once with a new one.
func (s *session) do(ctx context.Context, op, method string, at route, body, out any) error {
	if at.err != nil {
		return &cloud.Error{Kind: cloud.InvalidInput, Op: op, Message: s.scrub(at.err.Error())}
	}
	for {
		fresh, err := s.ensureToken(ctx)
		if err != nil {
			return err
		}
		request := rest.NewRequest(s.cfg.CSEndpoint+at.path).Method(method).Body(body).
			Set("User-Agent", strings.TrimSpace(sdk.UserAgent())).Set("Authorization", s.token).Set("X-Auth-Refresh-Token", s.refresh)
		if s.group != "" {
			request.Set("X-Auth-Resource-Group", s.group)
		}
		if s.classic && strings.HasPrefix(at.path, "/v1/") {
			request.Set("X-Auth-Uaa-Token", "")
			if s.cfg.Region != "" {
				request.Set("X-Region", s.cfg.Region)
			}
		}
		status, err := s.exchange(ctx, op, request, out)
		if status != http.StatusUnauthorized {
			return err
		}
		s.token = ""
		if fresh {
			return err
		}
	}
}

// ensureToken gets a token unless there is one; fresh says that it did.
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
	if _, err = s.exchange(ctx, opLogin, login, &granted); err != nil {
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
func (s *session) login() (*rest.Request, error) {
	request := rest.PostRequest(s.cfg.IAMEndpoint + "/identity/token")
	if s.cfg.byProfile() {
		return s.loginByProfile(request)
	}
	key := strings.TrimSpace(s.cfg.APIKey)
	if key == "" {
		return nil, &cloud.Error{Kind: cloud.Unauthorized, Op: opLogin, Message: "the API key is empty", RetryAfter: deniedPause}
	}
	s.keepSecret(key)
	return request.Set("Authorization", "Basic Yng6Yng=").Field("response_type", "cloud_iam"). // bx:bx, as in all of IBM's clients
													Field("grant_type", "urn:ibm:params:oauth:grant-type:apikey").Field("apikey", key), nil
}

// keepSecret adds a secret, of which the last 32 are kept.
func (s *session) keepSecret(secret string) {
	if strings.TrimSpace(secret) == "" || slices.Contains(s.secrets, secret) {
		return
	}
	s.secrets = append(s.secrets, secret)
	s.secrets = s.secrets[max(0, len(s.secrets)-32):]
}

// limits bounds an answer: 5,000 workers are some 5 MB and 250,000 values.
var limits = untrusted.Limits{Bytes: 16 << 20, Values: 500_000, Items: 20_000}

// exchange makes one request and reads the answer into out, unless that is nil. The status is 0 without an answer.
func (s *session) exchange(ctx context.Context, op string, r *rest.Request, out any) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	r.Set("X-Original-User-Agent", s.cfg.UserAgent).Set("Accept", "application/json").Set("Accept-Language", "en")
	request, err := r.Set("Content-Type", "application/json").Build() // a form is sent as one all the same
	if err != nil {
		return 0, s.unanswered(op, err)
	}
	// An http.Client would follow a redirect, which carries the token along, or turns a POST into a GET.
	answer, err := limits.Transport(s.cfg.Transport).RoundTrip(request.WithContext(ctx))
	if err != nil {
		return 0, s.unanswered(op, err)
	}
	defer answer.Body.Close() //nolint:errcheck // read to its end
	body, err := io.ReadAll(answer.Body)
	switch status = answer.StatusCode; {
	case errors.As(err, new(*untrusted.LimitError)):
		return 0, s.senseless(op, err.Error())
	case err != nil:
		return 0, s.unanswered(op, err)
	case status < 200 || status > 299:
		return status, s.refused(op, answer, body)
	}
	if err := decode(body, out); err != nil {
		return status, s.senseless(op, err.Error())
	}
	return status, nil
}

// decode reads the body of an answer with a status of success. What is no JSON may be a proxy's page.
func decode(body []byte, out any) error {
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0 && out == nil:
		return nil
	case len(body) == 0:
		return errors.New("the answer is empty")
	case !json.Valid(body):
		return errors.New("the answer is not (complete) JSON" + lookAround)
	case out == nil:
		return nil
	case string(body) == "null":
		return errors.New("the answer is null")
	}
	return json.Unmarshal(body, out) //nolint:wrapcheck // becomes a cloud.Error in exchange
}

// opLogin is the Op of every exchange with IAM.
const opLogin = "getting an IAM token"

// TokenAudience is the audience of the service account tokens that IAM takes.
const TokenAudience = "iam"

// byProfile reports whether a trusted profile logs in, and no key.
func (c Config) byProfile() bool { return c.Profile != v1alpha1.TrustedProfile{} }

// profile names the trusted profile for people.
func (c Config) profile() string {
	return fmt.Sprintf("trusted profile %q", cmp.Or(c.Profile.ID, c.Profile.Name))
}

// loginByProfile is the request to IAM for a token of the trusted profile, by that of the service account, whose file is read each
// time: the kubelet renews it.
func (s *session) loginByProfile(request *rest.Request) (*rest.Request, error) {
	content, err := os.ReadFile(s.cfg.TokenFile)
	token := strings.TrimSpace(string(content))
	if err == nil && token == "" {
		err = fmt.Errorf("%s is empty", s.cfg.TokenFile)
	}
	if err != nil {
		return nil, &cloud.Error{
			Kind: cloud.Unauthorized, Op: opLogin, RetryAfter: deniedPause,
			Message: s.scrub(fmt.Sprintf("%s logs in with the token of the manager's service account: %v (mount it for audience %s: docs/install.md)",
				s.cfg.profile(), err, TokenAudience)),
		}
	}
	s.keepSecret(token)
	s.account = s.accountOf(token)
	key, value := "profile_id", s.cfg.Profile.ID
	if value == "" {
		key, value = "profile_name", s.cfg.Profile.Name
	}
	return request.Field("grant_type", "urn:ibm:params:oauth:grant-type:cr-token").Field("cr_token", token).Field(key, value), nil
}

// accountOf says what IAM has to accept of a service account's token, or why it will not. It is for a message: IAM verifies the token.
func (s *session) accountOf(token string) string {
	var claims struct {
		Subject  string   `json:"sub"`
		Audience []string `json:"aud"`
		Expiry   int64    `json:"exp"`
	}
	parts := strings.Split(token, ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[min(1, len(parts)-1)])
	err = errors.Join(err, json.Unmarshal(payload, &claims))
	namespace, name, found := strings.Cut(strings.TrimPrefix(claims.Subject, "system:serviceaccount:"), ":")
	switch {
	case err != nil || !found:
		return fmt.Sprintf("%s must hold the token of a service account", s.cfg.TokenFile)
	case !slices.Contains(claims.Audience, TokenAudience):
		return fmt.Sprintf("the token in %s must be for audience %s, and is for %q", s.cfg.TokenFile, TokenAudience, claims.Audience)
	case claims.Expiry <= s.cfg.Now().Unix():
		return fmt.Sprintf("the token in %s has expired: the kubelet renews it, but not in a mount with subPath", s.cfg.TokenFile)
	}
	return fmt.Sprintf("it must be linked to service account %s in namespace %s of this cluster", name, namespace)
}
