//go:build linux

package lab

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASessionIsTheSameUntilItRestarts(t *testing.T) {
	was := Session{Name: "Mesh_172_20_0_11", State: "Established", ProtocolState: "up", Since: "07:36:51"}
	for name, tc := range map[string]struct {
		change func(*Session)
		want   bool
	}{
		"nothing has changed":              {func(*Session) {}, true},
		"the other clock's second":         {func(s *Session) { s.Since = "07:36:50" }, true},
		"it has restarted":                 {func(s *Session) { s.Since = "07:36:53" }, false},
		"it is down":                       {func(s *Session) { s.State = "Connect" }, false},
		"it is up, but exchanges nothing":  {func(s *Session) { s.ProtocolState = "wait" }, false},
		"another one took its place":       {func(s *Session) { s.Name = "Node_172_20_0_11" }, false},
		"there is none any more":           {func(s *Session) { *s = Session{} }, false},
		"BIRD says the day, after a while": {func(s *Session) { s.Since = "2026-11-22" }, false},
	} {
		is := was
		tc.change(&is)
		require.Equal(t, tc.want, was.Same(is), name)
		require.Equal(t, tc.want, is.Same(was), name)
	}
}
