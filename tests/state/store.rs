//! The laws that every backend of the store obeys, in one table (`laws!`), and what is SQLite's own.

mod approvals;
mod backup;
mod cancel;
mod contract;
mod conversation_rows;
mod conversations;
mod copied_content;
mod copy;
mod damaged;
mod deletion;
mod erasure;
mod failed_requests;
mod folder;
mod full;
mod inline_commit;
mod jobs;
mod keys;
mod leases;
mod lists;
mod log;
mod logged_runs;
mod migrations;
mod orphans;
mod outbox;
mod pending_calls;
mod postgres_faults;
mod postgres_outages;
mod postgres_partitions;
mod postgres_runs;
mod postgres_server;
mod postgres_tls;
mod replicas;
mod sqlite;
mod statements;
mod tasks;
mod tenants;
mod unlisted;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use antwort::protocol::id::{Id, IdGenerator};
use antwort::protocol::response::ResponseStatus;
use antwort::store::{Direction, Lease, ModelView, Owner, ReadLimit, ResponseRecord, Store, StoredItem};
use antwort_store_postgres::PostgresOptions;
use antwort_store_sqlite::{Location, SqliteOptions, SqliteStore};

use self::folder::Folder;
use antwort_test_support::postgres::Database;

/// How long rows live in stores that forget soon.
const SHORT: Duration = Duration::from_millis(1500);

/// How long leases last in stores that several processes share.
const LEASE: Duration = Duration::from_millis(1500);

/// Makes the table of laws the tests of every backend: each law is the name of a test and of the function that holds a
/// store to it. Those under `short_lived` get a store whose rows live for [`SHORT`]; those under `shared` get several
/// processes' stores of the same data, by the name of their instance, if the backend has that.
macro_rules! laws {
    ($($module:ident { $($law:ident),+ $(,)? } $(+ short_lived { $($short:ident),+ $(,)? })?
        $(+ shared { $($shared:ident),+ $(,)? })?)+) => {
        mod memory {
            $(mod $module {
                $(#[tokio::test]
                async fn $law() {
                    crate::store::$module::$law(&crate::store::memory(None)).await;
                })+
                $($(#[tokio::test]
                async fn $short() {
                    crate::store::$module::$short(&crate::store::memory(Some(crate::store::SHORT))).await;
                })+)?
            })+
        }
        mod file {
            $(mod $module {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $law() {
                    let folder = crate::store::Folder::new();
                    crate::store::$module::$law(&folder.open(|_| ())).await;
                })+
                $($(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $short() {
                    let folder = crate::store::Folder::new();
                    let store = folder.open(|options| options.ttl = Some(crate::store::SHORT));
                    crate::store::$module::$short(&store).await;
                })+)?
                $($(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $shared() {
                    let folder = crate::store::Folder::new();
                    crate::store::$module::$shared(&|instance| folder.instance(instance)).await;
                })+)?
            })+
        }
        // A file into which callers write themselves, as on an idle gateway.
        mod file_inline_commit {
            $(mod $module {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $law() {
                    let folder = crate::store::Folder::new();
                    let store = folder.open(|_| ());
                    antwort::store::Store::set_runs_in_flight(&store, std::sync::Arc::new(|| 1));
                    crate::store::$module::$law(&store).await;
                })+
            })+
        }
        mod postgres {
            $(mod $module {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $law() {
                    let database = antwort_test_support::postgres::Database::new().await;
                    crate::store::$module::$law(&database.open(|_| ()).await).await;
                })+
                $($(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $short() {
                    let database = antwort_test_support::postgres::Database::new().await;
                    let store = database.open(|options| options.ttl = Some(crate::store::SHORT)).await;
                    crate::store::$module::$short(&store).await;
                })+)?
                $($(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $shared() {
                    let database = antwort_test_support::postgres::Database::new().await;
                    crate::store::$module::$shared(&|instance| crate::store::replica(&database, instance)).await;
                })+)?
            })+
        }
    };
}

