package recording

import (
	"strings"
	"time"
)

// The pace of the picture. What takes long is shortened; what comes at once is drawn out,
// so that it can be read.
const (
	longest  = 2 * time.Second        // between two lines
	shortest = 180 * time.Millisecond // likewise
	// thought is how long a command is waited for: until what was said before it is read.
	thought = 1500 * time.Millisecond
	// last is how long the last screen is shown before it begins anew.
	last = 8 * time.Second
	// prompt begins a line that somebody has typed.
	prompt = "$ "
)

// paced gives the time of each line in the picture, and the length of the whole.
func paced(lines []Line) (times []time.Duration, whole time.Duration) {
	was, now := time.Duration(0), time.Duration(0)
	for i, line := range lines {
		least := shortest
		if strings.HasPrefix(line.Text(), prompt) {
			least = thought
		}
		if line.Text() == "" || i == 0 {
			least = 0
		}
		now += min(max(line.At-was, least), longest)
		was = line.At
		times = append(times, now)
	}
	return times, now + last
}
