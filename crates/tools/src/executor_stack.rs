//! The layers around one executor of a tool, inside those of `stack`: the only place that defines their order.

use std::sync::Arc;

use tower::ServiceBuilder;
use tower::layer::layer_fn;

use super::executor::ToolExecutor;
use super::executor_state::ExecutorState;
use super::layers::attempt::AttemptTimeout;
use super::layers::breaker::Breaker;
use super::layers::concurrency::Concurrency;
use super::layers::execute::Execute;
use super::layers::panic::PanicGuard;

/// The layers from the router to one executor.
pub(super) type ExecutorStack = Breaker<Concurrency<Concurrency<AttemptTimeout<PanicGuard<Execute>>>>>;

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
