//! In which order the layers lie around a call. The only place that says so.

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
use super::layers::policy::Gate;
use super::layers::retry::Retry;
use super::layers::returns::Returns;
use super::layers::timeout::Timeout;
use super::layers::truncate::Truncate;
use super::layers::validate::Validate;
use super::plan::BackendState;
use super::policy::AccessPolicy;
use super::result_store::ResultStore;
use super::router::Router;
use crate::telemetry::metrics::Metrics;

/// The way of every call to its router.
pub(super) type Stack = Observe<
    Cancel<OnFailure<Gate<Validate<Budgeted<Journaled<Truncate<Cached<Returns<Timeout<Retry<Router>>>>>>>>>>>,
>;

/// The way from the router to one executor.
pub(super) type BackendStack = Breaker<Concurrency<Concurrency<AttemptTimeout<PanicGuard<Execute>>>>>;

/// What the stack needs beside each tool's own settings.
pub(super) struct StackParts {
    pub metrics: Arc<Metrics>,
    pub policy: Arc<AccessPolicy>,
    pub cache: Arc<ResultCache>,
    pub results: Arc<ResultStore>,
    pub catalog: CurrentCatalog,
}

/// One stack for all tools, from the outside to the inside.
pub(super) fn stack(parts: StackParts) -> Stack {
    let StackParts { metrics, policy, cache, results, catalog } = parts;
    let cache_metrics = Arc::clone(&metrics);
    ServiceBuilder::new()
        // Outermost: every call leaves a trace, however it ends.
        .layer(layer_fn(|inner| Observe::new(inner, Arc::clone(&metrics))))
        // Around all that waits. Outside the journal: what is dropped half-way has an unknown outcome.
        .layer(layer_fn(Cancel::new))
        // Sees every failure that is the tool's, and no cancellation.
        .layer(layer_fn(|inner| OnFailure::new(inner, catalog.clone())))
        // Before anything is read: who may not call it learns nothing of its schema.
        .layer(layer_fn(|inner| Gate::new(inner, Arc::clone(&policy))))
        // Before the budget: a call that cannot be made costs none.
        .layer(layer_fn(Validate::new))
        // Up to here nothing waits, so calls are counted in the order in which they are made.
        .layer(layer_fn(Budgeted::new))
        // Around all that may have an effect, and keeps what the model will read.
        .layer(layer_fn(Journaled::new))
        // Around the cache: what is cut is kept for its caller, and a cached result may be another caller's.
        .layer(layer_fn(|inner| Truncate::new(inner, Arc::clone(&results), Arc::clone(&policy))))
        // Around the checks of results: only what has passed them is used again.
        .layer(layer_fn(|inner| Cached::new(inner, Arc::clone(&cache), Arc::clone(&cache_metrics))))
        // Outside the retries: the same call would give the same wrong result.
        .layer(layer_fn(Returns::new))
        // Around retries and waits: the whole call takes no longer than was promised.
        .layer(layer_fn(Timeout::new))
        // Around the router: a repetition may find another executor.
        .layer(layer_fn(Retry::new))
        .service(Router)
}

/// What lies around one executor of a tool, from the outside to the inside.
pub(super) fn backend_stack(
    executor: Arc<dyn ToolExecutor>,
    id: Arc<str>,
    name: Option<Arc<str>>,
    state: &Arc<BackendState>,
) -> BackendStack {
    ServiceBuilder::new()
        // Before the queue: nobody waits for what is known to be down.
        .layer(layer_fn(|inner| Breaker::new(inner, Arc::clone(state))))
        // Within the timeout, so that waiting has an end. The tool's own queue first: who waits for a tool
        // must not hold a place that the executor's other tools could use.
        .layer(layer_fn(|inner| Concurrency::new(inner, state.tool_semaphore.clone())))
        .layer(layer_fn(|inner| Concurrency::new(inner, state.executor_semaphore.clone())))
        // Behind the queues: an attempt begins when it is its turn.
        .layer(layer_fn(|inner| AttemptTimeout::new(inner, state.attempt_timeout)))
        // Innermost: only the tool's own panics are its fault, and permits are returned as after any error.
        .layer(layer_fn(PanicGuard::new))
        .service(Execute::new(executor, id, name))
}
