package calico

import (
	"errors"
	"fmt"

	cerrors "github.com/projectcalico/calico/libcalico-go/lib/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	return errors.As(err, &conflict) || errors.As(err, &exists) || apierrors.IsConflict(err)
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
