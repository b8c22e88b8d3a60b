//! What the tests and benchmarks of this repository reach inside. It is promised to nobody else and may change with any
//! commit.

pub mod bus {
    #[cfg(feature = "nats")]
    pub use antwort_bus::NatsOptions;
    pub use antwort_bus::{Bus, RunWatch};
}

pub mod engine {
    pub use antwort_engine::{RecoveredRun, Recovery, Webhooks};
}

pub mod mcp {
    pub use antwort_mcp::connection::*;
    pub use antwort_mcp::credentials::StaticHeaders;
    pub use antwort_mcp::{Client, ClientOptions};
}

pub mod net {
    pub use antwort_net::client::{HttpClientOptions, Proxies, ProxyError, ProxyUrl};
    pub use antwort_net::egress::{Egress, EgressError, EgressOptions, Resolver};
    pub use antwort_net::sse::Decoder;
}

pub mod copy {
    pub use antwort_store_copy::*;
}

#[cfg(feature = "postgres")]
pub mod postgres {
    pub use antwort_store_postgres::*;
}

pub mod protocol {
    pub use antwort_protocol::dialect::Dialect;
    pub use antwort_protocol::error::ErrorBody;
    pub use antwort_protocol::event::EventEncoder;
    pub use antwort_protocol::item::hosted::McpCall;
    pub use antwort_protocol::request::{
        COMPACTION_FIELDS, CreateResponse, DefaultValue, FIELDS, NO_OPS, REQUEST_OBJECTS, RefusedField,
        RequestObject, RequestSizeLimits, Truncation,
    };
}

pub mod provider {
    pub use antwort_provider::chat::Translator;
}

pub mod response {
    pub use antwort_response::machine::*;
    pub use antwort_response::presentation::Presentation;
    pub use antwort_response::presentation::web_search_call::PRESENTER as WEB_SEARCH;
    pub use antwort_response::seal::SealKeys;
    pub use antwort_response::turn::{CallKind, FinishReason, ModelEvent, ProviderFields, ProviderState};
}

pub mod sqlite {
    pub use antwort_store_sqlite::*;
}

pub mod telemetry {
    pub use antwort_telemetry::fields::ALL as LOG_FIELDS;
    pub use antwort_telemetry::metrics::{Description, Metrics};
}

pub mod transport {
    pub use crate::transport::client_profile::PROFILES;
    pub use crate::transport::route_table::{API_PREFIXES, API_ROUTES, Access, SERVICE_ROUTES};
}
