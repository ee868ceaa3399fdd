package main

import (
	"fmt"
	"os"
	"time"
)

// childVariable makes a test binary a manager. Its value is a hurry, or "real".
const childVariable = "RRPOOL_TEST_MANAGER"

// fastClock is a clock that is faster than time, from epoch on.
type fastClock struct {
	epoch time.Time
	speed float64
	// lease is how long a lease really lasts, 0 for client-go's own time.
	lease time.Duration
}

func (h fastClock) now() time.Time { return h.epoch.Add(h.of(time.Since(h.epoch))) }

// of is how much time passes by the clock while d really does.
func (h fastClock) of(d time.Duration) time.Duration { return time.Duration(float64(d) * h.speed) }

// wait is how long d takes.
func (h fastClock) wait(d time.Duration) time.Duration { return time.Duration(float64(d) / h.speed) }

// variable makes a child live by h.
func (h fastClock) variable() string {
	return fmt.Sprintf("%s=%d,%g,%d", childVariable, h.epoch.UnixNano(), h.speed, h.lease)
}

// fastClockFrom reads the variable's value.
func fastClockFrom(value string) (tuning, error) {
	if value == "real" {
		return tuning{}, nil
	}
	var epoch, lease int64
	var h fastClock
	if _, err := fmt.Sscanf(value, "%d,%g,%d", &epoch, &h.speed, &lease); err != nil {
		return tuning{}, fmt.Errorf("reading %s=%q: %w", childVariable, value, err)
	}
	h.epoch, h.lease = time.Unix(0, epoch), time.Duration(lease)
	return tuning{now: h.now, wait: h.wait, lease: h.lease}, nil
}

// runManager is what a child process runs.
func runManager(value string) int {
	tuned, err := fastClockFrom(value)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return run(os.Args[1:], os.Stdout, os.Stderr, tuned)
}
