# Builds a static-enough binary and ships it alone: no shell, no package manager, not root.
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
# Dependencies first, so that a change of ours does not build them again.
RUN mkdir -p src benches tests/it \
    && echo 'fn main() {}' | tee src/main.rs benches/hot_path.rs tests/it/main.rs > src/lib.rs \
    && cargo build --release --locked --bin antwort \
    && rm -rf src benches tests
COPY . .
RUN touch src/main.rs src/lib.rs && cargo build --release --locked --bin antwort
# An empty directory that the user of the final image may write to.
RUN mkdir -p /empty/data

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /src/target/release/antwort /usr/local/bin/antwort
COPY --from=build --chown=65532:65532 /empty/data /data
USER 65532:65532
# The root file system may be read-only; state is here alone.
VOLUME /data
ENV ANTWORT_LISTEN=0.0.0.0:8080 ANTWORT_STORE_URL=sqlite:/data/antwort.db
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s CMD ["/usr/local/bin/antwort", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/antwort"]
CMD ["serve"]
