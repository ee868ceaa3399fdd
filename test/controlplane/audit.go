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

// auditPolicy returns an audit policy that records writes, and reads if wanted, except of kubelets' leases. It has no rules by user, because they
// would match the impersonating user.
func auditPolicy(reads bool) string {
	policy := "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n- {level: None, namespaces: [kube-node-lease]}\n"
	if !reads {
		policy += "- {level: None, verbs: [get, list, watch]}\n"
	}
	return policy + "- level: Metadata\n"
}

// AuditEvent is a request to the apiserver.
type AuditEvent struct {
	Time      time.Time // when it was received
	User      string
	Verb      string // create, update, patch, delete, deletecollection, …
	Group     string
	Resource  string // with the subresource: "nodes/status"
	Namespace string
	Name      string
	DryRun    bool // the write had no effect
	Code      int  // HTTP status; denied and failed writes are recorded too
}

// Lease reports whether the event is leader election rather than work.
func (e AuditEvent) Lease() bool { return e.Group == "coordination.k8s.io" }

// String is for failure messages.
func (e AuditEvent) String() string {
	return fmt.Sprintf("%s %s %s %s/%s/%s → %d", e.Time.Format(time.StampMilli), e.User, e.Verb, e.Resource, e.Namespace, e.Name, e.Code)
}

// Writes returns the writes of one user ("": of all) since then, in order. Leader election is included: see AuditEvent.Lease. Dry runs, token
// reviews and access reviews are not.
func (c *ControlPlane) Writes(user string, since time.Time) ([]AuditEvent, error) {
	events, err := c.Requests(user, since)
	return slices.DeleteFunc(events, func(e AuditEvent) bool {
		return e.DryRun || slices.Contains([]string{"get", "list", "watch"}, e.Verb) ||
			slices.Contains([]string{"authentication.k8s.io", "authorization.k8s.io"}, e.Group)
	}), err
}

// Requests is Writes with reads, for which Options.AuditReads must be set. A watch is recorded when it opens and when it closes.
func (c *ControlPlane) Requests(user string, since time.Time) ([]AuditEvent, error) {
	events, err := c.Follow(user)()
	return slices.DeleteFunc(events, func(e AuditEvent) bool { return e.Time.Before(since) }), err
}

// Follow returns a function that returns the requests of one user ("": of all) that were recorded since its last call, in the order of their responses.
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
				continue // parsing all of a long log takes seconds
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

// wholeLines returns the complete lines of a file from an offset on. A missing file is taken for empty.
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
