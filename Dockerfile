# Builds the gateway and ships it with the libraries that it needs and nothing else: no shell, no package manager, not root.
#
#   docker build -t antwort .                                  the gateway; its log names the commit with
#                                                              `--build-arg ANTWORT_COMMIT="$(git rev-parse --short=12 HEAD)"`
#   docker build -t antwort:programs --target programs .       the same with Node.js, Python and uv, for MCP servers that
#                                                              are programs (mcp.servers.<label>.command)
#
# Base images are named by exact tags; a release resolves them and records the digests. scripts/test-image holds this file,
# and rehearses what it builds.

# The manifests of the crates, whose sources the stage of the dependencies is not to see.
FROM rust:1.95.0-bookworm AS manifests
WORKDIR /src
COPY crates crates
RUN find crates -mindepth 2 -maxdepth 2 ! -name Cargo.toml -exec rm -r {} +

FROM rust:1.95.0-bookworm AS build
# scripts/build-release traces with it which functions run.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends valgrind \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY Cargo.toml Cargo.lock build.rs ./
COPY .cargo .cargo
COPY --from=manifests /src/crates crates
COPY tests/support/Cargo.toml tests/support/
# Dependencies first, so that a change of ours does not build them again.
RUN for crate in crates/* tests/support; do mkdir "$crate/src" && touch "$crate/src/lib.rs" || exit; done \
    && mkdir -p src benches tests/contract tests/mcp tests/next_version tests/operation tests/state tests/tools \
    && echo 'fn main() {}' | tee src/main.rs benches/commits.rs benches/hot_path.rs \
        tests/contract/main.rs tests/mcp/main.rs tests/next_version/main.rs tests/operation/main.rs tests/state/main.rs tests/tools/main.rs \
        > src/lib.rs \
    && cargo build --release --locked --bin antwort \
    && rm -rf src crates
# What the binary is made of, and no more: a change of anything else builds nothing again.
COPY config/default.yaml config/
COPY crates crates
COPY migrations migrations
COPY openapi.yaml ./
COPY src src
COPY ui ui
COPY scripts/build-release scripts/
# What the gateway says of itself; without it, that it does not know.
ARG ANTWORT_COMMIT=
RUN touch src/main.rs src/lib.rs crates/*/src/lib.rs && scripts/build-release
COPY config/image.yaml config/
COPY scripts/image-root scripts/
RUN scripts/image-root target/release/antwort config/image.yaml /image

# The texts of licences; a release builds with `--build-context licences=DIR`, which has those of third parties, too.
FROM scratch AS licences
COPY LICENSE NOTICE /

FROM node:24.18.0-bookworm-slim AS programs
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && python3 -m venv /opt/uv \
    && /opt/uv/bin/pip install --no-cache-dir uv==0.13.8 \
    && ln -s /opt/uv/bin/uv /opt/uv/bin/uvx /usr/local/bin/
COPY --from=build /image/root/usr/local/bin/antwort /usr/local/bin/antwort
COPY --from=build /image/root/etc/antwort/antwort.yaml /etc/antwort/antwort.yaml
COPY --from=licences / /usr/share/doc/antwort/
COPY --from=build --chown=65532:65532 /image/data /data
# Where npx and uvx keep what they fetch: the root file system may be read-only here, too.
ENV HOME=/data
USER 65532:65532
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s CMD ["/usr/local/bin/antwort", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/antwort"]
CMD ["serve"]

FROM scratch AS runtime
COPY --from=build /image/root /
COPY --from=licences / /usr/share/doc/antwort/
COPY --from=build --chown=65532:65532 /image/data /data
# The settings of the image are in /etc/antwort/antwort.yaml, which a file of yours may take the place of.
USER 65532:65532
# The root file system may be read-only; state is here alone.
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s CMD ["/usr/local/bin/antwort", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/antwort"]
CMD ["serve"]
