// Package image has no code of its own: its tests unpack the image that make image makes,
// and run what is in it as a cluster would, against a real apiserver.
package image
