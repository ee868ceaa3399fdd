package controlplane

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// auditPolicy has the apiserver record what changes, or tries to change, something, and reads if wanted. Kubelets' leases would fill it. A rule by
// user would not see them: an audit policy is asked who acts, not as whom.
func auditPolicy(reads bool) string {
	policy := "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n- {level: None, namespaces: [kube-node-lease]}\n"
	if !reads {
		policy += "- {level: None, verbs: [get, list, watch]}\n"
	}
	return policy + "- level: Metadata\n"
}

// AuditEvent is one request that the apiserver has answered.
type AuditEvent struct {
	Time      time.Time // when it was received, in microseconds
	User      string
	Verb      string // create, update, patch, delete, deletecollection, …
	Group     string
	Resource  string // with the subresource: "nodes/status"
	Namespace string
	Name      string
	DryRun    bool // it asked what a write would do
	Code      int  // HTTP status: a denied or failed write is recorded too
}

// Lease reports whether the event is leader election rather than work.
func (e AuditEvent) Lease() bool { return e.Group == "coordination.k8s.io" }

// String is for failure messages.
func (e AuditEvent) String() string {
	return fmt.Sprintf("%s %s %s %s/%s/%s → %d", e.Time.Format(time.StampMilli), e.User, e.Verb, e.Resource, e.Namespace, e.Name, e.Code)
}

// Writes returns the writes received at or after since, in order, of one user ("" is everyone). Leader election is included: see
// AuditEvent.Lease. Dry runs and reviews (who is that, may they?) are not: they change nothing.
func (c *ControlPlane) Writes(user string, since time.Time) ([]AuditEvent, error) {
	events, err := c.Requests(user, since)
	return slices.DeleteFunc(events, func(e AuditEvent) bool {
		return e.DryRun || slices.Contains([]string{"get", "list", "watch"}, e.Verb) ||
			slices.Contains([]string{"authentication.k8s.io", "authorization.k8s.io"}, e.Group)
	}), err
}

// Requests is Writes with the reads, which need AuditReads. A watch is recorded when it opens and when it closes.
func (c *ControlPlane) Requests(user string, since time.Time) ([]AuditEvent, error) {
	events, err := c.Follow(user)()
	return slices.DeleteFunc(events, func(e AuditEvent) bool { return e.Time.Before(since) }), err
}

// Follow returns what gives, each time it is called, the requests of one user ("" is everyone) that were recorded since
// the last call, in the order in which they were answered.
func (c *ControlPlane) Follow(user string) func() ([]AuditEvent, error) {
	read := int64(0)
	return func() ([]AuditEvent, error) {
		lines, err := wholeLines(c.path("audit.log"), read)
		if err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		read += int64(len(lines))
		var events []AuditEvent
		for line := range bytes.Lines(lines) {
			if !bytes.Contains(line, []byte(user)) {
				continue // to parse all of a long log takes seconds
			}
			event, err := parseAuditEvent(line)
			if err != nil {
				return nil, err
			}
			if user == "" || event.User == user {
				events = append(events, event)
			}
		}
		return events, nil
	}
}

// wholeLines is what a file has from an offset on, without the line that is still being written. No file is an empty one.
func wholeLines(path string, offset int64) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // G304: our own
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read
	content, err := io.ReadAll(io.NewSectionReader(file, offset, math.MaxInt64-offset))
	return content[:bytes.LastIndexByte(content, '\n')+1], err
}

func parseAuditEvent(line []byte) (AuditEvent, error) {
	var raw struct {
		RequestReceivedTimestamp time.Time
		Verb, RequestURI         string
		User, ImpersonatedUser   struct{ Username string }
		ObjectRef                struct{ APIGroup, Resource, Subresource, Namespace, Name string }
		ResponseStatus           struct{ Code int }
	}
	if err := json.Unmarshal(line, &raw); err != nil {
		return AuditEvent{}, fmt.Errorf("reading an audit event: %w", err)
	}
	return AuditEvent{
		Time: raw.RequestReceivedTimestamp, User: cmp.Or(raw.ImpersonatedUser.Username, raw.User.Username), Verb: raw.Verb,
		Group: raw.ObjectRef.APIGroup, Resource: strings.TrimSuffix(raw.ObjectRef.Resource+"/"+raw.ObjectRef.Subresource, "/"),
		Namespace: raw.ObjectRef.Namespace, Name: raw.ObjectRef.Name, Code: raw.ResponseStatus.Code, DryRun: strings.Contains(raw.RequestURI, "dryRun="),
	}, nil
}
