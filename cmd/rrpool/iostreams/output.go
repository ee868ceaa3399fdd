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

// WriteJSON writes a value, indented.
func WriteJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value) //nolint:wrapcheck // Run prints it
}

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
	var err error
	if format == "json" {
		err = WriteJSON(&buffer, value)
	} else {
		to := s
		to.Out = &buffer
		table(to)
	}
	if err != nil {
		return fmt.Errorf("rendering the %s: %w", what, err)
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
