package importenv

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

// stepsSchema names the form of --takeover -o json.
const stepsSchema = "rrpool.io/takeover/v1"

// view is what --takeover shows.
type view struct {
	SchemaVersion string `json:"schemaVersion"`
	Cluster       string `json:"cluster"`
	// Found, as words.
	Found []fact `json:"found"`
	// LosesPackets: some step does; its cost says whose.
	LosesPackets bool     `json:"losesPackets"`
	Warnings     []string `json:"warnings"`
	Steps        []shown  `json:"steps"`
	// Next are the commands after the last step.
	Next []string `json:"next"`
}

type fact struct {
	What  string `json:"what"`
	Value string `json:"value"`
}

// shown is a step as it is shown.
type shown struct {
	Title    string   `json:"title"`
	Why      string   `json:"why"`
	Cost     string   `json:"cost"`
	Commands []string `json:"commands"`
	Checks   []check  `json:"checks"`
	Then     string   `json:"then,omitempty"`
}

// check is a command, and what it has to show.
type check struct {
	Command string `json:"command"`
	Shows   string `json:"shows"`
}

func newView(program, cluster string, f *Found) view {
	v := view{SchemaVersion: stepsSchema, Cluster: cluster, Found: factsOf(f), Warnings: warningsOf(f), Steps: []shown{}}
	for _, s := range f.Steps() {
		v.LosesPackets = v.LosesPackets || !s.Free
		v.Steps = append(v.Steps, show(f, s))
	}
	v.Next = []string{"kubectl apply -f pool.yaml", program + " plan", program + " migrate"}
	if !f.settings() {
		v.Next = slices.Insert(v.Next, 0, program+" import-env --env-file <file> > pool.yaml")
	}
	for i := range v.Steps {
		for j, command := range v.Steps[i].Commands {
			if rest, ok := strings.CutPrefix(command, "rrpool "); ok {
				v.Steps[i].Commands[j] = program + " " + rest
			}
		}
	}
	return v
}

func factsOf(f *Found) []fact {
	mesh := "off"
	if f.Mesh {
		mesh = "on"
	}
	out := []fact{{"mesh", mesh}}
	for _, o := range f.Operators {
		out = append(out, fact{"operator", fmt.Sprintf("Deployment %s/%s, %d of %d running", o.Namespace, o.Name, o.Running, o.Wanted)})
	}
	for _, n := range f.Nodes {
		switch {
		case n.Helper:
			out = append(out, fact{"leaning in", fmt.Sprintf("%s, cluster ID %s", n.Name, n.ClusterID)})
		case n.reflector():
			out = append(out, fact{"reflector", describe(n, f.Label)})
		}
	}
	for _, some := range []struct {
		what  string
		names []string
	}{{"BGPPeers", f.Peers}, {"of the way", slices.Concat(f.Ours, f.Watches)}, {"left over", f.Leftovers}} {
		if len(some.names) > 0 {
			out = append(out, fact{some.what, few(some.names)})
		}
	}
	return out
}

func describe(n Node, label string) string {
	text := n.Name
	if n.ClusterID != "" {
		text += ", cluster ID " + n.ClusterID
	} else {
		text += ", no cluster ID"
	}
	if !n.Role {
		text += ", without the label " + label
	}
	switch {
	case n.Pods == 1:
		text += ", 1 pod"
	case n.Pods >= 0:
		text += fmt.Sprintf(", %d pods", n.Pods)
	}
	if !n.Ready {
		text += ", NotReady"
	}
	return text
}

// fewNames are as many as one line has room for.
const fewNames = 4

func few(names []string) string {
	if len(names) <= fewNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, and %d more", strings.Join(names[:fewNames], ", "), len(names)-fewNames)
}

func warningsOf(f *Found) []string {
	out := []string{}
	for _, what := range f.Unread {
		out = append(out, "not readable: "+what)
	}
	if len(f.Others) > 0 {
		out = append(out, fmt.Sprintf("BGPPeers between nodes of this cluster that neither the operator nor rrpool made: %s. rrpool refuses while they are there: ask whoever made them", few(f.Others)))
	}
	for _, n := range f.Nodes {
		if n.Marked {
			out = append(out, fmt.Sprintf("%s is a route reflector of rrpool's already: the steps do not know what rrpool is doing. Set its mode to FullMesh, wait, and ask again", n.Name))
			break
		}
	}
	for _, n := range f.Nodes {
		if !n.Ready {
			out = append(out, fmt.Sprintf("%s is NotReady: its sessions count as not Established where a step waits for them", n.Name))
		}
	}
	return out
}

