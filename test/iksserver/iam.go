package iksserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// token is POST /identity/token.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	user, pass, ok := r.BasicAuth()
	if !ok || user != "bx" || pass != "bx" {
		iamError(w, http.StatusUnauthorized, "BXNIM0308E", "Client credentials are missing.")
		return
	}
	if err := r.ParseForm(); err != nil {
		iamError(w, http.StatusBadRequest, "BXNIM0109E", "Property missing or empty: grant_type")
		return
	}
	if r.PostForm.Get("grant_type") != "urn:ibm:params:oauth:grant-type:apikey" {
		iamError(w, http.StatusBadRequest, "BXNIM0112E", "Only the API key grant is offered here.")
		return
	}
	key := r.PostForm.Get("apikey")
	if !s.valid(key) {
		iamError(w, http.StatusBadRequest, "BXNIM0415E", "Provided API key could not be found.")
		return
	}
	var body map[string]any
	s.locked(func() {
		token := fmt.Sprintf("token-%08d-secret", s.nextSerial())
		expires := s.now().Add(s.cfg.TokenLifetime)
		s.tokens[token] = expires
		body = map[string]any{
			"access_token": token, "refresh_token": "refresh-" + token, "token_type": "Bearer",
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

// SetAPIKeys changes the keys that IAM accepts. Tokens that were given out stay valid
// until they expire, as they do at IBM: see ExpireTokens.
func (s *Server) SetAPIKeys(keys ...string) {
	s.locked(func() { s.cfg.APIKeys = slices.Clone(keys) })
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

// ExpireTokens makes every token given out so far invalid.
func (s *Server) ExpireTokens() {
	s.locked(func() { clear(s.tokens) })
}
