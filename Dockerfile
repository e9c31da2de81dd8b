# Only the service, on a distroless base: no shell, no package manager, an unprivileged user.

# Other images in place of the two below, such as a mirror's. Both must have the same C library.
ARG RUST_IMAGE=rust
ARG BASE_IMAGE=base

# Dependabot keeps the digests up, in lines that begin with FROM alone. The first image is CI's container,
# too: the oldest compiler that Cargo.toml allows.
FROM docker.io/library/rust:1.95-bookworm@sha256:6258907abe69656e41cd992e0b705cdcfabcbbe3db374f92ed2d47121282d4a1 AS rust
FROM gcr.io/distroless/cc-debian12:nonroot@sha256:9dac0a79194e45a7da0158a9c6da57b217585af0786db3845d1f0ec1a0dd182f AS base

FROM ${RUST_IMAGE} AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY .cargo/config.toml .cargo/
COPY migrations migrations
COPY crates crates
COPY tests/models tests/models
COPY src src
# The builder's caches keep downloads and compiled dependencies between builds. Each platform has its own,
# because platforms that are built at the same time would overwrite each other's files.
ARG TARGETPLATFORM
ARG REVISION=unknown
RUN --mount=type=cache,id=raindrop-registry-${TARGETPLATFORM},target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,id=raindrop-target-${TARGETPLATFORM},target=/src/target,sharing=locked \
    RAINDROP_COMMIT=${REVISION:-unknown} cargo build --profile dist --locked --features jemalloc,otel \
        --bin raindrop \
    && install -D --strip target/dist/raindrop /out/usr/local/bin/raindrop \
    && install -d -o 65532 -g 65532 /out/var/lib/raindrop

FROM ${BASE_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="Raindrop" \
      org.opencontainers.image.description="Unique, time-ordered 64-bit IDs over HTTP/JSON" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}"
COPY --from=build /out /
COPY deploy/raindrop.toml /etc/raindrop/raindrop.toml
ENV RAINDROP_CONFIG=/etc/raindrop/raindrop.toml
# The directory of the default SQLite file: keep it on a volume, or configure a database.
WORKDIR /var/lib/raindrop
VOLUME /var/lib/raindrop
# Numeric, so that Kubernetes can verify that it is not root.
USER 65532:65532
EXPOSE 8080 9090
HEALTHCHECK --interval=10s --timeout=6s --start-period=5s --retries=3 \
    CMD ["/usr/local/bin/raindrop", "health"]
ENTRYPOINT ["/usr/local/bin/raindrop"]
CMD ["serve"]
