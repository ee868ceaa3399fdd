package importenv

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

// variableName is what may stand before the "=" of an env file.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// read gives the content of a file that a flag names.
func read(flag, path string) ([]byte, error) {
	content, err := os.ReadFile(path) //nolint:gosec // G304: the user names it
	if err != nil {
		return nil, fmt.Errorf("%s: %q cannot be read: %w: give the name of a file", flag, path, iostreams.Reason(err))
	}
	return content, nil
}

// ofEnvFile reads an env file.
func ofEnvFile(path string) (variables, error) {
	content, err := read("--env-file", path)
	if err != nil {
		return variables{}, err
	}
	return ofEnvText(path, string(content))
}

// ofEnvText reads KEY=VALUE lines: comments, blank lines, quotes, the word export, and
// line ends of Windows are what people have in such files.
func ofEnvText(path, text string) (variables, error) {
	out := variables{source: path, set: map[string]variable{}}
	text = strings.TrimPrefix(text, "\ufeff")
	for i, line := range strings.Split(text, "\n") {
		name, value, err := assignment(strings.TrimSpace(line))
		switch {
		case err != nil:
			return variables{}, fmt.Errorf("--env-file: %s, line %d: %w", path, i+1, err)
		case name != "":
			out.set[name] = variable{value: value}
		}
	}
	if !out.any() {
		return variables{}, fmt.Errorf("--env-file: %s has no variable of the operator (%s…, %s): give the file that its Deployment was made from", path, prefix, datastore)
	}
	return out, nil
}

// assignment reads one line; no name, no assignment.
func assignment(line string) (name, value string, err error) {
	if line == "" || strings.HasPrefix(line, "#") {
		return "", "", nil
	}
	if rest, ok := strings.CutPrefix(line, "export"); ok && strings.TrimLeft(rest, " \t") != rest {
		line = strings.TrimLeft(rest, " \t")
	}
	name, value, ok := strings.Cut(line, "=")
	if !ok || !variableName.MatchString(name) {
		// The line is not repeated: a file that is no env file may hold anything.
		return "", "", fmt.Errorf("this is no assignment: write NAME=value, without blanks around the \"=\"")
	}
	value, err = unquote(strings.TrimSpace(value))
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", name, err)
	}
	return name, value, nil
}

// unquote takes off the quotes, or the comment behind a bare value.
func unquote(value string) (string, error) {
	if value == "" {
		return "", nil
	}
	quote := value[:1]
	if quote != `"` && quote != `'` {
		if strings.HasPrefix(value, "#") {
			return "", nil
		}
		bare, _, _ := strings.Cut(value, " #")
		return strings.TrimSpace(bare), nil
	}
	inside, rest, closed := strings.Cut(value[1:], quote)
	rest = strings.TrimSpace(rest)
	if !closed || rest != "" && !strings.HasPrefix(rest, "#") {
		return "", fmt.Errorf("the quote %s is not closed, or something follows it: write NAME=%svalue%s", quote, quote, quote)
	}
	return inside, nil
}
