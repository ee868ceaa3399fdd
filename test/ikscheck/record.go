package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/rrpool/rrpool/test/iksserver"
)

// recorder carries requests, and saves each with its answer, without secrets.
type recorder struct {
	base http.RoundTripper
	dir  string
	salt string

	mu      sync.Mutex
	n       int
	secrets []string
	// token is IAM's last one.
	token string
}

// RoundTrip implements http.RoundTripper.
func (c *recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, fmt.Errorf("reading a request: %w", err)
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	began := time.Now()
	answer, err := c.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close() // read to its end
	if err != nil {
		return nil, fmt.Errorf("reading an answer: %w", err)
	}
	answer.Body = io.NopCloser(bytes.NewReader(content))
	if strings.HasSuffix(r.URL.Path, "/identity/token") {
		c.learn(content)
		return answer, nil
	}
	x := iksserver.ExchangeOf(r, body)
	x.Status, x.Answer, x.Milliseconds = answer.StatusCode, string(content), time.Since(began).Milliseconds()
	return answer, c.save(x)
}

// learn takes the tokens out of IAM's answer: they are secret.
func (c *recorder) learn(answer []byte) {
	var tokens struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	_ = json.Unmarshal(answer, &tokens) // a refusal has none
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token = tokens.Access
	for _, token := range []string{tokens.Access, tokens.Refresh} {
		if token != "" {
			c.secrets = append(c.secrets, token)
		}
	}
}

func (c *recorder) save(x iksserver.Exchange) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	x.Path, x.Body, x.Answer = c.scrub(x.Path), c.scrub(x.Body), c.scrub(x.Answer)
	if x.Group != nil {
		group := c.scrub(*x.Group)
		x.Group = &group
	}
	content, err := json.MarshalIndent(x, "", "  ")
	if err != nil {
		return fmt.Errorf("saving an answer: %w", err)
	}
	c.n++
	if err := os.WriteFile(filepath.Join(c.dir, fmt.Sprintf("%04d.json", c.n)), append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("saving an answer: %w", err)
	}
	return nil
}

var (
	// personal are the fields that name a person or an account, or hold a secret.
	personal = regexp.MustCompile(`("(?i:[a-z_]*(?:email|token|password|passcode|api_?key|api_?user|secret|owner|account|iamid)[a-z_]*)"\s*:\s*)"(?:[^"\\]|\\.)*"`)
	patterns = map[*regexp.Regexp]string{
		regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`):                      "scrubbed-token",
		regexp.MustCompile(`[\w.%+-]+(@|%40)[\w-]+(\.[\w-]+)+`):              "scrubbed-email",
		regexp.MustCompile(`(?i)\b(IBMid|iam-ServiceId|iam-Profile)-[\w-]+`): "scrubbed-identity",
	}
	// number is an id of an account or of a resource group. Each is another one in what is saved, always the same.
	number = regexp.MustCompile(`\b[0-9a-f]{32}\b`)
)

func (c *recorder) scrub(text string) string {
	for _, secret := range c.secrets {
		text = strings.ReplaceAll(text, secret, "scrubbed-secret")
		text = strings.ReplaceAll(text, url.QueryEscape(secret), "scrubbed-secret")
	}
	text = personal.ReplaceAllString(text, `$1"scrubbed"`)
	for pattern, by := range patterns {
		text = pattern.ReplaceAllString(text, by)
	}
	return number.ReplaceAllStringFunc(text, func(id string) string {
		return fmt.Sprintf("%x", sha256.Sum256([]byte(c.salt+id)))[:32]
	})
}
