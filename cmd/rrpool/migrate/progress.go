package migrate

import (
	"fmt"
	"io"
	"os"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// progress is how far the manager is, in numbers, and what it waits for.
func progress(object *v1alpha1.RouteReflectorPool) (numbers, waits string) {
	counts, _ := status.CountsOf(object.Status)
	what := fmt.Sprintf("reflectors left %d", counts.Reflectors)
	if object.Spec.Mode == v1alpha1.ModeRouteReflector {
		name := "workers"
		if object.Status.Provider == "existing" {
			name = "nodes"
		}
		what = fmt.Sprintf("%s %d/%d", name, counts.PoolReady, counts.PoolWanted)
		if object.Spec.Rollout.Gate != v1alpha1.GateTimer {
			what += fmt.Sprintf(", sessions %d/%d", counts.SessionsEstablished, counts.SessionsExpected)
		}
	}
	mesh := "on"
	if meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.ConditionMeshDisabled) {
		mesh = "off"
	}
	if all := object.Status.Step.WaitingFor; len(all) == 1 {
		waits = "; waits for " + all[0]
	} else if len(all) > 1 {
		waits = fmt.Sprintf("; waits for %s and %d more", all[0], len(all)-1)
	}
	return fmt.Sprintf("%s: %s, mesh %s", object.Status.Step.Name, what, mesh), waits
}

// display shows the progress: on a terminal in one line that is written over, elsewhere in a
// line with the time for each change of the numbers.
type display struct {
	iostreams.Streams
	terminal bool
	// shown is the progress that was shown last.
	shown string
}

func newDisplay(s iostreams.Streams) *display {
	return &display{Streams: s, terminal: s.Terminal && s.Getenv("TERM") != "dumb" && !redirected(s.Err)}
}

// redirected: standard error goes to a file or a pipe, whatever standard output does.
func redirected(err io.Writer) bool {
	file, ok := iostreams.Unguarded(err).(*os.File)
	return ok && !term.IsTerminal(int(file.Fd()))
}

func (d *display) update(numbers, waits string) {
	switch {
	case d.terminal:
		d.shown = numbers + waits
		if d.Width > 0 {
			d.shown = text.Snip(d.shown, d.Width-1, "…") // a line that is broken in two cannot be written over
		}
		d.write("")
	case numbers != d.shown:
		d.shown = numbers
		d.say("", numbers+waits)
	}
}

// say writes a line that stays.
func (d *display) say(colour, line string) {
	if d.terminal {
		d.write(d.Paint(colour, d.Fold(line, "  ")) + "\n")
		return
	}
	_, _ = fmt.Fprintf(d.Err, "%s %s\n", d.Now().UTC().Format("15:04:05Z"), line)
}

// write puts text in the place of the progress, and the progress below it.
func (d *display) write(above string) {
	_, _ = fmt.Fprint(iostreams.Unguarded(d.Err), "\r\x1b[K"+iostreams.Visible(above+d.shown))
}

// end keeps what follows from being written behind the progress.
func (d *display) end() {
	if d.terminal && d.shown != "" {
		d.shown = ""
		_, _ = fmt.Fprintln(d.Err)
	}
}
