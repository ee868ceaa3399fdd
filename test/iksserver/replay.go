package iksserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Exchange is a request and its answer, as test/ikscheck saves them: a file each, in order.
type Exchange struct {
	Method string `json:"method"`
	// Path is that of the API with the query, without "/global".
	Path string `json:"path"`
	// Group is the header X-Auth-Resource-Group, null when there was none.
	Group        *string `json:"group"`
	Body         string  `json:"body,omitempty"`
	Status       int     `json:"status"`
	Answer       string  `json:"answer"`
	Milliseconds int64   `json:"milliseconds"`
}

// Key is what makes two requests the same.
func (x Exchange) Key() string {
	group := "no group"
	if x.Group != nil {
		group = "group " + *x.Group
	}
	return strings.Join([]string{x.Method, x.Path, group, x.Body}, "\n")
}

// ExchangeOf gives the request's part. A body stays with the caller to read.
func ExchangeOf(r *http.Request, body []byte) Exchange {
	x := Exchange{Method: r.Method, Path: strings.TrimPrefix(r.URL.RequestURI(), "/global"), Body: strings.TrimSpace(string(body))}
	if given, there := r.Header["X-Auth-Resource-Group"]; there {
		group := strings.Join(given, "")
		x.Group = &group
	}
	return x
}

// Replay answers as was saved in a folder: the same request has the saved answers in turn, and then the last of them
// again. IAM gives tokens. What was not saved is 501.
func Replay(dir string) (http.Handler, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no saved answers are in %s", dir)
	}
	saved := map[string][]Exchange{}
	for _, file := range files {
		var x Exchange
		content, err := os.ReadFile(file) //nolint:gosec // G304: the caller's folder
		if err == nil {
			err = json.Unmarshal(content, &x)
		}
		if err != nil {
			return nil, fmt.Errorf("reading a saved answer: %w", err)
		}
		saved[x.Key()] = append(saved[x.Key()], x)
	}
	iam := New(Config{})
	var mu sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/identity/token" {
			iam.ServeHTTP(w, r)
			return
		}
		var body json.RawMessage
		_ = json.NewDecoder(r.Body).Decode(&body) // a request may have none
		key := ExchangeOf(r, body).Key()
		mu.Lock()
		defer mu.Unlock()
		of := saved[key]
		if len(of) == 0 {
			http.Error(w, "this was not saved: "+key, http.StatusNotImplemented)
			return
		}
		if len(of) > 1 {
			saved[key] = of[1:]
		}
		w.WriteHeader(of[0].Status)
		_, _ = w.Write([]byte(of[0].Answer)) // the client may have gone away
	}), nil
}
