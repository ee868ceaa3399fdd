package peering

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/controllers/plan"
)

// status returns the status to report. Fields that were not observed stay as they were.
func (s *scope) status(failure error) v1alpha1.ClusterPeeringStatus {
	out := *s.object.Status.DeepCopy()
	out.ObservedGeneration = s.object.Generation
	if s.observed.Remote != nil {
		side := s.observed.Remote
		out.Remote = &v1alpha1.RemoteStatus{
			ASNumber: int64(side.ASN), Reflectors: texts(side.Reflectors), PodCIDRs: texts(side.Pods), ServiceCIDRs: texts(side.Services),
		}
		out.Sessions, out.Advertised = s.sessions(), texts(s.step.Advertised)
	}
	conditions := []metav1.Condition{s.ready(failure), s.remoteKnown(failure), s.established(failure)}
	if s.desired.Deleted {
		conditions = conditions[:1] // the remote cluster is no longer read
	}
	for _, c := range conditions {
		c.ObservedGeneration, c.Message = s.object.Generation, plan.Plain(withoutPort(c.Message, failure, s.remoteErr), 1024)
		meta.SetStatusCondition(&out.Conditions, c)
	}
	return out
}

// withoutPort removes the local end of a connection from a message: its port changes with each connection.
func withoutPort(message string, of ...error) string {
	for _, err := range of {
		var op *net.OpError
		if errors.As(err, &op) && op.Source != nil {
			message = strings.ReplaceAll(message, op.Source.String()+"->", "")
		}
	}
	return message
}

func texts[T fmt.Stringer](values []T) []string {
	var out []string
	for _, v := range values {
		out = append(out, v.String())
	}
	return out
}

func (s *scope) sessions() []v1alpha1.PeeringSession {
	var out []v1alpha1.PeeringSession
	for _, e := range s.step.Expected {
		out = append(out, v1alpha1.PeeringSession{Node: e.Node, Peer: e.Peer.String(), Established: e.Established})
	}
	return out
}

// missing lists the first sessions that are not Established.
func (s *scope) missing() string {
	var out []string
	for _, e := range s.step.Expected {
		if !e.Established {
			out = append(out, fmt.Sprintf("%s ↔ %s", e.Node, e.Peer))
		}
	}
	return plan.Few(out)
}

// The reasons of a ClusterPeering's conditions, in addition to those of package plan/peering.
const (
	reasonFailed         = "Failed"
	reasonInvalidSpec    = "InvalidSpec"
	reasonNameTaken      = "NameTaken"
	reasonRemoteUnknown  = "RemoteUnknown"
	reasonRemoteUnsteady = "RemoteUnsteady"
	reasonSessionMissing = "SessionsMissing"
	reasonWriting        = "Writing"
	reasonDeleting       = "Deleting"
	reasonPeered         = "Peered"
)

func condition(kind string, status metav1.ConditionStatus, reason, format string, args ...any) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func (s *scope) ready(failure error) metav1.Condition {
	const kind = v1alpha1.ConditionReady
	var invalid specError
	var taken *calico.NameTakenError
	missing, password := s.missing(), ""
	if s.desired.Password != nil {
		password = " with the same password"
	}
	switch {
	case errors.As(failure, &invalid), errors.As(s.remoteErr, &invalid):
		return condition(kind, metav1.ConditionFalse, reasonInvalidSpec, "%s", invalid)
	case errors.As(failure, &taken):
		return condition(kind, metav1.ConditionFalse, reasonNameTaken, "%s", taken)
	case failure != nil:
		return condition(kind, metav1.ConditionUnknown, reasonFailed, "%s", failure)
	case s.desired.Deleted:
		return condition(kind, metav1.ConditionFalse, reasonDeleting, "what was written for it is being taken away")
	case s.remoteErr != nil:
		return condition(kind, metav1.ConditionUnknown, reasonRemoteUnknown, "the remote cluster is not known now, so nothing new is written: %s", s.remoteErr)
	case s.step.Problem != nil:
		return condition(kind, metav1.ConditionFalse, s.step.Problem.Reason, "nothing new is written: %s", s.step.Problem.Message)
	case s.held != "":
		return condition(kind, metav1.ConditionFalse, reasonRemoteUnsteady, "%s", s.held)
	case s.changes > 0:
		return condition(kind, metav1.ConditionFalse, reasonWriting, "Calico's objects are being written")
	case missing != "":
		return condition(kind, metav1.ConditionFalse, reasonSessionMissing, "not Established: %s; the remote cluster needs a ClusterPeering for this one%s", missing, password)
	}
	return condition(kind, metav1.ConditionTrue, reasonPeered, "all sessions with the remote cluster are Established")
}

func (s *scope) remoteKnown(failure error) metav1.Condition {
	const kind = v1alpha1.ConditionRemoteKnown
	switch {
	case s.remoteErr != nil:
		return condition(kind, metav1.ConditionFalse, reasonRemoteUnknown, "%s", s.remoteErr)
	case s.observed.Remote == nil:
		return condition(kind, metav1.ConditionUnknown, reasonFailed, "it was not looked at: %v", failure)
	case s.held != "":
		return condition(kind, metav1.ConditionFalse, reasonRemoteUnsteady, "%s", s.held)
	case s.object.Spec.Remote.Static != nil:
		return condition(kind, metav1.ConditionTrue, "Static", "it is described by spec.remote.static, and not followed")
	}
	return condition(kind, metav1.ConditionTrue, "Followed", "its route reflectors and ranges are followed")
}

func (s *scope) established(failure error) metav1.Condition {
	const kind = v1alpha1.ConditionSessionsEstablished
	missing := s.missing()
	switch {
	case s.observed.Remote == nil:
		return condition(kind, metav1.ConditionUnknown, reasonRemoteUnknown, "%v", errors.Join(failure, s.remoteErr))
	case len(s.step.Expected) == 0:
		return condition(kind, metav1.ConditionFalse, "NoSessions", "there are no two reflectors here and there that could have one")
	case missing != "":
		return condition(kind, metav1.ConditionFalse, reasonSessionMissing, "not Established: %s", missing)
	}
	return condition(kind, metav1.ConditionTrue, "AllEstablished", "%d of %d are", len(s.step.Expected), len(s.step.Expected))
}