laws! {
    // Single responses, their chains and their items.
    contract {
        a_response_is_read_back_byte_for_byte,
        every_final_status_is_kept,
        any_text_is_read_back_unchanged,
        what_belongs_to_others_does_not_exist,
        two_owners_may_have_the_same_id,
        a_running_response_is_seen_and_then_replaced,
        beginning_a_run_twice_changes_nothing,
        what_has_ended_never_changes,
        a_deleted_response_is_gone_with_its_items,
        a_response_deleted_while_it_runs_stays_deleted,
        a_lineage_is_the_chain_oldest_first,
        a_lineage_shows_what_the_model_saw,
        chains_may_fork,
        a_long_chain_is_read_whole,
        a_missing_ancestor_breaks_the_chain,
        a_chain_does_not_cross_owners,
        items_are_found_by_id_in_the_order_asked,
        of_items_with_one_id_the_newest_is_found,
        a_committed_write_is_seen_by_the_next_read,
        writers_side_by_side_lose_nothing,
        a_closed_store_is_not_ready_and_refuses_writes,
    } + short_lived {
        what_has_expired_exists_for_no_reader,
        continuing_a_chain_extends_the_life_of_each_response_in_it,
        an_expired_ancestor_breaks_the_chain_and_stays_so,
    }
    // Lists.
    lists {
        input_items_are_those_of_this_response_alone,
        input_items_are_paged_by_limit_order_and_cursor,
        responses_are_paged_by_limit_order_and_cursor,
        walking_forth_and_back_sees_everything_once,
        an_unknown_cursor_is_refused,
        deleting_while_paging_skips_no_response,
    }
    // Conversations.
    conversations {
        a_conversation_is_read_back_and_its_metadata_replaced,
        a_deleted_conversation_is_gone_with_its_items,
        what_belongs_to_others_does_not_exist,
        items_are_paged_by_limit_order_and_cursor,
        an_item_is_found_and_deleted_by_its_id,
        an_id_that_is_taken_adds_nothing,
        a_turn_is_appended_by_the_write_that_ends_it,
        a_response_that_failed_appends_nothing,
        a_turn_follows_what_was_added_and_deleted_while_it_was_made,
        a_turn_in_a_conversation_that_was_deleted_is_stored_alone,
        an_item_of_a_turn_whose_id_is_taken_gets_another,
        a_turn_reads_what_the_model_saw_and_its_states,
        what_a_turn_reads_is_measured_first,
        a_summary_hides_what_is_before_it_but_messages,
        a_response_of_a_conversation_is_continued_from_what_it_has_read,
        one_run_has_a_conversation_at_a_time,
        any_sequence_of_changes_gives_the_list_of_a_vector,
    } + short_lived {
        a_conversation_expires_some_time_after_its_last_use,
        a_chain_in_use_keeps_the_conversation_in_which_it_began,
    } + shared {
        what_processes_add_to_one_conversation_at_once_is_all_there,
        turns_of_processes_in_crossed_conversations_are_all_stored,
    }
    // Deletion while a run goes on.
    deletion {
        a_registered_run_that_is_deleted_is_not_written_by_any_later_write,
        a_registered_run_is_deleted_by_its_owner_alone_and_once,
        a_run_that_was_deleted_behind_its_last_write_leaves_nothing,
        approvals_of_a_registered_run_go_with_it,
        approvals_that_are_asked_for_while_their_run_is_deleted_go_with_it,
        a_run_that_is_registered_no_more_cannot_be_deleted,
    } + shared {
        what_one_process_deletes_while_another_ends_it_is_gone,
        approvals_of_what_another_process_deletes_go_with_it,
    }
    // Erasure of all that a tenant or an owner has.
    erasure {
        all_of_an_owner_or_of_a_tenant_is_erased_and_nothing_of_others,
        more_than_one_step_of_responses_is_erased_whole,
        a_tenant_of_more_owners_than_one_step_looks_at_is_erased_whole,
        runs_that_began_before_an_erasure_store_nothing_more,
    } + shared {
        processes_that_erase_at_once_erase_all_and_count_it_once,
        a_run_with_a_row_that_another_process_erases_stays_erased,
    }
    // Approvals.
    approvals {
        an_approval_is_read_back_until_it_is_used,
        an_approval_is_granted_once,
        what_a_response_has_claimed_is_open_to_it_and_to_no_other,
        of_many_claims_at_once_one_is_granted,
        other_arguments_or_another_definition_are_refused_and_use_nothing_up,
        what_belongs_to_others_does_not_exist,
        two_owners_may_have_the_same_id,
        an_expired_approval_is_unknown_to_every_reader,
        maintenance_deletes_no_approval_that_has_not_expired,
        deleting_a_response_deletes_its_approvals_alone,
        a_response_deleted_while_it_runs_asks_for_nothing,
        a_second_request_under_one_id_changes_nothing,
        a_closed_store_answers_nothing_about_approvals,
    } + shared {
        of_two_processes_that_claim_at_once_one_is_granted,
        claims_of_several_approvals_in_crossed_order_are_granted_once,
    }
    // The leases of runs.
    leases {
        a_write_with_the_epoch_of_another_lease_is_refused,
        a_lease_that_was_taken_over_begins_nothing,
        a_turn_of_a_deleted_run_is_dropped_without_an_error,
    } + shared {
        a_run_is_written_by_the_process_that_began_it_alone,
        a_response_that_another_process_deletes_while_it_runs_stays_deleted,
    }
    // Runs that their client may come back for: idempotency keys, and the log of events.
    logged_runs {
        a_key_leads_to_the_response_that_it_was_begun_with,
        of_many_begins_with_one_key_one_is_made,
        a_key_is_its_owners,
        a_withdrawn_run_leaves_nothing_and_its_key_is_free,
        deleting_a_response_deletes_its_log_and_leaves_its_key_alone,
        a_log_is_read_in_pieces_as_it_was_written,
        a_log_of_many_small_rows_is_read_whole,
        a_log_is_read_from_any_event_on,
        a_response_without_a_log_is_known_as_such,
        a_log_ends_with_its_response,
        a_log_is_cut_before_it_ends,
        a_log_with_a_gap_is_read_up_to_it,
        events_of_a_run_that_was_deleted_or_has_ended_are_not_kept,
    } + short_lived {
        a_key_does_not_outlive_its_response,
    } + shared {
        an_orphan_with_a_log_is_ended_by_another_process,
        of_processes_that_begin_with_one_key_one_does,
        a_key_that_one_process_withdraws_is_free_for_another,
        a_log_is_followed_in_another_process_to_its_end,
    }
    unlisted {
        a_response_that_is_not_stored_is_polled_but_neither_listed_nor_continued,
    }
    failed_requests {
        a_failed_request_is_read_with_its_trace_by_its_owner,
        a_request_that_began_before_an_erasure_and_fails_after_it_is_not_stored,
        a_withdrawn_run_tells_whether_it_was_deleted,
    }
    // Runs that any process may make.
    jobs {
        a_queued_run_is_seen_and_claimed_with_all_that_it_was_queued_with,
        a_process_knows_what_it_has_claimed_until_it_ends_or_is_given_back,
        the_oldest_runs_are_claimed_first,
        runs_of_tenants_are_claimed_in_turn,
        runs_of_one_conversation_are_claimed_one_after_the_other_in_the_order_in_which_they_were_queued,
        a_claimed_run_is_written_and_ended_with_its_lease,
        a_claim_that_is_given_back_is_claimed_again,
        a_run_is_claimed_by_its_owner_and_id,
        a_deleted_run_is_not_made,
        a_queued_run_is_erased_with_its_owner,
        a_key_leads_to_the_run_that_was_queued_with_it,
    } + shared {
        of_many_processes_one_claims_a_run,
        a_run_whose_holder_is_gone_is_claimed_from_its_last_commit,
        a_process_of_the_same_name_claims_what_the_one_before_had,
        a_claim_that_is_given_back_after_its_time_has_one_holder,
        a_claimed_run_that_another_process_deletes_stays_deleted,
        many_queued_runs_are_claimed_in_their_order_by_several_processes,
    }
    // Calls that go on as tasks of servers, and that ask the user.
    tasks {
        a_task_is_looked_at_by_one_when_it_is_time,
        a_task_whose_result_is_there_or_whose_response_is_cancelled_is_not_wanted,
        a_question_is_answered_once_and_asked_anew_until_then,
    }
    // Runs that wait for the results of their calls.
    pending_calls {
        a_run_waits_for_the_calls_that_it_awaits_and_for_no_others,
        a_run_does_not_wait_for_what_is_late,
        what_a_client_answers_is_no_result_of_a_call_whose_work_goes_on,
    }
    // Notices to webhooks.
    outbox {
        a_notice_is_written_with_the_end_of_its_response,
        a_notice_is_taken_by_one_until_its_time_is_over,
        a_notice_that_was_taken_again_is_not_the_first_takers,
        notices_of_other_webhooks_alone_are_taken,
        notices_go_with_the_erasure_of_their_owner,
    } + shared {
        a_notice_is_delivered_by_one_process,
    }
    // Running responses that are to end.
    cancel {
        a_running_response_is_marked_until_it_ends,
        only_its_owner_cancels_a_response,
        a_registered_run_without_a_row_is_told_by_its_own_process,
    } + shared {
        a_run_that_another_process_cancels_is_told_to_its_own,
        an_orphan_is_known_to_be_cancelled,
        a_claim_tells_whether_the_run_is_to_be_cancelled,
    }
    // Runs that nobody makes any more.
    orphans {
        a_store_without_orphans_gives_none,
    } + shared {
        an_orphan_is_given_with_all_that_was_committed_of_it,
        of_two_processes_one_gets_each_orphan,
        the_lease_from_before_a_run_was_taken_over_is_refused,
        an_orphan_that_is_taken_and_not_finished_is_one_again_when_its_lease_expires,
        the_state_of_a_run_is_that_of_its_last_commit,
        a_restarted_process_finds_its_own_runs_as_orphans,
        a_deleted_run_is_no_orphan,
        an_orphan_that_is_deleted_after_it_was_taken_stays_deleted,
    }
}

