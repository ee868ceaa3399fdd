package iksserver

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// handle registers a call. do runs with the server locked, and gives the body of the answer (nil for none) or a refusal.
func (s *Server) handle(pattern string, status int, do func(*http.Request) (any, *refusal)) {
	s.mux.HandleFunc(pattern, s.call(status, do))
}

// create registers the creation of a pool.
func (s *Server) create(pattern string, do func(*http.Request) (any, *refusal)) {
	call := s.call(http.StatusCreated, do)
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		call(w, r)
		if s.cfg.Profile == Slow {
			s.pause(r, CreationTime)
		}
	})
}

func (s *Server) call(status int, do func(*http.Request) (any, *refusal)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body any
		var bad *refusal
		s.locked(func() {
			if r.Method == http.MethodGet {
				now := s.clusters
				defer func() { s.clusters = now }()
				s.clusters = s.replica()
			}
			body, bad = do(r)
		})
		switch {
		case bad != nil:
			bad.write(w)
		case body == nil:
			w.WriteHeader(status)
		default:
			writeJSON(w, status, body)
		}
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may have gone away
}

// refusal is an error of the containers API.
type refusal struct {
	status      int
	IncidentID  string `json:"incidentID"`
	Code        string `json:"code"`
	Description string `json:"description"`
	Type        string `json:"type"`
}

func refuse(status int, code, kind, format string, args ...any) *refusal {
	return &refusal{status: status, IncidentID: "a7d94c4d-incident", Code: code, Type: kind, Description: fmt.Sprintf(format, args...)}
}

func (bad *refusal) write(w http.ResponseWriter) { writeJSON(w, bad.status, bad) }

// missing is the refusal of a call about what does not exist.
func missing(code, what string) *refusal {
	return refuse(http.StatusNotFound, code, "Provisioning", "The specified %s could not be found.", what)
}

// wrongProvider is what IBM says to a call for another provider, as far as is known.
func wrongProvider(format string, args ...any) *refusal {
	return refuse(http.StatusBadRequest, "E3917", "BadRequest", format, args...)
}

func decode(r *http.Request, v any) *refusal {
	if err := json.NewDecoder(r.Body).Decode(v); err != nil {
		return refuse(http.StatusBadRequest, "E0007", "BadRequest", "The request body could not be parsed: %v", err)
	}
	return nil
}
