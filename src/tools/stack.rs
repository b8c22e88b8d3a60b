//! The middleware stack around every tool call: the only place that defines the order of the layers.

use std::sync::Arc;

use tower::ServiceBuilder;
use tower::layer::layer_fn;

use super::executor::ToolExecutor;
use super::layers::attempt::AttemptTimeout;
use super::layers::breaker::Breaker;
use super::layers::budget::Budgeted;
use super::layers::cache::{Cached, ResultCache};
use super::layers::cancel::Cancel;
use super::layers::concurrency::Concurrency;
use super::layers::execute::Execute;
use super::layers::journal::Journaled;
use super::layers::observe::Observe;
use super::layers::on_error::{CurrentCatalog, OnFailure};
use super::layers::panic::PanicGuard;
use super::layers::policy::Authorize;
use super::layers::retry::Retry;
use super::layers::returns::Returns;
use super::layers::timeout::Timeout;
use super::layers::truncate::Truncate;
use super::layers::validate::Validate;
use super::plan::ExecutorState;
use super::policy::AccessPolicy;
use super::result_store::ResultStore;
use super::router::Router;
use crate::telemetry::metrics::Metrics;

/// The layers from a call to its router.
pub(super) type Stack = Observe<
    Cancel<
        OnFailure<
            Authorize<Validate<Budgeted<Journaled<Truncate<Cached<Returns<Timeout<Retry<Router>>>>>>>>>,
        >,
    >,
>;

/// The layers from the router to one executor.
pub(super) type ExecutorStack = Breaker<Concurrency<Concurrency<AttemptTimeout<PanicGuard<Execute>>>>>;

/// What the layers share, beside each tool's own settings.
pub(super) struct StackParts {
    pub metrics: Arc<Metrics>,
    pub policy: Arc<AccessPolicy>,
    pub cache: Arc<ResultCache>,
    pub results: Arc<ResultStore>,
    pub catalog: CurrentCatalog,
}

/// One stack for all tools, outermost layer first.
pub(super) fn stack(parts: StackParts) -> Stack {
    let StackParts { metrics, policy, cache, results, catalog } = parts;
    let cache_metrics = Arc::clone(&metrics);
    ServiceBuilder::new()
        // Outermost: every call is traced, measured and audited, however it ends.
        .layer(layer_fn(|inner| Observe::new(inner, Arc::clone(&metrics))))
        // Around everything that waits. Outside the journal: a call dropped half-way has an unknown outcome.
        .layer(layer_fn(Cancel::new))
        // Sees every failure of the tool, but no cancellation.
        .layer(layer_fn(|inner| OnFailure::new(inner, catalog.clone())))
        // Before arguments are parsed: a caller without access learns nothing about the schema.
        .layer(layer_fn(|inner| Authorize::new(inner, Arc::clone(&policy))))
        // Before the budget: an invalid call does not consume any.
        .layer(layer_fn(Validate::new))
        // No layer up to here waits, so calls are counted in the order in which they are made.
        .layer(layer_fn(Budgeted::new))
        // Around everything that may have side effects; records what the model will read.
        .layer(layer_fn(Journaled::new))
        // Around the cache: the full text is stored for this caller, while a cached result is shared by callers.
        .layer(layer_fn(|inner| Truncate::new(inner, Arc::clone(&results), Arc::clone(&policy))))
        // Around the validation of results: only valid ones are cached.
        .layer(layer_fn(|inner| Cached::new(inner, Arc::clone(&cache), Arc::clone(&cache_metrics))))
        // Outside the retries: repeating the call would return the same invalid result.
        .layer(layer_fn(Returns::new))
        // Around retries and queues: the timeout covers the whole call.
        .layer(layer_fn(Timeout::new))
        // Around the router: a retry may reach another executor.
        .layer(layer_fn(Retry::new))
        .service(Router)
}

/// The layers around one executor of a tool, outermost first.
pub(super) fn executor_stack(
    executor: Arc<dyn ToolExecutor>,
    id: Arc<str>,
    name: Option<Arc<str>>,
    state: &Arc<ExecutorState>,
) -> ExecutorStack {
    ServiceBuilder::new()
        // Before the queues: no call waits for an executor whose circuit is open.
        .layer(layer_fn(|inner| Breaker::new(inner, Arc::clone(state))))
        // Inside the timeout, so that waiting is bounded. The tool's semaphore first: a call that waits for its tool
        // must not hold a permit that other tools of the executor could use.
        .layer(layer_fn(|inner| Concurrency::new(inner, state.tool_semaphore.clone())))
        .layer(layer_fn(|inner| Concurrency::new(inner, state.executor_semaphore.clone())))
        // After the queues: the attempt starts when the call leaves them.
        .layer(layer_fn(|inner| AttemptTimeout::new(inner, state.attempt_timeout)))
        // Innermost: catches the tool's own panics only, and permits are released as after any error.
        .layer(layer_fn(PanicGuard::new))
        .service(Execute::new(executor, id, name))
}
