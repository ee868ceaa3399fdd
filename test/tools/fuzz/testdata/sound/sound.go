// Package sound has a target that finds nothing.
package sound
