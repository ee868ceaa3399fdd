//go:build linux

package image

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// program is the least that is one: it is looked at, never run.
func program(segment elf.ProgType) []byte {
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
	}
	var out bytes.Buffer
	_ = binary.Write(&out, binary.LittleEndian, header)
	_ = binary.Write(&out, binary.LittleEndian, elf.Prog64{Type: uint32(segment)})
	return out.Bytes()
}

var (
	staticProgram  = program(elf.PT_LOAD)
	dynamicProgram = program(elf.PT_INTERP)
)

// A layer that brings what an image of ours has no use for is refused.
func TestLayersBringFilesOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		header tar.Header
		says   string
	}{
		"a file":                      {tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o444}, ""},
		"setuid":                      {tar.Header{Typeflag: tar.TypeReg, Name: "su", Mode: 0o4755}, "setuid"},
		"a file of a user":            {tar.Header{Typeflag: tar.TypeReg, Name: "manager", Mode: 0o555, Uid: 65532}, "belongs to user 65532"},
		"a device":                    {tar.Header{Typeflag: tar.TypeBlock, Name: "sda", Mode: 0o666}, "is of type"},
		"what deletes another":        {tar.Header{Typeflag: tar.TypeReg, Name: "etc/.wh.passwd"}, "deletes a file"},
		"a file outside":              {tar.Header{Typeflag: tar.TypeReg, Name: "../outside"}, "escapes"},
		"a file outside, by its path": {tar.Header{Typeflag: tar.TypeReg, Name: "/etc/outside"}, "escapes"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(dir, "etc"), 0o750))
			root, err := os.OpenRoot(dir)
			require.NoError(t, err)
			defer root.Close() //nolint:errcheck // only a folder
			err = unpackEntry(root, &tc.header, bytes.NewReader(nil))
			if tc.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.says)
		})
	}
}

// A byte that changed on its way is seen.
func TestABlobThatIsNotWhatItsNameSaysIsSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "image.tar")
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "blobs/sha256/" + string(bytes.Repeat([]byte("0"), 64)), Size: 1}))
	_, err := w.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, os.WriteFile(path, packed.Bytes(), 0o600))
	_, err = readArchive(path)
	require.ErrorContains(t, err, "has the digest 2d711642")
}

// A program that may not be run is not run, in the same box in which the image is.
func TestARootWithoutTheRightToRunDoesNotStart(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.Chmod(root, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "manager"), staticProgram, 0o600))
	b := newBox(t, root, secretsWith(t, nil))
	b.Args = []string{"/manager"}
	run := launch(t, b)
	require.Error(t, <-run.done)
	require.Contains(t, run.log.String(), `running "/manager": permission denied`)
}
