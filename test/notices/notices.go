// Package notices reads NOTICES.txt, the licences of what is linked into a program, as
// whoever gets the program does: it knows nothing of how the file was made.
package notices

import (
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"
	"strings"
)

// rule stands between the texts.
var rule = "\n" + strings.Repeat("=", 72) + "\n"

// Of gives the texts of a file by what they are of, named as Linked names it.
func Of(file string) map[string][]string {
	out := map[string][]string{}
	for _, part := range strings.Split(file, rule)[1:] {
		names, text, _ := strings.Cut(part, "\n\n")
		for name := range strings.Lines(names) {
			name = strings.TrimSpace(name)
			out[name] = append(out[name], strings.TrimSpace(text))
		}
	}
	return out
}

// Linked names what the linker says is in a program, Go's own library first: "std 1.26.8",
// "sigs.k8s.io/yaml v1.6.0".
func Linked(program *debug.BuildInfo) []string {
	out := []string{"std " + strings.TrimPrefix(program.GoVersion, "go")}
	for _, m := range program.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		out = append(out, m.Path+" "+m.Version)
	}
	return out
}

// licence is what no text of a licence is without.
var licence = regexp.MustCompile(`(?i)licen[cs]e|permission|redistribut`)

// Check names everything that is linked into a program and has no licence in the file.
func Check(program *debug.BuildInfo, file string) error {
	texts := Of(file)
	var faults []error
	for _, name := range Linked(program) {
		switch all := strings.Join(texts[name], "\n"); {
		case all == "":
			faults = append(faults, fmt.Errorf("NOTICES.txt has nothing of %s, which is linked", name))
		case !licence.MatchString(all):
			faults = append(faults, fmt.Errorf("NOTICES.txt has no licence of %s, but %.40q", name, all))
		}
	}
	return errors.Join(faults...)
}
