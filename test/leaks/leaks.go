// Package leaks finds goroutines that outlive a test.
package leaks

import (
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end. goleak's half a second is not enough on a loaded machine.
const patience = time.Minute

// Find is goleak.Find with patience.
func Find(options ...goleak.Option) error {
	left := goleak.Find(options...)
	for end := time.Now().Add(patience); left != nil && time.Now().Before(end); {
		left = goleak.Find(options...)
	}
	return left
}
