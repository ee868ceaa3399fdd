package iksserver

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// TrustedProfile is a trusted profile and the service account that it is linked to.
type TrustedProfile struct {
	ID, Name           string
	Namespace, Account string
}

// token is POST /identity/token.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		iamError(w, http.StatusBadRequest, "BXNIM0109E", "Property missing or empty: grant_type")
		return
	}
	switch user, pass, ok := r.BasicAuth(); r.PostForm.Get("grant_type") {
	case "urn:ibm:params:oauth:grant-type:apikey":
		if !ok || user != "bx" || pass != "bx" {
			iamError(w, http.StatusUnauthorized, "BXNIM0308E", "Client credentials are missing.")
			return
		}
		if !s.valid(r.PostForm.Get("apikey")) {
			iamError(w, http.StatusBadRequest, "BXNIM0415E", "Provided API key could not be found.")
			return
		}
		s.grant(w, true)
	case "urn:ibm:params:oauth:grant-type:cr-token":
		if status, why := s.refuseProfile(r.PostForm); why != "" {
			iamError(w, status, "BXNIM9001E", why)
			return
		}
		s.grant(w, false)
	default:
		iamError(w, http.StatusBadRequest, "BXNIM0112E", "Only the grants of an API key and of a compute resource are offered here.")
	}
}

// refuseProfile returns why a service account's token is not exchanged for one of a profile, "" if it is.
func (s *Server) refuseProfile(form url.Values) (status int, why string) {
	var claims serviceAccountClaims
	parts := strings.Split(form.Get("cr_token"), ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[min(1, len(parts)-1)])
	if err = errors.Join(err, json.Unmarshal(payload, &claims)); err != nil {
		return http.StatusBadRequest, "The compute resource token is not valid."
	}
	id, name := form.Get("profile_id"), form.Get("profile_name")
	s.mu.Lock()
	defer s.mu.Unlock()
	linked := slices.ContainsFunc(s.profiles, func(p TrustedProfile) bool {
		return (p.ID == id && name == "" || p.Name == name && id == "") && claims.Subject == subject(p.Namespace, p.Account)
	})
	switch {
	case s.now().Unix() >= claims.Expiry:
		return http.StatusUnauthorized, "The compute resource token has expired."
	case !slices.Contains(claims.Audience, "iam"):
		return http.StatusBadRequest, "The compute resource token has a wrong audience."
	case !linked:
		return http.StatusBadRequest, "Selected trusted profile not eligible for CR token"
	}
	return 0, ""
}

// serviceAccountClaims are claims in the tokens that the kube-apiserver issues for service accounts.
type serviceAccountClaims struct {
	Subject  string   `json:"sub"`
	Audience []string `json:"aud"`
	Expiry   int64    `json:"exp"`
}

func subject(namespace, account string) string {
	return "system:serviceaccount:" + namespace + ":" + account
}

// ServiceAccountToken returns a token as the kube-apiserver issues it, with an invalid signature, which is not verified here.
func ServiceAccountToken(namespace, account, audience string, expires time.Time) string {
	claims := serviceAccountClaims{subject(namespace, account), []string{audience}, expires.Unix()}
	payload, _ := json.Marshal(claims) //nolint:errchkjson // strings and a number
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"RS256"}`)) + "." + encode(payload) + "." + encode([]byte("signature of "+string(payload)))
}

// grant responds with an access token, and with a refresh token if refreshed.
func (s *Server) grant(w http.ResponseWriter, refreshed bool) {
	var body map[string]any
	s.locked(func() {
		token := fmt.Sprintf("token-%08d-secret", s.nextSerial())
		expires := s.now().Add(s.cfg.TokenLifetime)
		s.tokens[token] = expires
		second := "not_supported"
		if refreshed {
			second = "refresh-" + token
		}
		body = map[string]any{
			"access_token": token, "refresh_token": second, "token_type": "Bearer",
			"expires_in": int(s.cfg.TokenLifetime.Seconds()), "expiration": expires.Unix(), "scope": "ibm openid",
		}
	})
	writeJSON(w, http.StatusOK, body)
}

func (s *Server) valid(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return key != "" && (len(s.cfg.APIKeys) == 0 || slices.Contains(s.cfg.APIKeys, key))
}

// SetAPIKeys changes the keys that IAM accepts. Issued tokens stay valid until they expire, as at IBM: see ExpireTokens.
func (s *Server) SetAPIKeys(keys ...string) {
	s.locked(func() { s.cfg.APIKeys = slices.Clone(keys) })
}

// SetTrustedProfiles changes the trusted profiles, as SetAPIKeys does the keys.
func (s *Server) SetTrustedProfiles(profiles ...TrustedProfile) {
	s.locked(func() { s.profiles = slices.Clone(profiles) })
}

func iamError(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Transaction-Id", "dGVzdA-transaction")
	writeJSON(w, status, map[string]string{"errorCode": code, "errorMessage": message, "errorDetails": ""})
}

func (s *Server) authorized(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	expires, known := s.tokens[token]
	return known && s.now().Before(expires)
}

// ExpireTokens makes every issued token invalid.
func (s *Server) ExpireTokens() {
	s.locked(func() { clear(s.tokens) })
}
