package plan_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/controllers/plan"
)

func TestATextThatWantsAPersonEndsWithItsPage(t *testing.T) {
	const page = "; see https://github.com/rrpool/rrpool/blob/main/docs/runbook/conditions.md#stepfailed"
	require.Equal(t, "it failed"+page, plan.Linked("it failed", "StepFailed", 1024))
	require.Equal(t, "the cloud says no"+page, plan.Linked("the cloud says no.", "StepFailed", 1024))
	require.Equal(t, "the cloud hesitates"+page, plan.Linked("the cloud hesitates...", "StepFailed", 1024))
	require.Equal(t, "it failed", plan.Unlinked("it failed"+page, "StepFailed"))
	require.Equal(t, "it failed"+page, plan.Unlinked("it failed"+page, "Steady"), "the address for another reason stays")
}

func TestThePageOfATextIsNeverCut(t *testing.T) {
	const most = 1024
	rapid.Check(t, func(r *rapid.T) {
		text := strings.Repeat(rapid.String().Draw(r, "text"), rapid.IntRange(1, 200).Draw(r, "times"))
		got := plan.Linked(text, "StepFailed", most)
		require.LessOrEqual(r, len(got), most)
		require.True(r, utf8.ValidString(got))
		require.NotContains(r, got, "\n")
		require.True(r, strings.HasSuffix(got, "; see "+plan.Docs+plan.Page("StepFailed")))
		require.Equal(r, got, plan.Plain(got, most), "what is linked is plain")
		require.Equal(r, got, plan.Linked(plan.Unlinked(got, "StepFailed"), "StepFailed", most))
	})
}
