package iks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/poolplan"
	"github.com/rrpool/rrpool/controllers/plan"
)

// How long the cloud is not asked.
const (
	// rateLimitPause when a 429 does not say: the limit is counted over 10 seconds.
	rateLimitPause = 30 * time.Second
	// longestPause bounds what an answer may ask for.
	longestPause = 10 * time.Minute
	// deniedPause after credentials were refused.
	deniedPause = time.Minute
)

// What is added to messages for people.
const (
	lookAround = " (check the network from the manager to the cloud, any proxy in between, and https://cloud.ibm.com/status)"
	ownFault   = " (that is the service's own trouble: https://cloud.ibm.com/status)"
	justWait   = " (it is asked again by itself, less often)"
)

// groupWords are IBM's when the owner of a key may not see a resource group.
const groupWords = "resource group could not be found"

// Codes of the containers API. One status has several subjects, and the code says which is meant.
const (
	codeNameTaken = "E0d39" // 409: the name of a pool
	codeHasZone   = "Ede7d" // 409: the zone is in the pool
	codeNoCluster = "E0008" // 404
	codeNoWorker  = "E0011" // 404
)

// What a 404 may be about. Most codes are not documented, so words count as well.
const (
	ofCluster = "cluster"
	ofPool    = "worker pool"
	ofWorker  = "worker node"
)

// subject gives what the service did not find, "" where it does not say.
func subject(w errorBody) string {
	text := strings.ToLower(w.Description)
	missing := func(what string) bool { return strings.Contains(text, "specified "+what+" could not be found") }
	switch {
	case w.Code == codeNoCluster || missing(ofCluster):
		return ofCluster
	case w.Code == codeNoWorker || missing(ofWorker) || missing("worker"):
		return ofWorker
	case missing(ofPool):
		return ofPool
	}
	return ""
}

// isAbsent reports whether err says that what does not exist. An error that names no subject is about what was asked for.
func isAbsent(err error, what string) bool {
	e, ok := errors.AsType[*cloud.Error](err)
	return ok && e.Kind == cloud.NotFound && (e.Subject == "" || e.Subject == what)
}

// errNoWords is the cause of a 404 without a word of the service.
var errNoWords = errors.New("status 404")

// isNoPool reports whether err may say that the pool which was asked for does not exist. One such answer proves little.
func isNoPool(err error) bool {
	return isAbsent(err, ofPool) || cloud.Is(err, cloud.InvalidInput) || errors.Is(err, errNoWords)
}

// hasZone reports whether err says that the pool has the zone which was to be added.
func hasZone(err error) bool {
	e, ok := errors.AsType[*cloud.Error](err)
	return ok && e.Kind == cloud.Conflict && (e.Code == codeHasZone || strings.Contains(e.Message, "already part of the worker pool"))
}

// errorBody is the body of an error, of the containers API or of IAM.
type errorBody struct {
	IncidentID   string `json:"incidentID"`
	Code         string `json:"code"`
	Description  string `json:"description"`
	ErrorCode    string `json:"errorCode"`
	ErrorMessage string `json:"errorMessage"`
	// RecoveryCLI is IBM's own remedy.
	RecoveryCLI string `json:"recoveryCLI"`
}

// known reports whether the body is the service's, and not a proxy's.
func (w errorBody) known() bool { return w.Code != "" || w.ErrorCode != "" }

// denies reports whether the service refuses the credentials.
func (w errorBody) denies(status int) bool {
	return w.known() && (status == http.StatusUnauthorized || status == http.StatusForbidden) || strings.Contains(strings.ToLower(w.Description), groupWords)
}

func (w errorBody) text() string {
	text := w.Description + w.ErrorMessage
	if code := w.Code + w.ErrorCode; code != "" {
		text = strings.TrimSpace(text + " (" + code + ")")
	}
	if w.IncidentID != "" {
		text += ", incident " + w.IncidentID
	}
	if w.RecoveryCLI != "" {
		text += "; IBM Cloud says what to do: " + w.RecoveryCLI
	}
	return text
}

// Words of refusals that are not about rrpool's own credentials: the cluster orders workers with an API key, or infrastructure
// credentials, that its owner has set, and an IAM policy between two services lets it read the keys of volumes.
var (
	infrastructureWords = regexp.MustCompile(`(?i)infrastructure\b.*\b(credential|permission)|token exchange|unable to connect to your softlayer|must be ordered with permission`)
	keyServiceWords     = regexp.MustCompile(`(?i)\b(kms|key protect|hyper protect|root key)\b`)
)

