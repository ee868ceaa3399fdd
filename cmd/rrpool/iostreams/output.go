package iostreams

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"

	"sigs.k8s.io/yaml"
)

// WriteJSON writes a value, indented.
func WriteJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value) //nolint:wrapcheck // Run prints it
}

// Print renders a value as JSON or YAML, or as table does, into memory, then writes it to s.Out: a failure leaves no half
// of the output. Errors call the output what, such as "report".
func (s Streams) Print(what, format string, value any, table func(Streams)) error {
	var buffer bytes.Buffer
	var err error
	switch format {
	case "json":
		err = WriteJSON(&buffer, value)
	case "yaml":
		var content []byte
		content, err = yaml.Marshal(value)
		buffer.Write(content)
	default:
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
