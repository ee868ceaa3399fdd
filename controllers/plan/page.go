package plan

import "strings"

// Docs is where this repository's docs are on the net.
const Docs = "https://github.com/rrpool/rrpool/blob/main/docs/"

// Page is where the docs explain a condition, a reason or a step, below Docs.
func Page(reason string) string { return "runbook/conditions.md#" + strings.ToLower(reason) }

// Linked is Plain of a text that may want a person, and ends with the address of the page
// about its reason. Where there is too much text, the address stays.
func Linked(text, reason string, most int) string {
	link := see(reason)
	return Plain(strings.TrimRight(text, "."), most-len(link)) + link
}

// Unlinked is a text without the address that Linked put at its end, for those who show that elsewhere.
func Unlinked(text, reason string) string { return strings.TrimSuffix(text, see(reason)) }

func see(reason string) string { return "; see " + Docs + Page(reason) }