/// Opens the store of one more process on the same data, by the name of its instance.
type Open<'a> = &'a dyn Fn(&str) -> Arc<dyn Store>;

fn memory(ttl: Option<Duration>) -> SqliteStore {
    let mut options = SqliteOptions::new(Location::Memory, "test");
    options.ttl = ttl;
    SqliteStore::open(options).unwrap()
}

/// The store of the process with this instance name, in a database that several share.
fn replica(database: &Database, name: &str) -> Arc<dyn Store> {
    let options = |options: &mut PostgresOptions| {
        options.instance = name.to_owned();
        options.lease = LEASE;
    };
    let open = database.open(options);
    Arc::new(tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(open)))
}

fn owner() -> Owner {
    owned_by("acme", "ann")
}

fn owned_by(tenant: &str, principal: &str) -> Owner {
    Owner { tenant: tenant.into(), principal: principal.into() }
}

/// A completed response without items.
fn record() -> ResponseRecord {
    let id = IdGenerator::new().response();
    let body = format!(r#"{{"id":"{id}","object":"response","status":"completed"}}"#).into();
    ResponseRecord {
        lease: Lease::first(id),
        owner: owner(),
        status: ResponseStatus::Completed,
        model: "m".to_owned(),
        created_at: 1_700_000_000,
        previous: None,
        conversation: None,
        body,
        items: Vec::new(),
        outbox: Vec::new(),
        approvals: Vec::new(),
        trace: None,
        is_unlisted: false,
    }
}

/// A response with a question and an answer that continues another.
fn turn(previous: Option<&ResponseRecord>, question: &str, answer: &str) -> ResponseRecord {
    let items = vec![message(Direction::Input, question), message(Direction::Output, answer)];
    ResponseRecord { previous: previous.map(|record| record.lease.id.clone()), items, ..record() }
}

fn running() -> ResponseRecord {
    let mut record = record();
    record.status = ResponseStatus::InProgress;
    record.body =
        format!(r#"{{"id":"{}","completed_at":null,"status":"in_progress","error":null}}"#, record.lease.id)
            .into();
    record
}

fn message(side: Direction, text: &str) -> StoredItem {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let id = Id::from(format!("msg_{}", NEXT.fetch_add(1, Ordering::Relaxed)));
    StoredItem {
        wire: message_json(&id, side, text),
        id,
        direction: side,
        model_view: ModelView::Same,
        state: None,
    }
}

fn message_json(id: &Id, side: Direction, text: &str) -> Arc<str> {
    let (role, part) = match side {
        Direction::Input => ("user", "input_text"),
        Direction::Output => ("assistant", "output_text"),
    };
    let item = serde_json::json!({
        "type": "message", "id": id, "status": "completed", "role": role, "content": [{"type": part, "text": text}],
    });
    item.to_string().into()
}

/// The texts of a chain's items, as the model sees them; `None`: no such response.
async fn texts(store: &dyn Store, record: &ResponseRecord) -> Option<Vec<String>> {
    let lineage =
        store.lineage(&record.owner, record.lease.id.as_str(), ReadLimit::UNLIMITED).await.unwrap()?;
    Some(lineage.items.iter().map(text).collect())
}

fn text(item: &antwort::protocol::item::Item) -> String {
    let item = serde_json::to_value(item).unwrap();
    item["content"][0]["text"].as_str().unwrap().to_owned()
}
