//! What transports call. Each method is the function of the module that it names; those with large arguments return its future, which has
//! them once.

use std::sync::Arc;

use super::background::{Queued, submit, work};
use super::callbacks::{self, OpenedCallback};
use super::cancel::{self, Cancelled};
use super::context::{EngineParts, RunContext};
use super::conversations::{self, AddedTexts};
use super::follow::{self, Follower};
use super::in_flight::AdmittedRequest;
use super::keyed::{self, Keyed};
use super::recover::Recovery;
use super::run_handle::RunHandle;
use super::task_polls;
use super::token_count::{self, TokenCount};
use super::{client_tools, completed_calls, inputs, progress, start};
use antwort_config::StorePolicy;
use antwort_identity::{Owner, Requester};
use antwort_protocol::error::ApiError;
use antwort_protocol::id::Id;
use antwort_protocol::request::{
    AddItems, CreateConversation, CreateResponse, ResponseInput, UnservedField, UpdateConversation,
};
use antwort_store::{ClaimedJob, DueTask, IdempotencyKey, StoreError, StoredConversation, TenantRuns};

/// Starts responses, and acts on those that there are.
pub struct Engine {
    parts: Arc<EngineParts>,
}

impl Engine {
    /// An engine of these parts.
    pub fn new(parts: EngineParts) -> Arc<Self> {
        Arc::new(Self { parts: Arc::new(parts) })
    }

    /// Whether the work of any tool may go on after its call, so that a request may have to be continued.
    pub fn has_async_tools(&self) -> bool {
        start::has_async_tools(&self.parts)
    }

    /// Waits for a permit of the run semaphore, at most `server.queue_timeout`. The request is in flight until the
    /// returned value is dropped. Also used by routes that run tools without a response.
    pub async fn admit(&self, requester: &Requester) -> Result<AdmittedRequest, ApiError> {
        start::admit(&self.parts, requester).await
    }

    /// Starts a run once it is admitted, whose events the caller reads.
    pub fn start(
        &self,
        request: Box<CreateResponse>,
        caller: RunContext,
    ) -> impl Future<Output = Result<RunHandle, ApiError>> + Send {
        start::start(&self.parts, request, caller)
    }

    /// Starts a run with this key, or finds what the key has led to.
    pub fn start_keyed(
        &self,
        request: Box<CreateResponse>,
        caller: RunContext,
        key: IdempotencyKey,
    ) -> impl Future<Output = Result<Keyed<RunHandle>, ApiError>> + Send {
        keyed::start_keyed(&self.parts, request, caller, key)
    }

    /// Whether the run of this request asks its client. If so, [`Self::submit`] takes it, which also says why it cannot.
    pub fn asks_client(&self, request: &CreateResponse, policy: StorePolicy) -> bool {
        client_tools::asks_client(&self.parts, request, policy)
    }

    /// Queues a run of this request, whose body is `text`.
    pub fn submit(
        &self,
        request: Box<CreateResponse>,
        text: String,
        caller: RunContext,
        key: Option<IdempotencyKey>,
    ) -> impl Future<Output = Result<Keyed<Queued>, ApiError>> + Send {
        submit::submit(&self.parts, request, text, caller, key)
    }

    /// Makes a claimed run to its end, or gives it back.
    pub async fn work(&self, job: ClaimedJob) {
        work::work(&self.parts, job).await;
    }

    /// How many background runs this process makes at a time.
    pub fn max_jobs(&self) -> usize {
        start::max_jobs(&self.parts)
    }

    /// How many of them may be of one tenant: half of them as soon as there are others, unless the operator says it.
    pub fn jobs_of_tenant(&self) -> TenantRuns {
        start::jobs_of_tenant(&self.parts)
    }

    /// A response object as it was stored; if it is being made and its events are logged, with what is done of it by now.
    /// The error is [`StoreError::TooLarge`] if it has more than `max_bytes`.
    pub async fn response(
        &self,
        owner: &Owner,
        id: &str,
        max_bytes: u64,
    ) -> Result<Option<Arc<str>>, StoreError> {
        progress::response(&self.parts, owner, id, max_bytes).await
    }

