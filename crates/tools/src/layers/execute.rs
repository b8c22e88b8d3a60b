//! The innermost service: hands the call to its executor.

use std::borrow::Cow;
use std::sync::Arc;

use tower::Service;

use super::{ToolFuture, ToolRequest, always_ready};
use crate::callback::Callback;
use crate::error::ToolError;
use crate::executor::ToolExecutor;
use crate::output::{ToolOutcome, ToolOutput};
use crate::question::RequiredInput;

/// Calls one executor.
#[derive(Clone)]
pub(crate) struct Execute {
    executor: Arc<dyn ToolExecutor>,
    id: Arc<str>,
    /// The executor's own name of the tool, if the catalogue uses another.
    name: Option<Arc<str>>,
}

impl Execute {
    pub(crate) fn new(executor: Arc<dyn ToolExecutor>, id: Arc<str>, name: Option<Arc<str>>) -> Self {
        Self { executor, id, name }
    }
}

impl Service<ToolRequest> for Execute {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        let Self { executor, id, name } = self.clone();
        Box::pin(async move {
            request.trace.record_attempt(&id);
            let mut call = Cow::Borrowed(&*request.call);
            if let Some(name) = name {
                name.as_ref().clone_into(&mut call.to_mut().name);
            }
            if let Some(callback) = callback(&request) {
                call.to_mut().callback = Some(callback);
            }
            let mut output = match executor.execute(&call, &request.context, &request.progress).await? {
                ToolOutcome::Done(output) => output,
                ToolOutcome::Async { handle, say } if call.callback.is_some() => {
                    tracing::info!(
                        tool = request.plan.qualified_name(),
                        handle,
                        "tool call goes on after its answer"
                    );
                    ToolOutput { is_async: true, ..say }
                }
                ToolOutcome::Async { .. } => return Err(not_awaited()),
                ToolOutcome::RequiresInput(required) if call.asker.is_some() => {
                    let executor = Arc::clone(&id);
                    let requires_input = Some(Box::new(RequiredInput { executor, ..required }));
                    ToolOutput { requires_input, ..ToolOutput::default() }
                }
                ToolOutcome::RequiresInput(_) => {
                    return Err(ToolError::failed("the tool asks the user, whom the client cannot ask"));
                }
            };
            if output.is_async && call.callback.is_none() {
                return Err(not_awaited());
            }
            if let Some(task) = &mut output.task {
                task.executor = Arc::clone(&id);
            }
            output.meta.executor = Some(id);
            Ok(output)
        })
    }
}

/// Where the result of a call is reported that may go on: of a tool for which that is allowed, in a run that is stored.
fn callback(request: &ToolRequest) -> Option<Callback> {
    let key = request.call.key.as_ref().filter(|_| request.plan.may_go_on)?;
    let to = request.context.completions.as_ref()?;
    Some(Callback::new(key.clone(), Arc::clone(to)))
}

fn not_awaited() -> ToolError {
    ToolError::failed(
        "the tool has started work in the background, and nothing waits for its result: that is not allowed for this tool, or \
         the response is not stored",
    )
}
