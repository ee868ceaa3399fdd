// Package walkthrough types what the docs say. The blocks of shell commands of a page are found as GitHub finds them, and run in
// their order, by one real bash, in a lab cluster.
package walkthrough
