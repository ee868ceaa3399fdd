package plan

import (
	"testing"

	"github.com/rrpool/rrpool/test/cli"
)

func TestMain(m *testing.M) { cli.Main(m) }

func TestTheExamplesOfTheDocs(t *testing.T) {
	cli.RequireExamples(t, "plan", func(args ...string) cli.Answer { return cli.Ask(t, New, args...) })
}
