//! Traces: W3C `traceparent`, and spans by OTLP where an endpoint is configured.
//!
//! Without an endpoint a caller's `traceparent` is passed on as it is, since the gateway has no span to put
//! between; with one, the gateway's span becomes the parent of the provider's.

mod parent;

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use tracing::level_filters::LevelFilter;
use tracing::{Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

use super::error::TelemetryError;
use super::options::TraceOptions;
pub use parent::TraceParent;

/// Path of the traces endpoint below a collector's base URL.
const TRACES: &str = "/v1/traces";

/// For one batch.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// For the last spans at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Exports spans to a collector, in batches, from its own thread.
#[derive(Debug)]
pub(super) struct TraceExporter(SdkTracerProvider);

impl TraceExporter {
    pub(super) fn new(options: TraceOptions) -> Result<Self, TelemetryError> {
        let endpoint = options.endpoint.trim_end_matches('/');
        let endpoint =
            if endpoint.ends_with(TRACES) { endpoint.to_owned() } else { format!("{endpoint}{TRACES}") };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client(options.http)?)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(endpoint);
        let resource = Resource::builder()
            .with_service_name(options.service_name)
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        // A trace that its caller records is recorded here too; sample_ratio decides for traces that begin here.
        let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(options.sample_ratio)));
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter.build()?)
            .with_sampler(sampler)
            .with_resource(resource)
            .build();
        Ok(Self(provider))
    }

    /// Exports the spans of the gateway only: those of libraries would outnumber them.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer("antwort"))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(Targets::new().with_target("antwort", LevelFilter::INFO))
    }

    pub(super) fn shutdown(self) {
        if let Err(error) = self.0.shutdown_with_timeout(SHUTDOWN_TIMEOUT) {
            tracing::warn!(%error, "spans lost: the exporter did not finish at shutdown");
        }
    }
}

/// The exporter's thread waits for each batch, so its client is a blocking one, which must not be built within a runtime.
fn client(http: reqwest::ClientBuilder) -> Result<reqwest::blocking::Client, TelemetryError> {
    let builder = reqwest::blocking::ClientBuilder::from(http).timeout(EXPORT_TIMEOUT);
    let built = std::thread::spawn(|| builder.build()).join();
    let built = built.map_err(|_| TelemetryError::Client("building the HTTP client failed".to_owned()))?;
    built.map_err(|error| TelemetryError::Client(error.to_string()))
}

/// Makes the caller's span the parent of `span`, if the caller sent a valid `traceparent` and spans are recorded. To be
/// called before the span is entered.
pub fn set_remote_parent(span: &Span, caller: Option<TraceParent>) {
    let Some(TraceParent(caller)) = caller else { return };
    // Fails if spans are not recorded, and then there is no trace to join.
    _ = span.set_parent(opentelemetry::Context::new().with_remote_span_context(caller));
}

/// The `traceparent` for calls made within `span`: the span itself if spans are recorded, else what the caller sent.
pub fn upstream_parent(span: &Span, caller: Option<TraceParent>) -> Option<TraceParent> {
    let context = span.context();
    let current = context.span();
    let current = current.span_context();
    if current.is_valid() { Some(TraceParent(current.clone())) } else { caller }
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::TracerProvider;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tracing_subscriber::layer::SubscriberExt;

    use super::{TraceParent, set_remote_parent, upstream_parent};

    const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn without_spans_the_callers_word_is_handed_on() {
        let caller = TraceParent::parse(CALLER);
        let span = tracing::info_span!("request");
        set_remote_parent(&span, caller.clone());
        assert_eq!(upstream_parent(&span, caller.clone()), caller);
        assert_eq!(upstream_parent(&span, None), None);
    }

    #[test]
    fn with_spans_ours_stands_below_the_callers() {
        let provider = SdkTracerProvider::builder().build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let caller = TraceParent::parse(CALLER).expect("valid");
            let span = tracing::info_span!("request");
            set_remote_parent(&span, Some(caller.clone()));
            let ours = upstream_parent(&span, Some(caller.clone())).expect("a span");
            assert_eq!(ours.0.trace_id(), caller.0.trace_id());
            assert!(ours.0.is_sampled());
            assert_ne!(ours.0.span_id(), caller.0.span_id());

            let root = upstream_parent(&tracing::info_span!("request"), None).expect("a span");
            assert_ne!(root.0.trace_id(), caller.0.trace_id());
        });
    }
}
