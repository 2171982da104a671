# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# One static binary on a base image without a shell, run as a non-root user. `make image`
# builds an equivalent image, with the same labels, without Docker.
#
#   docker buildx build --platform linux/amd64,linux/arm64 \
#     --build-arg VERSION=1.0.0 --build-arg COMMIT=... --build-arg DATE=... .
FROM --platform=$BUILDPLATFORM golang:1.26.8-bookworm@sha256:a688600ca24f8a4d3ca77f95b0dd40704a9fc787c826660eb7ba0b641b8b175d AS build
ARG TARGETOS=linux
ARG TARGETARCH=amd64
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# After the download, so that another version reuses the downloaded modules.
ARG VERSION=devel
ARG COMMIT=unknown
ARG DATE=unknown
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -tags=grpcnotrace \
    -ldflags "-s -w -X main.version=$VERSION -X main.commit=$COMMIT -X main.date=$DATE" \
    -o /weir ./cmd/weir

FROM gcr.io/distroless/static-debian12:nonroot@sha256:afa5c872c891853ca7fcf1f12c3edb23f7eeef36189728842dd51042ff57f7ab
ARG VERSION=devel
ARG COMMIT=unknown
ARG DATE=unknown
LABEL org.opencontainers.image.title="Weir" \
      org.opencontainers.image.description="Rate limits and abuse protection for Kubernetes" \
      org.opencontainers.image.source="https://github.com/weir-dev/weir" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$COMMIT" \
      org.opencontainers.image.created="$DATE" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /weir /weir
USER 65532:65532
ENTRYPOINT ["/weir"]
CMD ["manager"]
