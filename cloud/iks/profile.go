package iks

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/IBM-Cloud/bluemix-go/rest"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// opLogin is every exchange with IAM.
const opLogin = "getting an IAM token"

// TokenAudience is the audience of the service account tokens that IAM takes.
const TokenAudience = "iam"

// byProfile: a trusted profile logs in, and no key.
func (c Config) byProfile() bool { return c.Profile != v1alpha1.TrustedProfile{} }

// profile names the trusted profile for people.
func (c Config) profile() string {
	return fmt.Sprintf("trusted profile %q", cmp.Or(c.Profile.ID, c.Profile.Name))
}

// loginByProfile asks IAM for a token of the trusted profile, with the service account's. Its file
// is read each time: the kubelet writes another token into it before one expires.
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

// accountOf says what IAM has to accept about a service account's token, or why it will not. Only
// words depend on it: IAM verifies the token.
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
