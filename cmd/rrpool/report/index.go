package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// index lists each file, what could not be read and why, and what was cut.
func (r *reader) index() {
	entries := slices.Clone(r.entries)
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	var out strings.Builder
	fmt.Fprintf(&out, "rrpool report of %s\ncluster of context %s, %s\n\nFiles\n", r.now.Format(time.RFC3339), r.c.Name, r.c.Server)
	width := 0
	for _, e := range entries {
		width = max(width, len(e.name))
	}
	for _, e := range entries {
		fmt.Fprintf(&out, "  %-*s  %s, %d bytes\n", width, e.name, e.what, len(e.content))
	}
	section(&out, "Not in the report", r.missing)
	section(&out, "Cut", r.cut)
	section(&out, "Left out or made unreadable, always", []string{
		"values of Secrets: only the names of their keys are here",
		"values that look like passwords, keys or tokens, and each value of a Secret that was read, wherever else they stand: " + gone,
		"managed fields, and kubectl's copy of objects (last-applied-configuration)",
		"ConfigMap kube-system/cluster-info but for the cluster's id; kubeconfigs",
	})
	r.add("index.txt", "this list", out.String())
}

func section(out *strings.Builder, title string, lines []string) {
	fmt.Fprintf(out, "\n%s\n", title)
	if len(lines) == 0 {
		out.WriteString("  nothing\n")
	}
	for _, line := range lines {
		out.WriteString("  " + line + "\n")
	}
}
