package broken

import "testing"

// FuzzBroken fails for what a fuzzer finds at once.
func FuzzBroken(f *testing.F) {
	f.Add("calm")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4 {
			t.Fatalf("%q is too long", text)
		}
	})
}
