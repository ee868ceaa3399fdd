package migrate

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// progress is how far the manager is.
type progress struct {
	step, waits, mesh string
	gone              time.Duration
	bars              []bar
}

// bar is done of all.
type bar struct {
	name      string
	done, all int
}

func progressOf(object *v1alpha1.RouteReflectorPool, d direction, gone time.Duration) progress {
	step, counts := object.Status.Step, status.CountsOf(object.Status)
	p := progress{step: step.Name, waits: firstOf(step.WaitingFor), mesh: "off", gone: gone}
	if !meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.ConditionMeshDisabled) {
		p.mesh = "on"
	}
	if d.mode == v1alpha1.ModeFullMesh {
		p.bars = []bar{{"reflectors left", counts.Reflectors, 0}}
		return p
	}
	name := "workers"
	if object.Status.Provider == "existing" {
		name = "nodes"
	}
	p.bars = append(p.bars, bar{name, counts.PoolReady, counts.PoolWanted})
	if object.Spec.Rollout.Gate != v1alpha1.GateTimer {
		p.bars = append(p.bars, bar{"sessions", counts.SessionsEstablished, counts.SessionsExpected})
	}
	return p
}

// settling begins a wait that is nothing but time.
const settling = "the nodes to take over the last change"

// firstOf names one wait: rather what is missing than time that has to pass.
func firstOf(waits []string) string {
	if len(waits) == 0 {
		return ""
	}
	first := slices.IndexFunc(waits, func(wait string) bool { return !strings.HasPrefix(wait, settling) })
	if len(waits) == 1 {
		return waits[0]
	}
	return fmt.Sprintf("%s and %d more", waits[max(first, 0)], len(waits)-1)
}

// counts is the progress in numbers, for lines.
func (p progress) counts() string {
	var out []string
	for _, b := range p.bars {
		if b.all == 0 && b.name == "reflectors left" {
			out = append(out, fmt.Sprintf("%s %d", b.name, b.done))
			continue
		}
		out = append(out, fmt.Sprintf("%s %d/%d", b.name, b.done, b.all))
	}
	return strings.Join(append(out, "mesh "+p.mesh), ", ")
}

// display shows progress as it comes.
type display interface {
	// update shows how far it is.
	update(progress)
	// say writes a line that stays.
	say(colour, line string)
}

// newDisplay draws bars for a person, and writes lines for everything else.
func newDisplay(s iostreams.Streams) display {
	if s.Terminal && s.Getenv("TERM") != "dumb" && !redirected(s.Err) {
		return &bars{Streams: s}
	}
	return &lines{Streams: s}
}

// redirected: standard error goes to a file or a pipe, whatever standard output does.
func redirected(err io.Writer) bool {
	file, ok := iostreams.Unguarded(err).(*os.File)
	if !ok {
		return false
	}
	info, failed := file.Stat()
	return failed != nil || info.Mode()&os.ModeCharDevice == 0
}

// lines writes one line for each change, with the time.
type lines struct {
	iostreams.Streams
	step, counts string
}

func (l *lines) update(p progress) {
	counts := p.counts()
	if p.step == l.step && counts == l.counts {
		return
	}
	line := p.step + ": " + counts
	if p.waits != "" {
		line += "; waits for " + p.waits
	}
	l.step, l.counts = p.step, counts
	l.say("", line)
}

func (l *lines) say(_, line string) {
	_, _ = fmt.Fprintf(l.Err, "%s %s\n", l.Now().UTC().Format("15:04:05Z"), line)
}

// bars draws over its last picture.
type bars struct {
	iostreams.Streams
	last   progress
	height int
	most   int // reflectors that there were, on the way back
}

const (
	barWidth = 24
	nameSize = 12
)

func (b *bars) update(p progress) {
	b.last = p
	picture := []string{b.cut(fmt.Sprintf("%s, %s gone, mesh %s", p.step, duration.HumanDuration(p.gone), p.mesh), iostreams.Bold)}
	for _, one := range p.bars {
		if one.name == "reflectors left" {
			b.most = max(b.most, one.done)
			one = bar{"given back", b.most - one.done, b.most}
		}
		picture = append(picture, b.cut(one.String(), ""))
	}
	waits := ""
	if p.waits != "" {
		waits = "waits for " + p.waits
	}
	picture = append(picture, b.cut(waits, ""))
	_, _ = fmt.Fprint(iostreams.Unguarded(b.Err), b.top()+strings.Join(picture, "\x1b[K\n")+"\x1b[K\n\x1b[J")
	b.height = len(picture)
}

// top puts the cursor where the last picture begins.
func (b *bars) top() string {
	if b.height == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA", b.height)
}

// cut keeps a line from being broken in two, which would shift the picture.
func (b *bars) cut(line, colour string) string {
	line = iostreams.Visible(line)
	if b.Width > 0 {
		line = text.Snip(line, b.Width-1, "…")
	}
	if colour == "" {
		return line
	}
	return b.Paint(colour, line)
}

func (b bar) String() string {
	full := 0
	if b.all > 0 {
		full = min(barWidth, b.done*barWidth/b.all)
	}
	return fmt.Sprintf("%-*s[%s%s] %d/%d", nameSize, b.name, strings.Repeat("#", full), strings.Repeat("-", barWidth-full), b.done, b.all)
}

func (b *bars) say(colour, line string) {
	_, _ = fmt.Fprintf(iostreams.Unguarded(b.Err), "%s\x1b[J%s\n", b.top(), iostreams.Visible(b.Paint(colour, b.Fold(line, "  "))))
	if b.height > 0 {
		b.height = 0
		b.update(b.last)
	}
}
