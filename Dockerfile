# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# One static binary on a base without a shell, as a user that is not root.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS=linux
ARG TARGETARCH=amd64
ARG VERSION=devel
ARG COMMIT=unknown
ARG DATE=unknown
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath \
    -ldflags "-s -w -X main.version=$VERSION -X main.commit=$COMMIT -X main.date=$DATE" \
    -o /weir ./cmd/weir

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /weir /weir
USER 65532:65532
ENTRYPOINT ["/weir"]
CMD ["manager"]
