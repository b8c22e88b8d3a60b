//! The middleware stack around every tool call: the only place that defines the order of the layers.

use std::sync::Arc;

use tower::ServiceBuilder;
use tower::layer::layer_fn;

use super::layers::budget::Budgeted;
use super::layers::cache::{Cached, ResultCache};
use super::layers::cancel::Cancel;
use super::layers::journal::Journaled;
use super::layers::observe::Observe;
use super::layers::on_error::{FindFallback, OnFailure};
use super::layers::policy::Authorize;
use super::layers::retry::Retry;
use super::layers::returns::Returns;
use super::layers::timeout::Timeout;
use super::layers::truncate::Truncate;
use super::layers::validate::Validate;
use super::policy::AccessPolicy;
use super::result_store::ResultStore;
use super::router::{Route, Router};
use antwort_telemetry::metrics::Metrics;

/// The layers from a call to its router.
pub(super) type Stack = Observe<
    Cancel<
        OnFailure<
            Authorize<Validate<Budgeted<Journaled<Truncate<Cached<Returns<Timeout<Retry<Router>>>>>>>>>,
        >,
    >,
>;

/// Builds the stack of each tool from what the layers of all tools share.
#[derive(Clone)]
pub struct StackBuilder {
    pub(super) metrics: Arc<Metrics>,
    pub(super) policy: Arc<AccessPolicy>,
    pub(super) cache: Arc<ResultCache>,
    pub(super) results: Arc<ResultStore>,
    pub(super) find_fallback: FindFallback,
}

impl StackBuilder {
    /// The layers around a tool's route, outermost first.
    pub(super) fn build(&self, route: Arc<Route>) -> Stack {
        let Self { metrics, policy, cache, results, find_fallback } = self;
        ServiceBuilder::new()
            // Outermost: every call is traced, measured and audited, however it ends.
            .layer(layer_fn(|inner| Observe::new(inner, Arc::clone(metrics))))
            // Around everything that waits. Outside the journal: a call dropped half-way has an unknown outcome.
            .layer(layer_fn(Cancel::new))
            // Sees every failure of the tool, but no cancellation.
            .layer(layer_fn(|inner| OnFailure::new(inner, Arc::clone(find_fallback))))
            // Before arguments are parsed: a caller without access learns nothing about the schema.
            .layer(layer_fn(|inner| Authorize::new(inner, Arc::clone(policy))))
            // Before the budget: an invalid call does not consume any.
            .layer(layer_fn(Validate::new))
            // No layer up to here waits, so calls are counted in the order in which they are made.
            .layer(layer_fn(Budgeted::new))
            // Around everything that may have side effects; records what the model will read.
            .layer(layer_fn(Journaled::new))
            // Around the cache: the full text is stored for this caller, while a cached result is shared by callers.
            .layer(layer_fn(|inner| Truncate::new(inner, Arc::clone(results), Arc::clone(policy))))
            // Around the validation of results: only valid ones are cached.
            .layer(layer_fn(|inner| Cached::new(inner, Arc::clone(cache), Arc::clone(metrics))))
            // Outside the retries: repeating the call would return the same invalid result.
            .layer(layer_fn(Returns::new))
            // Around retries and queues: the timeout covers the whole call.
            .layer(layer_fn(Timeout::new))
            // Around the router: a retry may reach another executor.
            .layer(layer_fn(Retry::new))
            .service(Router::new(route))
    }
}
