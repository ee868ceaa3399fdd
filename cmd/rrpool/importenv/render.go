package importenv

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

// poolSchema names the form of -o json.
const poolSchema = "rrpool.io/import-env/v1"

// document is what -o json gives.
type document struct {
	SchemaVersion string `json:"schemaVersion"`
	Source        string `json:"source"`
	// Pool is the RouteReflectorPool.
	Pool  map[string]any `json:"pool"`
	Notes []note         `json:"notes"`
}

// yaml renders the object, each field below what there is to say about it, and at the
// end what has no field. Comments are folded at the width, 0 for 100 columns.
func (t *translation) yaml(width int) string {
	if width <= 0 {
		width = 100
	}
	var out strings.Builder
	comment(&out, "", fmt.Sprintf("What %s says, as a RouteReflectorPool.", t.from.source), width)
	for _, f := range t.fields {
		indent := strings.Repeat("  ", f.depth)
		for _, n := range f.notes {
			comment(&out, indent, n.sentence(), width)
			n.commands(&out, indent)
		}
		line := indent + f.key + ":"
		if f.value != "" {
			line += " " + f.value
		}
		out.WriteString(line + "\n")
	}
	out.WriteString("\n")
	comment(&out, "", "No field of the RouteReflectorPool:", width)
	for _, n := range t.notes {
		if n.Field == "" {
			comment(&out, "", "- "+n.sentence(), width)
			n.commands(&out, "")
		}
	}
	return out.String()
}

// sentence is the note in words.
func (n note) sentence() string {
	begin := ""
	switch {
	case n.Variable == "":
	case n.Value != "":
		begin = n.Variable + "=" + n.Value + ": "
	case n.Field != "" && n.Kind != act:
		begin = n.Variable + " is not set: "
	default:
		begin = n.Variable + ": "
	}
	if n.Kind == act {
		begin = "DO: " + begin
	}
	if begin == "" {
		return strings.ToUpper(n.Text[:1]) + n.Text[1:] + "."
	}
	return begin + n.Text + "."
}

func (n note) commands(out *strings.Builder, indent string) {
	for _, command := range n.Commands {
		out.WriteString(indent + "#   " + command + "\n")
	}
}

func comment(out *strings.Builder, indent, text string, width int) {
	prefix := indent + "# "
	// What somebody has written into a variable must not end the comment, nor be what YAML
	// takes nowhere: not even a colour.
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, strings.Join(strings.Fields(text), " "))
	folded := iostreams.Streams{Width: width - len(prefix)}.Fold(text, "")
	for line := range strings.SplitSeq(folded, "\n") {
		out.WriteString(prefix + strings.TrimSpace(line) + "\n")
	}
}

func (t *translation) render(s iostreams.Streams, format string) error {
	text := t.yaml(s.Width)
	if format == "yaml" {
		_, err := fmt.Fprint(s.Out, text)
		return err //nolint:wrapcheck // Emit wraps
	}
	doc := document{SchemaVersion: poolSchema, Source: t.from.source, Notes: t.notes}
	if err := yaml.Unmarshal([]byte(text), &doc.Pool); err != nil {
		return fmt.Errorf("reading what was rendered: %w", err)
	}
	return iostreams.WriteJSON(s.Out, doc)
}

// scalar is a string as YAML has it, quoted where it would be taken for something else.
func scalar(text string) string {
	var plain map[string]any
	if err := yaml.Unmarshal([]byte("a: "+text), &plain); err == nil && plain["a"] == text {
		return text
	}
	return strconv.Quote(text)
}
