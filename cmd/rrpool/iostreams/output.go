package iostreams

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/spf13/cobra"
)

// Output adds the flag for the format of a command's answer.
func Output(cmd *cobra.Command) *Choice {
	format := NewChoice("table", "json")
	format.Register(cmd, "output", "o", "format: table or json")
	return format
}

// Print renders a value as JSON, or as table does, into memory, then writes it to s.Out: a failure leaves no half
// of the output. Errors call the output what, such as "report".
func (s Streams) Print(what, format string, value any, table func(Streams)) error {
	var buffer bytes.Buffer
	if format != "json" {
		to := s
		to.Out = &buffer
		table(to)
	} else {
		encoder := json.NewEncoder(&buffer)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(value); err != nil {
			return fmt.Errorf("rendering the %s: %w", what, err)
		}
	}
	if _, err := io.WriteString(s.Out, Visible(buffer.String())); err != nil {
		return fmt.Errorf("writing the %s: %w", what, err)
	}
	return nil
}

// Reason is an error of the file system without the name of the file.
func Reason(err error) error {
	var reason syscall.Errno
	if errors.As(err, &reason) {
		return reason
	}
	return err
}
