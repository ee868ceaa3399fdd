# The manager's image: one static binary, no shell, not root. docs/release.md is about it.
#   docker buildx build --platform linux/amd64,linux/arm64,linux/s390x,linux/ppc64le -t registry.example.com/rrpool-manager:v0.1.0 .

# What it is built with and built on, each by the digest of its index of platforms. These
# digests are what other public projects pinned for these tags in November 2026; they
# were not pulled for this file. Compare before you trust them: crane digest golang:1.26.8
ARG GO_IMAGE=golang:1.26.8
ARG GO_DIGEST=@sha256:3c3e25a4da13fd0478eed2df1eb35a0e667094a7124d3993a6a1d30f71c17e79
ARG BASE_IMAGE=gcr.io/distroless/static-debian13:nonroot
ARG BASE_DIGEST=@sha256:e2e927ec666bae08560abb3c55d0659eceabb657f56b6782ab500a9fc7f555e3

# Go compiles for the target on the machine that builds; nothing is emulated.
FROM --platform=$BUILDPLATFORM ${GO_IMAGE}${GO_DIGEST} AS build
WORKDIR /src
COPY go.mod go.sum ./
COPY cloud cloud
COPY cmd cmd
COPY config config
COPY controllers controllers
ARG TARGETOS
ARG TARGETARCH
ARG VERSION
ARG COMMIT
ARG DATE
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} \
    go build -buildvcs=false -trimpath -ldflags "-s -w -X github.com/rrpool/rrpool/cmd/version.release=${VERSION} \
        -X github.com/rrpool/rrpool/cmd/version.commit=${COMMIT} -X github.com/rrpool/rrpool/cmd/version.date=${DATE}" \
    -o /out/manager ./cmd/manager
# The licences of what is linked go along: most of them ask for that.
COPY .ci/notices .ci/
COPY test/tools/go-licenses test/tools/go-licenses
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    GOOS=${TARGETOS} GOARCH=${TARGETARCH} .ci/notices manager /out/NOTICES.txt

FROM ${BASE_IMAGE}${BASE_DIGEST}
ARG VERSION=dev
ARG COMMIT
ARG DATE
LABEL org.opencontainers.image.title="rrpool manager" \
      org.opencontainers.image.source="https://github.com/rrpool/rrpool" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}" \
      org.opencontainers.image.created="${DATE}"
COPY --chmod=0555 --from=build /out/manager /manager
COPY --chmod=0444 LICENSE /licenses/LICENSE
COPY --chmod=0444 --from=build /out/NOTICES.txt /licenses/NOTICES.txt
WORKDIR /
USER 65532:65532
ENTRYPOINT ["/manager"]
