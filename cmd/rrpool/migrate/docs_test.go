package migrate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/cli"
)

func TestTheExampleOfTheDocs(t *testing.T) {
	cli.RequireExamples(t, "migrate", func(args ...string) cli.Answer {
		s := &scenario{api: &api{pool: object(v1alpha1.ModeFullMesh)}, happens: theWay()}
		got := s.play(t, iostreams.Streams{}, args...)
		require.Equal(t, cli.Blocks(t, "migrate", "text")[0], got.Err)
		return got
	})
}
