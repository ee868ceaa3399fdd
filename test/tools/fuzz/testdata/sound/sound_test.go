package sound

import "testing"

// FuzzSound finds nothing.
func FuzzSound(f *testing.F) {
	f.Add("calm")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) < 0 {
			t.Fatalf("%q is too short", text)
		}
	})
}
