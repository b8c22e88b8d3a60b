//! The innermost service: hands the call to its executor.

use std::borrow::Cow;
use std::sync::Arc;

use tower::Service;

use super::{ToolFuture, ToolRequest, always_ready};
use crate::tools::call::ToolCall;
use crate::tools::executor::ToolExecutor;
use crate::tools::output::ToolOutcome;

/// Calls one executor.
#[derive(Clone)]
pub(in crate::tools) struct Execute {
    executor: Arc<dyn ToolExecutor>,
    id: Arc<str>,
    /// The executor's own name of the tool, if the catalogue uses another.
    name: Option<Arc<str>>,
}

impl Execute {
    pub(in crate::tools) fn new(
        executor: Arc<dyn ToolExecutor>,
        id: Arc<str>,
        name: Option<Arc<str>>,
    ) -> Self {
        Self { executor, id, name }
    }
}

impl Service<ToolRequest> for Execute {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        let Self { executor, id, name } = self.clone();
        Box::pin(async move {
            request.trace.record_attempt(&id);
            let call: Cow<'_, ToolCall> = match name {
                Some(name) => {
                    Cow::Owned(ToolCall { name: name.as_ref().to_owned(), ..(*request.call).clone() })
                }
                None => Cow::Borrowed(&request.call),
            };
            let ToolOutcome::Done(mut output) =
                executor.execute(&call, &request.context, &request.progress).await?;
            output.meta.executor = Some(id);
            Ok(output)
        })
    }
}