// othersCredentials says what to do where a refusal is not about rrpool's credentials, "" where it is.
func (s *session) othersCredentials(w errorBody) string {
	switch {
	case w.Code == "E09c0" || keyServiceWords.MatchString(w.Description):
		return " (not rrpool's key: let Kubernetes Service read the root key, by an IAM authorization policy from it to the key's service: ibmcloud iam authorization-policy-create)"
	case w.Code == "E0057" || w.Code == "NHC009" || infrastructureWords.MatchString(w.Description):
		return " (not rrpool's key: the one that the cluster orders workers with, of its region and resource group, is gone or has too few permissions: " +
			"its owner sets another with ibmcloud ks api-key reset --region " + cmp.Or(s.cfg.Region, "REGION") + "; on classic see ibmcloud ks credential get as well)"
	}
	return ""
}

// unanswered is the error of a request that got no answer.
func (s *session) unanswered(op string, err error) error {
	e := &cloud.Error{Kind: cloud.Unavailable, Op: op, Message: "the cloud does not answer: " + s.scrub(err.Error()) + lookAround}
	// Of the cause only what callers ask for: its text may be a proxy's.
	for _, known := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			e.Err = known
		}
	}
	return e
}

// senseless is the error of an answer that is about something else, or cannot be true.
func (s *session) senseless(op, why string) error {
	return &cloud.Error{Kind: cloud.Unavailable, Op: op, Message: "the cloud does not answer sensibly: " + s.scrub(why)}
}

// refused is the error of an answer with a status of failure.
func (s *session) refused(op string, resp *http.Response, body []byte) error {
	var w errorBody
	_ = json.Unmarshal(body, &w) // a proxy's page is no JSON, and no reason
	status := resp.StatusCode
	text := cmp.Or(s.scrub(w.text()), "status "+strconv.Itoa(status)+" "+http.StatusText(status))
	e := &cloud.Error{Kind: cloud.Unavailable, Op: op, Message: text, RetryAfter: retryAfter(resp.Header, s.cfg.Now())}
	switch {
	case status == http.StatusTooManyRequests:
		e.Kind, e.RetryAfter = cloud.RateLimited, cmp.Or(e.RetryAfter, rateLimitPause)
		e.Message += justWait
	case s.othersCredentials(w) != "" && status < 500:
		e.Kind, e.Code, e.RetryAfter = cloud.Unauthorized, w.Code, max(e.RetryAfter, deniedPause)
		e.Message += s.othersCredentials(w)
	case w.denies(status):
		s.denied(e, status)
	case !w.known():
		// Not a word of the service about the request: nothing is proven by it.
		if e.Message += lookAround; status == http.StatusNotFound {
			e.Err = errNoWords
		}
	case status >= 500 || status == http.StatusRequestTimeout:
		e.Message += ownFault
	case w.ErrorCode != "":
		s.denied(e, status)
	default:
		s.declined(e, status, w)
	}
	return e
}

// declined completes the error of a request that the service itself refuses.
func (s *session) declined(e *cloud.Error, status int, w errorBody) {
	e.Code = w.Code
	switch {
	case poolplan.IsQuota(w.Description):
		e.Kind = cloud.QuotaExceeded
	case status == http.StatusNotFound:
		if e.Kind, e.Subject = cloud.NotFound, subject(w); e.Subject == ofCluster {
			e.Message += " (check spec.provider.iks.clusterID, and whether the key may see that cluster: ibmcloud ks cluster get --cluster " + s.cfg.ClusterID + ")"
		}
	case status == http.StatusConflict:
		e.Kind = cloud.Conflict
	case status >= 400:
		e.Kind = cloud.InvalidInput
	}
}

// denied completes the error of a request whose credentials are refused.
func (s *session) denied(e *cloud.Error, status int) {
	who := "the API key must be valid and have"
	switch {
	case s.cfg.byProfile() && e.Op == opLogin:
		who = s.cfg.profile() + ": " + s.account + ", and have"
	case s.cfg.byProfile():
		who = s.cfg.profile() + " must have"
	}
	e.Kind = cloud.Unauthorized
	e.Message += " (" + who + " the Operator or Administrator role on the cluster, and the Viewer role on the cluster's resource group)"
	if status == http.StatusForbidden && !s.cfg.Private {
		e.Message += "; or a context-based restriction lets in no public request: spec.provider.iks.endpoint: Private"
	}
	e.RetryAfter = max(e.RetryAfter, deniedPause)
}

// retryAfter reads the header, in seconds or as a date; 0 when it is missing or cannot be read.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text, wait := h.Get("Retry-After"), time.Duration(0)
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		wait = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), longestPause)
}

// longestMessage bounds a text of the cloud's.
const longestMessage = 400

// scrub removes credentials from a text of the cloud's, and makes it one line of printable characters: a proxy's answer may repeat
// the request.
func (s *session) scrub(text string) string {
	for _, secret := range s.secrets {
		text = strings.ReplaceAll(text, secret, "***")
		text = strings.ReplaceAll(text, url.QueryEscape(secret), "***")
	}
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > longestMessage {
		text = text[:longestMessage] + "…"
	}
	// A status cannot hold half a character.
	return plan.Plain(strings.ToValidUTF8(text, ""), len(text))
}
