//go:build linux

package reflector

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of /proc/stat, whatever the kernel's own.
const tick = 10 * time.Millisecond

// busy is the time that all cores together have spent on anything, since they run; what a hypervisor took away counts.
func busy() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("reading how busy the machine is: %w", err)
	}
	return parseBusy(string(text))
}

// parseBusy reads the line "cpu user nice system idle iowait irq softirq steal …".
func parseBusy(stat string) (time.Duration, error) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("reading how busy the machine is: %q", line)
	}
	var ticks int64
	for i, field := range fields[1:9] {
		const idle, wait = 3, 4
		if i == idle || i == wait {
			continue
		}
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading how busy the machine is: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

// own is the time that this process has spent on processors.
func own() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("reading our CPU time: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

// bystanders tells how busy everything else on the machine is.
type bystanders struct {
	daemon *bird
	began  time.Time
	spent  time.Duration // by everything else until then
}

func watchBystanders(daemon *bird) (*bystanders, error) {
	b := &bystanders{daemon: daemon, began: time.Now()}
	spent, err := b.others()
	b.spent = spent
	return b, err
}

// others is the CPU time of everything but BIRD and us.
func (b *bystanders) others() (time.Duration, error) {
	all, err := busy()
	mine, ownErr := own()
	its, birdErr := b.daemon.cpu()
	return all - mine - its, errors.Join(err, ownErr, birdErr)
}

// cores is how many cores the others kept busy, on the average since the beginning.
func (b *bystanders) cores() (float64, error) {
	spent, err := b.others()
	return max(0, (spent-b.spent).Seconds()/time.Since(b.began).Seconds()), err
}
