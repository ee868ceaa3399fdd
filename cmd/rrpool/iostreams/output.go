package iostreams

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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

// Temporary makes the file that Put gives the name of --output-file, for its owner alone.
func Temporary(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("--output-file: %q is no regular file: give the name of a file", path)
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, fmt.Errorf("--output-file: %q cannot be written: %w: give a folder that is there and that you may write to", path, Reason(err))
	}
	return file, nil
}

// Put writes the content into a temporary file that takes the place of another, or is removed.
func Put(file *os.File, path string, mode os.FileMode, content []byte) error {
	_, err := file.Write(content)
	if err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("--output-file: writing %q: %w", path, Reason(err))
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
