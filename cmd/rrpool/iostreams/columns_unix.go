//go:build unix

package iostreams

import (
	"os"

	"golang.org/x/sys/unix"
)

// columns is the width of a terminal, 0 when it does not say.
func columns(file *os.File) int {
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
