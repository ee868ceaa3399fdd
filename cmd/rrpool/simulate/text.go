package simulate

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

// tableOf renders for people.
func tableOf(s iostreams.Streams, v view) error {
	title := "The topologies beside each other"
	if len(v.Topologies) == 1 {
		title = v.Topologies[0].Type
	}
	_, _ = fmt.Fprintf(s.Out, "%s\n%s\n\n", s.Paint(iostreams.Bold, title), s.Fold(v.Subject, ""))
	if len(v.Topologies) > 1 {
		compared(s, v)
		return nil
	}
	t := v.Topologies[0]
	if t.Refused != nil {
		say(s, iostreams.Red, fmt.Sprintf("× rrpool refuses it: %s: %s", t.Refused.Reason, t.Refused.Message))
	}
	if t.ByHand {
		say(s, iostreams.Yellow, "‼ Arranged by hand: rrpool does not build it like this.")
	}
	if t.Figures == nil {
		return nil
	}
	if t.Refused != nil || t.ByHand {
		_, _ = fmt.Fprintln(s.Out)
	}
	_, _ = fmt.Fprintf(s.Out, "%s\n\n", figuresTable(s, t.Figures))
	survival(s, t, v.Fail)
	return nil
}

func say(s iostreams.Streams, colour, text string) {
	_, _ = fmt.Fprintf(s.Out, "%s\n", s.Paint(colour, s.Fold(text, "  ")))
}

// figuresTable has a row for each figure.
func figuresTable(s iostreams.Streams, f *figures) string {
	w := iostreams.NewTable()
	reflectors := fmt.Sprint(f.Reflectors)
	if f.Spines > 0 {
		reflectors += fmt.Sprintf(", %d of them spines", f.Spines)
	}
	w.AppendRows([]table.Row{
		{"nodes", f.Nodes},
		{"reflectors", reflectors},
		{"redundancy", f.Redundancy},
		{"cluster IDs", f.ClusterIDs},
		{"clients", f.Clients},
		{"groups of clients", grouped(f)},
		{"clients labelled", f.Labelled},
		{"BGPPeers", f.BGPPeers},
		{"sessions", fmt.Sprintf("%d (full mesh: %d)", f.Sessions, f.FullMesh)},
		{"  of a client", f.SessionsPerClient.words()},
		{"  of a reflector", f.SessionsPerReflector.words()},
		{"    with clients", f.ClientsPerReflector.words()},
		{"    with reflectors", f.ReflectorsPerReflector.words()},
		{"paths to a prefix", ""},
		{"  on a client", f.PathsOnClient.words()},
		{"  on a reflector", f.PathsOnReflector.words()},
		{"paths to all prefixes", ""},
		{"  on a client", f.ClientRIB.words()},
		{"  on a reflector", f.ReflectorRIB.words()},
		{"memory of BIRD", ""},
		{"  on a reflector", f.Memory.words()},
	})
	if s.Width > 0 {
		w.SetColumnConfigs([]table.ColumnConfig{
			{Number: 2, WidthMax: max(s.Width-len("paths to all prefixes")-len(iostreams.Gap), 20), WidthMaxEnforcer: text.WrapSoft},
		})
	}
	return w.Render()
}

func grouped(f *figures) string {
	switch size := f.ClientsPerGroup; {
	case f.Groups == 1:
		return "1"
	case size.Least == size.Most:
		return fmt.Sprintf("%d, of %s each", f.Groups, plural(size.Most, "client"))
	default:
		return fmt.Sprintf("%d, of %d to %s", f.Groups, size.Least, plural(size.Most, "client"))
	}
}

// words says what several nodes have.
func (s span) words() string {
	if s.Least == s.Most {
		return fmt.Sprint(s.Most)
	}
	return fmt.Sprintf("%d on average, at most %d", int(s.Mean), s.Most)
}

func (p paths) words() string { return atLeast(p.AtLeast) + short(p.Paths) }

func (m memory) words() string { return "about " + m.short() }

func (m memory) short() string {
	const mega = 1_000_000
	return atLeast(m.AtLeast) + bytes(m.Bytes/mega*mega)
}

// bytes in the unit that fits.
func bytes(n uint64) string {
	switch {
	case n < 10_000_000_000:
		return fmt.Sprintf("%d MB", n/1_000_000)
	case n < 10_000_000_000_000:
		return fmt.Sprintf("%d GB", n/1_000_000_000)
	default:
		return fmt.Sprintf("%s TB", short(n/1_000_000_000_000))
	}
}

