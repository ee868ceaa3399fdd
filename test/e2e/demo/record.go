//go:build linux

package main

import (
	"bytes"
	"io"
	"os"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/test/recording"
)

// The terminal that a recording is made on, whatever there is really.
const (
	columns = 104
	rows    = 32
)

// recorded are streams of which everything is recorded.
func recorded(to iostreams.Streams) (iostreams.Streams, *recording.Recorder) {
	recorder := recording.NewRecorder("rrpool moves a cluster onto route reflectors and back", columns, rows, to.Now)
	to.Out = iostreams.Guard(io.MultiWriter(iostreams.Unguarded(to.Out), recorder))
	to.Terminal, to.Colour, to.Width = true, true, columns
	return to, recorder
}

// keep writes a recording, of a demonstration that succeeded.
func keep(path string, cast recording.Cast) error {
	var content bytes.Buffer
	if err := cast.Write(&content); err != nil {
		return err
	}
	return os.WriteFile(path, content.Bytes(), 0o600)
}
