package iksserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

// answer remembers the status that went out.
type answer struct {
	http.ResponseWriter
	status int
}

func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(p)
}

// Flush lets a slow body trickle.
func (a *answer) Flush() {
	if f, ok := a.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// buffered keeps an answer back so that a fault can spoil it.
type buffered struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (b *buffered) Header() http.Header { return b.header }

func (b *buffered) WriteHeader(status int) {
	if b.status == 0 {
		b.status = status
	}
}

func (b *buffered) Write(p []byte) (int, error) {
	b.WriteHeader(http.StatusOK)
	return b.body.Write(p)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may have gone away
}

// apiError is the body of every error of the containers API.
type apiError struct {
	IncidentID  string `json:"incidentID"`
	Code        string `json:"code"`
	Description string `json:"description"`
	Type        string `json:"type"`
}

func writeError(w http.ResponseWriter, status int, code, kind, description string) {
	writeJSON(w, status, apiError{IncidentID: "a7d94c4d-incident", Code: code, Description: description, Type: kind})
}

// refusal is an error on its way to the client.
type refusal struct {
	status int
	apiError
}

func refuse(status int, code, kind, format string, args ...any) *refusal {
	return &refusal{status: status, apiError: apiError{Code: code, Type: kind, Description: fmt.Sprintf(format, args...)}}
}

// reply writes what a handler decided: an error, or status with an optional body.
func reply(w http.ResponseWriter, bad *refusal, status int, v any) {
	switch {
	case bad != nil:
		writeError(w, bad.status, bad.Code, bad.Type, bad.Description)
	case v == nil:
		w.WriteHeader(status)
	default:
		writeJSON(w, status, v)
	}
}

func decode(r *http.Request, v any) *refusal {
	if err := json.NewDecoder(r.Body).Decode(v); err != nil {
		return refuse(http.StatusBadRequest, "E0007", "BadRequest", "The request body could not be parsed: %v", err)
	}
	return nil
}
