// Package probe proves, or disproves, that pods reach each other: it sends an ICMP echo request between every two of them, all the
// time, and says which were not answered, when, and during which phase.
package probe
