# syntax=docker/dockerfile:1
# Only the service, on a distroless base: no shell, no package manager, an unprivileged user.

# At least Cargo.toml's `rust-version`. The base image below must have the same C library.
ARG RUST_IMAGE=docker.io/library/rust:1.95-bookworm
ARG BASE_IMAGE=gcr.io/distroless/cc-debian12:nonroot

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
RUN --mount=type=cache,id=raindrop-registry-${TARGETPLATFORM},target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,id=raindrop-target-${TARGETPLATFORM},target=/src/target,sharing=locked \
    cargo build --profile dist --locked --bin raindrop \
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
