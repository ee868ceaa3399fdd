package snapshot

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
)

// Object reads the RouteReflectorPool that --filename names, complete with all defaults:
// a file, or standard input for "-". Without a name it is nil.
func Object(file string, in io.Reader) (*v1alpha1.RouteReflectorPool, error) {
	if file == "" {
		return nil, nil
	}
	var content []byte
	var err error
	if file == "-" {
		content, err = io.ReadAll(in)
	} else {
		content, err = os.ReadFile(file) //nolint:gosec // G304: the file that the user names
	}
	if err != nil {
		return nil, fmt.Errorf("--filename: %q cannot be read: %w: give the name of a file with a RouteReflectorPool (config/samples has some)", file, iostreams.Reason(err))
	}
	object, err := crd.Read(content)
	if err != nil {
		return nil, fmt.Errorf("--filename: %s: %s", file, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return object, nil
}
