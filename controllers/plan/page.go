package plan

import "strings"

// Docs is the URL of this repository's documentation.
const Docs = "https://github.com/rrpool/rrpool/blob/main/docs/"

// Page returns the path below Docs of the explanation of a condition, a reason or a step.
func Page(reason string) string { return "runbook/conditions.md#" + strings.ToLower(reason) }

// Linked returns the text as Plain makes it, followed by the URL of the page
// about the reason. If both take more than most bytes, only the text is cut.
func Linked(text, reason string, most int) string {
	link := see(reason)
	return Plain(strings.TrimRight(text, "."), most-len(link)) + link
}

// Unlinked returns a text without the URL that Linked appended.
func Unlinked(text, reason string) string { return strings.TrimSuffix(text, see(reason)) }

func see(reason string) string { return "; see " + Docs + Page(reason) }
