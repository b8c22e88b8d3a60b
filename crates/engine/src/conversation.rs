//! Limits the size of a conversation before it is read: stored history, referred items and input together count
//! against `engine.max_conversation_bytes`, and the memory that a run takes for them against the share of its tenant
//! and key.

use super::context::{EngineParts, RunContext};
use antwort_identity::Requester;
use antwort_limits::{CONVERSATION_COPIES, Permit, Resource};
use antwort_protocol::error::ApiError;
use antwort_protocol::request::CreateResponse;
use antwort_store::{ReadLimit, StoreError};

/// Up to this size, stored items are read without a permit: most conversations are smaller.
const UNRESERVED_BYTES: u64 = 64 << 10;

/// How many bytes of conversation a request may still load.
pub(super) struct ConversationBudget<'a> {
    conversations: &'a Resource,
    requester: Requester,
    /// `engine.max_conversation_bytes`.
    max: usize,
    left: u64,
    /// The field that the error names: the one that most of the conversation is due to.
    param: &'static str,
    permits: Vec<Permit>,
}

impl<'a> ConversationBudget<'a> {
    /// Starts with the size of the input.
    pub(super) fn new(
        parts: &'a EngineParts,
        caller: &RunContext,
        request: &CreateResponse,
    ) -> Result<Self, ApiError> {
        let max = parts.options.engine.max_conversation_bytes;
        let mut budget = Self {
            conversations: &parts.admission.conversations,
            requester: caller.requester(),
            max,
            left: max as u64,
            param: match request {
                CreateResponse { previous_response_id: Some(_), .. } => "previous_response_id",
                CreateResponse { conversation: Some(_), .. } => "conversation",
                _ => "input",
            },
            permits: Vec::new(),
        };
        budget.left =
            budget.left.checked_sub(request.input_bytes as u64).ok_or_else(|| budget.too_large())?;
        Ok(budget)
    }

    /// Reads a part of the conversation after acquiring memory for it. It is measured before it is read.
    pub(super) async fn read<T, F: Future<Output = Result<T, StoreError>>>(
        &mut self,
        read: impl Fn(ReadLimit) -> F,
    ) -> Result<T, ApiError> {
        let mut limit =
            ReadLimit { max_read_bytes: self.left.min(UNRESERVED_BYTES), max_count_bytes: self.left };
        loop {
            match read(limit).await {
                Err(StoreError::TooLarge { bytes }) if bytes > self.left => return Err(self.too_large()),
                Err(StoreError::TooLarge { bytes }) => {
                    let held = bytes.saturating_mul(CONVERSATION_COPIES);
                    self.permits.push(self.conversations.acquire(&self.requester, held).await?);
                    self.left -= bytes;
                    limit =
                        ReadLimit { max_read_bytes: bytes, max_count_bytes: bytes.saturating_add(self.left) };
                }
                result => return Ok(result?),
            }
        }
    }

    /// Counts what was read beside the conversation.
    pub(super) fn add(&mut self, bytes: usize) -> Result<(), ApiError> {
        self.left = self.left.checked_sub(bytes as u64).ok_or_else(|| self.too_large())?;
        Ok(())
    }

    /// Bytes of the conversation so far, with its input.
    pub(super) fn used(&self) -> u64 {
        self.max as u64 - self.left
    }

    /// The memory permits, which the run holds until its end.
    pub(super) fn into_permits(self) -> Vec<Permit> {
        self.permits
    }

    fn too_large(&self) -> ApiError {
        ApiError::invalid(
            "context_length_exceeded",
            self.param,
            format!(
                "The conversation (stored history, referred items and input) is larger than the {} bytes that it may \
                 be (engine.max_conversation_bytes). Shorten or compact it, or begin a new one.",
                self.max
            ),
        )
    }
}
