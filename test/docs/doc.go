// Package docs holds the pages of docs to what they claim.
package docs
