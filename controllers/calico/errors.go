package calico

import (
	"errors"
	"fmt"
	"slices"

	cerrors "github.com/projectcalico/calico/libcalico-go/lib/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NameTakenError says that an object which rrpool wants to write exists already
// and was made by somebody else. It is left alone.
type NameTakenError struct {
	Kind, Name string
}

// Error implements error.
func (e *NameTakenError) Error() string {
	return fmt.Sprintf("%s %q exists but was not made by rrpool (it lacks the label %s=%s): rename or delete it",
		e.Kind, e.Name, managedByLabel, managedByValue)
}

// IsConflict reports whether err means that the object is no longer what the
// decision was made on. Nothing was written: observe again and decide again.
func IsConflict(err error) bool {
	var conflict cerrors.ErrorResourceUpdateConflict
	var exists cerrors.ErrorResourceAlreadyExists
	return errors.As(err, &conflict) || errors.As(err, &exists) || apierrors.IsConflict(err) || isReplaced(err)
}

// isReplaced reports whether a patch was meant for an earlier object of the same
// name: that is how the apiserver answers to the UID of another.
func isReplaced(err error) bool {
	_, ok := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
	if !ok {
		return false
	}
	var status apierrors.APIStatus
	return errors.As(err, &status) && slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return c.Field == "metadata.uid"
	})
}

// isMissing reports whether err means that an object does not exist.
func isMissing(err error) bool {
	var missing cerrors.ErrorResourceDoesNotExist
	return errors.As(err, &missing) || apierrors.IsNotFound(err)
}

// changed is the conflict of an object whose content, not only whose version,
// is no longer what the decision was made on.
func changed(what, why string) error {
	return cerrors.ErrorResourceUpdateConflict{Identifier: what + ": " + why, Err: errors.New(why)}
}