func atLeast(more bool) string {
	if more {
		return "≥"
	}
	return ""
}

// short is a number that is not longer than need be.
func short(n uint64) string {
	if n < 1_000_000 {
		return fmt.Sprint(n)
	}
	value := float64(n)
	for _, unit := range []string{"thousand", "million", "billion", "trillion"} {
		if value /= 1000; value < 1000 {
			return fmt.Sprintf("%.1f %s", value, unit)
		}
	}
	return fmt.Sprintf("%.0e", float64(n))
}

// survival says what the arrangement survives.
func survival(s iostreams.Streams, t topologyView, fail int) {
	f := t.Failures
	if f.Partitioned {
		say(s, iostreams.Red, fmt.Sprintf("× Clients are cut off from each other although nothing has failed: %d of %d pairs of groups have no route.",
			t.Figures.Unreached, t.Figures.GroupPairs))
		return
	}
	switch f.SurvivesAny {
	case 0:
		say(s, iostreams.Yellow, "‼ The loss of one reflector can cut clients off from each other.")
	default:
		say(s, iostreams.Green, fmt.Sprintf("√ Any %s may fail: every client keeps a route to every other.", plural(f.SurvivesAny, "reflector")))
	}
	if fail > 0 {
		_, _ = fmt.Fprintf(s.Out, "\n%s\n", s.Paint(iostreams.Bold, fmt.Sprintf("With %s down together", plural(fail, "reflector"))))
		sets(s, f, fail)
	}
	if len(f.Zones) > 1 {
		_, _ = fmt.Fprintf(s.Out, "\n%s\n%s\n", s.Paint(iostreams.Bold, "When a zone is lost"), zonesTable(s, f.Zones))
	}
}

// sets says which of them cut clients off.
func sets(s iostreams.Streams, f *failuresView, fail int) {
	w := iostreams.NewTable()
	w.AppendHeader(table.Row{"WHICH", "SETS", "CUT CLIENTS OFF"})
	for _, set := range f.Sets {
		w.AppendRow(table.Row{set.Which, short(set.Sets), cutting(s, set)})
	}
	w.SetColumnConfigs(columns(s, 30, iostreams.Right(2)))
	_, _ = fmt.Fprintln(s.Out, w.Render())
	if f.Tried < f.All {
		say(s, "", fmt.Sprintf("There are %s sets; these %s were tried.", short(f.All), short(f.Tried)))
	}
	if f.Breaking != nil {
		text := "The first that cuts clients off: " + strings.Join(f.Breaking, ", ") + "."
		if len(f.Breaking) < fail {
			text = fmt.Sprintf("Already these %d cut clients off: %s.", len(f.Breaking), strings.Join(f.Breaking, ", "))
		}
		if len(f.Cut) > 1 {
			text += fmt.Sprintf(" Then groups %s and %s have no route to each other.", f.Cut[0], f.Cut[1])
		}
		say(s, "", text)
	}
}

func cutting(s iostreams.Streams, set setView) string {
	switch set.Cutting {
	case 0:
		return s.Paint(iostreams.Green, "none")
	case set.Sets:
		return s.Paint(iostreams.Red, "all")
	}
	return s.Paint(iostreams.Red, short(set.Cutting))
}

func zonesTable(s iostreams.Streams, zones []zoneView) string {
	w := iostreams.NewTable()
	w.AppendHeader(table.Row{"ZONE", "REFLECTORS", "CLIENTS", "THE OTHERS"})
	for _, z := range zones {
		w.AppendRow(table.Row{z.Name, z.Reflectors, z.Clients, others(s, z)})
	}
	w.SetColumnConfigs(columns(s, 12, iostreams.Right(2), iostreams.Right(3)))
	return w.Render()
}

// columns lets the first one wrap where the terminal is narrow.
func columns(s iostreams.Streams, first int, rest ...table.ColumnConfig) []table.ColumnConfig {
	if s.Width > 0 {
		rest = append(rest, table.ColumnConfig{Number: 1, WidthMax: first, WidthMaxEnforcer: text.WrapSoft})
	}
	return rest
}

func others(s iostreams.Streams, z zoneView) string {
	switch {
	case z.Cut:
		return s.Paint(iostreams.Red, "are cut off")
	case !z.Remain:
		return "there are none"
	}
	return s.Paint(iostreams.Green, "keep their routes")
}
