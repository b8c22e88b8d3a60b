//! A random content of everything that a store holds, and all that is read of it.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use antwort::protocol::id::{Id, IdGenerator};
use antwort::protocol::response::ResponseStatus;
use antwort::store::{
    ApprovalClaim, AsyncCallKey, AsyncOutcome, AsyncResult, CallOutcome, CancelRequest, ContextRole,
    ConversationItem, ConversationRecord, ConversationTurn, Direction, IdempotencyKey, JournaledCall, Lease,
    LogEnd, LoggedEvents, LoggedRun, ModelView, NewJob, NewPendingCall, OutboxNotice, Owner, PageRequest,
    PendingApproval, PendingSource, PolledTask, ReadLimit, ResponseRecord, StartedCall, StateKey, Store,
    StoredItem, StoredState, TurnRecord,
};

use super::{message, message_json, owned_by, record};

/// What was written.
#[derive(Default)]
pub(super) struct Content {
    pub responses: Vec<ResponseRecord>,
    keyed: Vec<LoggedRun>,
    approvals: Vec<PendingApproval>,
    conversations: Vec<(Owner, String)>,
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn chance(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    fn owner(&mut self) -> Owner {
        match self.below(4) {
            0 => owned_by("acme", "bob"),
            1 => owned_by("other\0", "ann"),
            2 => owned_by("", "Ünï\u{1f600}"),
            _ => owned_by("acme", "ann"),
        }
    }

    fn text(&mut self) -> String {
        let words = ["a\0b", "\u{1f600}", "\"quoted\"", "plain", "", "\u{7f}\n"];
        let most = if self.chance(9) { 2_000 } else { 6 };
        let length = self.below(most);
        (0..length).map(|_| words[self.below(6) as usize]).collect()
    }

    fn item(&mut self, owner: &Owner) -> StoredItem {
        let side = if self.chance(2) { Direction::Input } else { Direction::Output };
        let mut item = message(side, &self.text());
        if self.chance(4) {
            // As long as an id may be that a client sends, and longer than an index takes.
            item.id = format!("{}{}", "i".repeat(300), item.id).into();
        }
        item.model_view = match self.below(4) {
            0 => ModelView::Hidden,
            1 => ModelView::Override(message_json(&item.id, side, &self.text())),
            _ => ModelView::Same,
        };
        if self.chance(3) {
            let key = StateKey::new(owner, item.id.as_str());
            item.state = Some(StoredState { key, blob: format!("sealed {}", self.text()).into() });
        }
        item
    }

    fn items(&mut self, owner: &Owner, most: u64) -> Vec<StoredItem> {
        (0..self.below(most)).map(|_| self.item(owner)).collect()
    }

    fn response(&mut self, owner: &Owner, previous: Option<&ResponseRecord>) -> ResponseRecord {
        let mut made = record();
        if self.chance(5) {
            made.lease = Lease::first(format!("imported\0 {}", self.0).into());
        }
        made.owner = owner.clone();
        made.model = self.text();
        made.body = format!("{{\"id\":{:?},\"text\":{:?}}}", made.lease.id.as_str(), self.text()).into();
        let statuses = [ResponseStatus::Completed, ResponseStatus::Failed, ResponseStatus::Incomplete];
        made.status = statuses[self.below(3) as usize];
        made.previous = previous.filter(|_| self.chance(2)).map(|record| record.lease.id.clone());
        made.items = self.items(owner, 6);
        made
    }
}

/// Writes a content of this seed.
pub(super) async fn fill(store: &dyn Store, seed: u64) -> Content {
    let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let mut content = Content::default();
    for _ in 0..40 {
        let owner = random.owner();
        let previous = content.responses.iter().rev().find(|record| record.owner == owner).cloned();
        let record = random.response(&owner, previous.as_ref());
        store.finish(record.clone()).await.unwrap();
        add_async_calls(store, &mut random, &record).await;
        content.responses.push(record);
    }
    for _ in 0..8 {
        let run = add_run(store, &mut random).await;
        content.responses.push(run);
    }
    for _ in 0..8 {
        let conversation = add_conversation(store, &mut random, &mut content.responses).await;
        content.conversations.push(conversation);
    }
    for number in 0..10 {
        add_jobs(store, &mut random).await;
        let run = add_keyed(store, &mut random, number).await;
        content.responses.push(run.record.clone());
        content.keyed.push(run);
        let approval = add_approval(store, &mut random, &content.responses).await;
        content.approvals.push(approval);
    }
    // Both have ended, and have a key.
    for number in [20, 22] {
        let run = add_keyed(store, &mut random, number).await;
        assert!(store.delete(&run.record.owner, run.record.lease.id.as_str()).await.unwrap());
        content.keyed.push(run);
    }
    content
}

/// Calls of a response whose work goes on, some of them with results.
async fn add_async_calls(store: &dyn Store, random: &mut Random, record: &ResponseRecord) {
    for index in 0..random.below(3) as u32 {
        let (owner, response) = (record.owner.clone(), record.lease.id.clone());
        let key = AsyncCallKey { owner, response, turn: 0, index };
        let timeout = Duration::from_secs(3600);
        let spec = random.chance(2).then(|| Arc::from(random.text().into_bytes()));
        let item = Id::generate("mcp");
        let (tool, on_complete) = (random.text(), "store");
        let sealed = random.text().into_bytes().into();
        let task = random.chance(2).then_some(PolledTask { sealed, after: timeout });
        store
            .start_async(StartedCall { key: key.clone(), item, tool, on_complete, spec, timeout, task })
            .await
            .unwrap();
        if random.chance(2) {
            let error = random.chance(2).then_some("tool_failed");
            let result = AsyncResult { key, output: random.text(), error, timeout };
            assert_eq!(store.complete_async(result).await.unwrap(), AsyncOutcome::Stored);
        }
    }
}

/// A run that goes on, with turns and calls.
async fn add_run(store: &dyn Store, random: &mut Random) -> ResponseRecord {
    let owner = random.owner();
    let record = ResponseRecord { status: ResponseStatus::InProgress, ..random.response(&owner, None) };
    let state = random.chance(2).then(|| Arc::from(random.text().into_bytes()));
    store.begin(record.clone(), state).await.unwrap();
    for turn in 0..=random.below(3) as u32 {
        let call = |_| JournaledCall {
            server_label: "antwort".into(),
            tool: "say".into(),
            arguments: format!("{{\"turn\":{turn}}}\0"),
        };
        let calls: Vec<_> = (0..2).map(call).collect();
        let committed = TurnRecord {
            lease: record.lease.clone(),
            begin: None,
            items: random.items(&owner, 3),
            first_position: record.items.len(),
            turn,
            calls,
            pending: vec![pending_call(turn)],
            awaited: Vec::new(),
            state: None,
        };
        store.commit_turn(committed).await.unwrap();
        if random.chance(2) {
            let error = random.chance(2).then_some("tool_failed");
            let outcome =
                CallOutcome { lease: record.lease.clone(), turn, index: 1, output: random.text(), error };
            store.record_tool_result(outcome);
        }
    }
    record
}

fn pending_call(turn: u32) -> NewPendingCall {
    NewPendingCall {
        index: 2,
        source: PendingSource::Client,
        call_id: format!("call_{turn}"),
        tool: "ask".into(),
        request: format!("{{\"turn\":{turn}}}\0"),
        timeout: Duration::from_secs(3600),
    }
}

/// A conversation with items, and a response that was made in it.
async fn add_conversation(
    store: &dyn Store,
    random: &mut Random,
    responses: &mut Vec<ResponseRecord>,
) -> (Owner, String) {
    let owner = random.owner();
    let roles = [
        ContextRole::Plain,
        ContextRole::User { tokens: 7 },
        ContextRole::Instructions,
        ContextRole::Summary { with_trigger: false },
    ];
    let mut items = random.items(&owner, 8);
    // One that stays, so that the conversation has items.
    items.push(message(Direction::Input, "stays"));
    let items: Vec<_> = items
        .into_iter()
        .map(|item| ConversationItem { item, role: roles[random.below(4) as usize] })
        .collect();
    let first = items[0].item.id.clone();
    let made = ConversationRecord {
        id: Id::generate("conv"),
        owner: owner.clone(),
        created_at: 1_700_000_000,
        metadata: format!("{{\"a\":{:?}}}", random.text()).into(),
        items,
    };
    let id = made.id.to_string();
    store.create_conversation(made).await.unwrap();
    let mut response = random.response(&owner, None);
    let context = store.conversation_context(&owner, &id, ReadLimit::UNLIMITED).await.unwrap().unwrap();
    response.conversation = Some(ConversationTurn {
        id: id.as_str().into(),
        first: context.first,
        until: context.until,
        roles: vec![ContextRole::Plain; response.items.len()],
    });
    response.previous = None;
    store.finish(response.clone()).await.unwrap();
    responses.push(response);
    if random.chance(3) {
        store.delete_conversation_item(&owner, &id, first.as_str()).await.unwrap();
    }
    (owner, id)
}

/// A run with a key and a log, which has ended or not.
async fn add_keyed(store: &dyn Store, random: &mut Random, number: u32) -> LoggedRun {
    let owner = random.owner();
    let record = ResponseRecord { status: ResponseStatus::InProgress, ..random.response(&owner, None) };
    let key =
        IdempotencyKey { key: format!("key {number} {}", "k".repeat(200)).into(), fingerprint: [9; 32] };
    let events = |first, last| LoggedEvents { first, last, bytes: vec![0xff; 30 + first as usize] };
    let key = Some(key).filter(|_| !number.is_multiple_of(3));
    let run = LoggedRun { key, record, state: None, events: Some(events(0, 1)) };
    assert_eq!(store.begin_logged(run.clone()).await.unwrap(), None);
    store.log_events(&run.record.lease, events(2, 4)).await.unwrap();
    if number.is_multiple_of(2) {
        let notice =
            OutboxNotice { webhook: "hook".into(), event_id: Id::generate("evt"), body: "{}".into() };
        let ended =
            ResponseRecord { status: ResponseStatus::Completed, outbox: vec![notice], ..run.record.clone() };
        let end = LogEnd { keep_below: None, events: Some(events(5, 6)), is_unlisted: false };
        store.finish_logged(ended, end).await.unwrap();
    }
    run
}

/// A run that waits for a worker, and one that its owner wants to end.
async fn add_jobs(store: &dyn Store, random: &mut Random) {
    for is_cancelled in [false, true] {
        let owner = random.owner();
        let mut record = ResponseRecord { status: ResponseStatus::Queued, ..random.response(&owner, None) };
        if random.chance(2) {
            let id = format!("conv_{}", random.below(3)).as_str().into();
            record.conversation = Some(ConversationTurn { id, first: 0, until: 0, roles: Vec::new() });
        }
        let (id, events) = (record.lease.id.clone(), LoggedEvents { first: 0, last: 1, bytes: vec![1; 9] });
        let run = LoggedRun { key: None, record, state: Some(vec![2; 9].into()), events: Some(events) };
        store.enqueue(NewJob { run, spec: vec![3; 99].into() }).await.unwrap();
        if is_cancelled {
            assert_eq!(store.request_cancel(&owner, &id).await.unwrap(), CancelRequest::Requested);
        }
    }
}

/// An approval request of a response that is stored, or of one that is not.
async fn add_approval(
    store: &dyn Store,
    random: &mut Random,
    responses: &[ResponseRecord],
) -> PendingApproval {
    let (owner, response) = match random.chance(2) {
        true => (random.owner(), IdGenerator::new().response()),
        false => {
            let asked = &responses[random.below(responses.len() as u64) as usize];
            (asked.owner.clone(), asked.lease.id.clone())
        }
    };
    let asked = PendingApproval {
        id: Id::generate("mcpr"),
        owner: owner.clone(),
        response,
        arguments: [1; 32],
        definition: [2; 32],
        expires_at: 4_000_000_000,
    };
    store.add_approvals(vec![asked.clone()]).await.unwrap();
    if random.chance(3) {
        let claim = ApprovalClaim { id: asked.id.clone(), arguments: [1; 32], definition: [2; 32] };
        store.claim_approvals(&owner, &"resp_claims".into(), vec![claim], 1_800_000_000).await.unwrap();
    }
    asked
}

impl Content {
    /// All that the store's readers see of it.
    pub(super) async fn read(&self, store: &dyn Store) -> Vec<String> {
        let mut seen = Vec::new();
        let all = PageRequest { limit: 100, ascending: true, after: None, before: None, max_bytes: u64::MAX };
        for ResponseRecord { owner, lease, items, .. } in &self.responses {
            let id = lease.id.as_str();
            show(&mut seen, store.response(owner, id, u64::MAX).await);
            show(
                &mut seen,
                store.lineage(owner, id, ReadLimit::UNLIMITED).await.map(|found| {
                    found.map(|found| {
                        let mut states: Vec<_> = found.states.into_iter().collect();
                        states.sort();
                        (found.items, states)
                    })
                }),
            );
            show(&mut seen, store.input_items(owner, id, &all).await);
            let ids: Vec<_> = items.iter().map(|item| item.id.clone()).collect();
            show(&mut seen, store.items(owner, &ids, ReadLimit::UNLIMITED).await);
            let keys: Vec<_> =
                items.iter().filter_map(|item| item.state.as_ref()).map(|state| state.key.clone()).collect();
            show(&mut seen, store.provider_states(owner, &keys, ReadLimit::UNLIMITED).await);
        }
        for (owner, id) in &self.conversations {
            show(&mut seen, store.conversation(owner, id).await);
            show(&mut seen, store.conversation_items(owner, id, &all).await);
            let context = store.conversation_context(owner, id, ReadLimit::UNLIMITED).await.unwrap().unwrap();
            let mut states: Vec<_> = context.states.into_iter().collect();
            states.sort();
            seen.push(format!("{:?} {states:?} {} {}", context.items, context.first, context.until));
        }
        for LoggedRun { key, record, .. } in &self.keyed {
            if let Some(key) = key {
                show(&mut seen, store.key_use(&record.owner, &key.key).await);
            }
            show(&mut seen, store.logged_events(&record.owner, &record.lease.id, 0, u64::MAX).await);
            show(&mut seen, store.log_state(&record.owner, &record.lease.id).await);
        }
        for approval in &self.approvals {
            show(&mut seen, store.approvals(&approval.owner, std::slice::from_ref(&approval.id), None).await);
        }
        seen
    }
}

fn show(seen: &mut Vec<String>, read: impl Debug) {
    seen.push(format!("{read:?}"));
}
