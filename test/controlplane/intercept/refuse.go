package intercept

import (
	"encoding/json"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reasons are those that an apiserver gives with its codes.
var reasons = map[int]metav1.StatusReason{
	http.StatusConflict:            metav1.StatusReasonConflict,
	http.StatusGone:                metav1.StatusReasonExpired,
	http.StatusTooManyRequests:     metav1.StatusReasonTooManyRequests,
	http.StatusInternalServerError: metav1.StatusReasonInternalError,
	http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
}

// refuse answers as the apiserver does, or the cloud.
func refuse(w http.ResponseWriter, r Request, verdict Verdict) {
	if verdict.RetryAfter > 0 {
		w.Header().Set("Retry-After", retryAfter(verdict.RetryAfter))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(verdict.Answer)
	if r.Cloud {
		_, _ = fmt.Fprintf(w, `{"code":"E0000","description":"injected %d"}`, verdict.Answer)
		return
	}
	reason := reasons[verdict.Answer]
	if verdict.Answer == http.StatusConflict && r.Verb == "create" {
		reason = metav1.StatusReasonAlreadyExists
	}
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(verdict.Answer), Reason: reason, //nolint:gosec // an HTTP status
		Message: fmt.Sprintf("injected %d: %s %s %q", verdict.Answer, r.Verb, r.Resource, r.Name),
		Details: &metav1.StatusDetails{Group: r.Group, Kind: r.Resource, Name: r.Name},
	}
	_ = json.NewEncoder(w).Encode(status) // the manager may be gone
}