func show(f *Found, s Step) shown {
	out := shown{
		Title: s.Title, Why: s.Why, Cost: s.Cost, Then: s.Then, Checks: []check{},
		Commands: append(append([]string{}, s.Commands...), commands(s.Actions)...),
	}
	for _, w := range s.Waits {
		c := check{
			Command: fmt.Sprintf("kubectl get caliconodestatuses.crd.projectcalico.org %s%s -o jsonpath='%s' | sort | uniq -c", watchPrefix, w.Node, sessionPath),
			Shows:   w.kinds(),
		}
		if !f.Statuses {
			c = check{Command: "calicoctl node status", Shows: w.kinds() + ", on " + w.Node}
		}
		out.Checks = append(out.Checks, c)
	}
	return out
}

// sessionPath prints each session's kind and state in a line.
const sessionPath = `{range .status.bgp.peersV4[*]}{.type} {.state}{"\n"}{end}`

// kinds are the sessions as the command counts them.
func (w Wait) kinds() string {
	var out []string
	for _, kind := range []struct {
		count int
		name  string
	}{{w.Global, "GlobalPeer"}, {w.Mesh, "NodeMesh"}, {w.Peers, "NodePeer"}} {
		if kind.count > 0 {
			out = append(out, fmt.Sprintf("%d %s Established", kind.count, kind.name))
		}
	}
	return strings.Join(out, ", ") + " and nothing else"
}

func jsonOf(s iostreams.Streams, v view) error { return iostreams.WriteJSON(s.Out, v) }

// textOf renders the steps for a person. Commands are never broken: they are to be copied.
func textOf(s iostreams.Streams, v view) error {
	var out strings.Builder
	line := func(indent, text string) { out.WriteString(indent + s.Fold(text, indent) + "\n") }
	out.WriteString(s.Paint(iostreams.Bold, "Take over from the route-reflector operator") + "\n")
	line("", "the cluster of context "+v.Cluster)
	out.WriteString("\n")
	for _, f := range v.Found {
		head := fmt.Sprintf("%-11s ", f.What)
		out.WriteString(head + s.Fold(f.Value, strings.Repeat(" ", len(head))) + "\n")
	}
	for _, warning := range v.Warnings {
		out.WriteString(s.Paint(iostreams.Yellow, "‼ "+s.Fold(warning, "  ")) + "\n")
	}
	out.WriteString("\n")
	line("", headline(v))
	for i, step := range v.Steps {
		out.WriteString("\n")
		line("", s.Paint(iostreams.Bold, fmt.Sprintf("%d. %s", i+1, step.Title)))
		step.write(s, &out, line)
	}
	if len(v.Steps) > 0 {
		out.WriteString("\n")
		line("", "Ask again after each step: what is done is left out. The cluster stays on the mesh until rrpool moves it; what that costs, rrpool plan says.")
	}
	out.WriteString("Then:\n")
	for _, command := range v.Next {
		out.WriteString("  " + command + "\n")
	}
	_, err := s.Out.Write([]byte(out.String()))
	return err //nolint:wrapcheck // Emit wraps
}

func headline(v view) string {
	switch {
	case len(v.Steps) == 0:
		return "Nothing of the operator is left."
	case v.LosesPackets:
		return "The steps, in this order. Those that lose packets say whose. Do not begin one before the one before it is done."
	default:
		return "The steps, in this order, lose no packet. Do not begin one before the one before it is done."
	}
}

func (step shown) write(s iostreams.Streams, out *strings.Builder, line func(indent, text string)) {
	line("   ", step.Why)
	for _, command := range step.Commands {
		for part := range strings.SplitSeq("$ "+command, "\n") {
			if !strings.HasPrefix(part, "$ ") {
				out.WriteString(part + "\n") // a here-document ends where a line begins
				continue
			}
			out.WriteString(s.Paint(iostreams.Green, "   "+part) + "\n")
		}
	}
	line("   ", "Costs: "+step.Cost+".")
	for _, c := range step.Checks {
		line("   ", "Wait until this shows "+c.Shows+":")
		out.WriteString("   $ " + c.Command + "\n")
	}
	if step.Then != "" {
		line("   ", "Done when: "+step.Then+".")
	}
}
