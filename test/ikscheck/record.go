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

	"k8s.io/utils/ptr"
)

// recorder is a transport that saves each request with its response, without secrets.
type recorder struct {
	base http.RoundTripper
	dir  string
	salt string

	mu      sync.Mutex
	n       int
	secrets []string
	// token is the last one from IAM.
	token string
}

// exchange is a saved request with its response.
type exchange struct {
	Method string `json:"method"`
	// Path with the query, without "/global".
	Path string `json:"path"`
	// Group is the header X-Auth-Resource-Group, null when there was none.
	Group        *string `json:"group"`
	Body         string  `json:"body,omitempty"`
	Status       int     `json:"status"`
	Answer       string  `json:"answer"`
	Milliseconds int64   `json:"milliseconds"`
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
	x := exchange{
		Method: r.Method, Path: strings.TrimPrefix(r.URL.RequestURI(), "/global"), Body: string(body),
		Status: answer.StatusCode, Answer: string(content), Milliseconds: time.Since(began).Milliseconds(),
	}
	if given, there := r.Header["X-Auth-Resource-Group"]; there {
		x.Group = ptr.To(strings.Join(given, ""))
	}
	return answer, c.save(x)
}

// learn remembers the tokens in IAM's response, which are secrets.
func (c *recorder) learn(answer []byte) {
	var tokens struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	_ = json.Unmarshal(answer, &tokens) // an error response has none
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token = tokens.Access
	for _, token := range []string{tokens.Access, tokens.Refresh} {
		if token != "" {
			c.secrets = append(c.secrets, token)
		}
	}
}

func (c *recorder) save(x exchange) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	x.Path, x.Body, x.Answer = c.scrub(x.Path), c.scrub(x.Body), c.scrub(x.Answer)
	if x.Group != nil {
		x.Group = ptr.To(c.scrub(*x.Group))
	}
	content, err := json.MarshalIndent(x, "", "  ")
	if err != nil {
		return fmt.Errorf("saving an answer: %w", err)
	}
	c.n++
	return os.WriteFile(filepath.Join(c.dir, fmt.Sprintf("%04d.json", c.n)), append(content, '\n'), 0o600)
}

var (
	// personal are the fields that name a person or an account, or hold a secret.
	personal = regexp.MustCompile(`("(?i:[a-z_]*(?:email|token|password|passcode|api_?key|api_?user|secret|owner|account|iamid)[a-z_]*)"\s*:\s*)"(?:[^"\\]|\\.)*"`)
	patterns = map[*regexp.Regexp]string{
		regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`):                      "scrubbed-token",
		regexp.MustCompile(`[\w.%+-]+(@|%40)[\w-]+(\.[\w-]+)+`):              "scrubbed-email",
		regexp.MustCompile(`(?i)\b(IBMid|iam-ServiceId|iam-Profile)-[\w-]+`): "scrubbed-identity",
	}
	// number is an id of an account or of a resource group. In saved files each is replaced, always by the same one.
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
