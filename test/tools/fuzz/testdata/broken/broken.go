// Package broken has a target that fails.
package broken
