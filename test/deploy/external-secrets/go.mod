// The sources of the External Secrets Operator, for its CRDs: a module of its own, so that
// nothing else ever depends on it.
module github.com/rrpool/rrpool/test/deploy/external-secrets

go 1.26.8

require github.com/external-secrets/external-secrets v1.3.2