    /// Follows a response from the event behind this one on, or from the first.
    pub async fn follow(
        &self,
        owner: &Owner,
        id: Id,
        starting_after: Option<u64>,
    ) -> Result<Option<Follower>, ApiError> {
        follow::follow(&self.parts, owner, id, starting_after).await
    }

    /// Stores an answer, and lets the run go on if it was the last that it has waited for. `None`: the owner has no such
    /// response.
    pub async fn answer_input(
        &self,
        requester: Requester,
        owner: &Owner,
        id: &str,
        input: ResponseInput,
    ) -> Result<Option<()>, ApiError> {
        inputs::answer_input(&self.parts, requester, owner, id, input).await
    }

    /// Cancels a response, and returns when it is stored in its final state.
    pub async fn cancel(&self, owner: &Owner, id: &Id) -> Result<Cancelled, ApiError> {
        cancel::cancel(&self.parts, owner, id).await
    }

    /// Deletes a response. Servers are told that nobody waits for the results of its calls that go on as tasks.
    pub async fn delete_response(&self, owner: &Owner, id: &Id) -> Result<bool, StoreError> {
        task_polls::delete_response(&self.parts, owner, id).await
    }

    /// The call that a callback is for.
    ///
    /// # Errors
    /// 404 if the gateway has not made the token, 410 if it has expired.
    pub fn open_callback(&self, token: &str) -> Result<OpenedCallback, ApiError> {
        callbacks::open_callback(&self.parts, token)
    }

    /// Stores the result of a call. The first one counts.
    ///
    /// # Errors
    /// 404 if the response is gone; 413 if the result is larger than an item may be.
    pub async fn complete_call(
        &self,
        callback: OpenedCallback,
        result: Result<String, String>,
    ) -> Result<(), ApiError> {
        callbacks::complete_call(&self.parts, callback, result).await
    }

    /// Ends the runs of processes that are gone, in the store of this engine.
    pub fn recovery(&self) -> Recovery {
        Recovery::of(&self.parts)
    }

    /// Settles the calls that have a result, or will get none, of responses that have ended. Returns whether there may be
    /// more.
    pub async fn settle_completed_calls(&self) -> Result<bool, StoreError> {
        completed_calls::settle_completed_calls(&self.parts).await
    }

    /// At most `limit` calls whose results are to be looked for now, by nobody but this process.
    pub async fn due_tasks(&self, limit: usize) -> Result<Vec<DueTask>, StoreError> {
        task_polls::due_tasks(&self.parts, limit).await
    }

    /// Looks for the result of a call.
    pub async fn poll_task(&self, due: DueTask) {
        task_polls::poll_task(&self.parts, due).await;
    }

    /// Judges the fields of declared tools that have no effect: refuses them, or returns the paths of the ignored ones.
    pub fn judge_unserved(
        &self,
        found: Vec<UnservedField>,
        caller: &RunContext,
    ) -> Result<Vec<String>, ApiError> {
        conversations::judge_unserved(&self.parts, found, caller)
    }

    /// Creates a conversation.
    pub async fn create_conversation(
        &self,
        request: CreateConversation,
        caller: &RunContext,
    ) -> Result<StoredConversation, ApiError> {
        conversations::create_conversation(&self.parts, request, caller).await
    }

    /// Replaces the metadata of a conversation.
    pub async fn update_conversation(
        &self,
        id: &str,
        request: &UpdateConversation,
        caller: &RunContext,
    ) -> Result<StoredConversation, ApiError> {
        conversations::update_conversation(&self.parts, id, request, caller).await
    }

    /// Adds items to a conversation. Returns them as they are stored.
    pub async fn add_conversation_items(
        &self,
        id: &str,
        request: AddItems,
        caller: &RunContext,
    ) -> Result<AddedTexts, ApiError> {
        conversations::add_conversation_items(&self.parts, id, request, caller).await
    }

    /// Counts the tokens of the prompt that the request would make, once it is admitted as a run is.
    pub async fn count_tokens(
        &self,
        request: Box<CreateResponse>,
        caller: RunContext,
    ) -> Result<TokenCount, ApiError> {
        token_count::count_tokens(&self.parts, request, caller).await
    }
}
