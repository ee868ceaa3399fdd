package plan

// Docs is where this repository's docs are on the net.
const Docs = "https://github.com/rrpool/rrpool/blob/main/docs/"

// Page is the page of the runbook about a reason or a step, below Docs.
func Page(reason string) string { return "runbook/" + reason + ".md" }
