# The manager's image: one static binary, no shell, not root.
#   docker buildx build --platform linux/amd64,linux/arm64,linux/s390x -t <registry>/rrpool-manager:<version> .
ARG BUILD_IMAGE=golang:1.26.8
ARG BASE_IMAGE=gcr.io/distroless/static:nonroot

# Go compiles for the target on the machine that builds; nothing is emulated.
FROM --platform=$BUILDPLATFORM ${BUILD_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY cloud cloud
COPY cmd cmd
COPY config config
COPY controllers controllers
ARG TARGETOS
ARG TARGETARCH
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} \
    go build -buildvcs=false -trimpath -ldflags '-s -w' -o /out/manager ./cmd/manager

FROM ${BASE_IMAGE}
COPY --from=build /out/manager /manager
COPY LICENSE /licenses/LICENSE
USER 65532:65532
ENTRYPOINT ["/manager"]
