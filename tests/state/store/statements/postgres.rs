//! The plans of PostgreSQL, on tables with rows and statistics: where an index can serve a statement, the planner has to take
//! it.

use tokio_postgres::{Client, SimpleQueryMessage};

use super::sources::statements;
use super::{Statement, may, words, write_table};
use antwort_test_support::postgres::Database;

/// Statements that read a whole table, and why they may; `…` stands for what follows.
const MAY_SCAN: &[(&str, &str)] = &[
    ("SELECT c.relname::text, a.attname::text…", "the catalogue, once for a copy"),
    ("SELECT EXISTS (SELECT 1 FROM runs WHERE lease_until >…", "once for a copy"),
    ("WITH waiting AS MATERIALIZED…", "counts those that wait"),
    (
        "DELETE FROM item_states WHERE owner = $1 AND response = $2",
        "of a row whose index of items is damaged",
    ),
    ("DELETE FROM antwort_schema", "it has one row"),
    ("SELECT version, compatible_with FROM antwort_schema", "it has one row"),
];

/// Fills every table as a busy service's: much is stored, of the little that is made now most waits in a queue. One row in
/// twenty has a value where there may be none.
const FILL: &str = r"DO $$
DECLARE t record; columns text; vals text;
BEGIN
    SET session_replication_role = replica;
    FOR t IN SELECT c.oid, c.relname FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
        WHERE c.relkind = 'r' AND s.nspname = 'public' AND c.relname NOT IN ('antwort_schema', 'probe')
    LOOP
        SELECT string_agg(quote_ident(attname), ', '), string_agg(CASE
            WHEN t.relname = 'runs' AND attname = 'instance' THEN 'CASE WHEN n % 50 = 0 THEN ''t'' || n % 350 ELSE '''' END'
            WHEN t.relname = 'runs' AND attname = 'attempt' THEN '0'
            WHEN attname IN ('settled_at', 'finished_at') THEN 'CASE WHEN n % 20 <> 0 THEN n END'
            WHEN attnotnull THEN val ELSE 'CASE WHEN n % 20 = 0 THEN ' || val || ' END' END, ', ')
        INTO columns, vals
        FROM (SELECT attname, attnotnull, CASE format_type(atttypid, NULL)
                WHEN 'boolean' THEN 'n % 20 = 0' WHEN 'smallint' THEN '(n % 3)::smallint'
                WHEN 'bytea' THEN 'decode(md5(n::text), ''hex'')' WHEN 'uuid' THEN 'md5(n::text)::uuid'
                WHEN 'text' THEN '''t'' || n % 7' WHEN 'bytea[]' THEN 'ARRAY[]::bytea[]' ELSE 'n' END AS val
            FROM pg_attribute WHERE attrelid = t.oid AND attnum > 0 AND NOT attisdropped AND attidentity = '') a;
        EXECUTE format('INSERT INTO %I (%s) SELECT %s FROM generate_series(1, %s) n ON CONFLICT DO NOTHING',
            t.relname, columns, vals, CASE
            WHEN t.relname IN ('conversation_locks', 'webhook_outbox', 'tenant_walks') THEN 500
            WHEN t.relname IN ('responses', 'owners') THEN 100000 ELSE 30000 END);
    END LOOP;
END $$; ANALYZE; SET plan_cache_mode = force_custom_plan;
    SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_statement_of_postgresql_reads_a_whole_table() {
    let database = Database::new().await;
    drop(database.open(|_| ()).await);
    let sql = database.sql().await;
    sql.batch_execute(FILL).await.unwrap();
    let statements = statements("crates/store-postgres/src");
    assert!(statements.len() > 100, "{} statements were found", statements.len());
    let (mut plans, mut faults) = (Vec::new(), Vec::new());
    for statement in &statements {
        match plan(&sql, statement).await {
            Ok(plan) => plans.push((statement, plan)),
            Err(error) => faults.push(format!("{}: {error}: {}", statement.place, words(&statement.sql))),
        }
    }
    write_table("postgresql", &plans);
    let scans = plans.iter().filter(|(_, plan)| plan.iter().any(|step| is_scan(step)));
    faults.extend(scans.filter(|(statement, _)| !may(statement, MAY_SCAN)).map(|(statement, plan)| {
        format!("{}: {}\n    {}", statement.place, words(&statement.sql), plan.join("\n    "))
    }));
    assert!(faults.is_empty(), "these read a whole table:\n{}", faults.join("\n"));
}

/// Whether a step reads all rows of a table that may have many.
fn is_scan(step: &str) -> bool {
    // A lock is there while a run is made.
    step.split_once("Seq Scan on ").is_some_and(|(_, table)| !table.starts_with("conversation_locks"))
}

/// The steps of a statement, for values as they may be.
async fn plan(sql: &Client, statement: &Statement) -> Result<Vec<String>, String> {
    let say = |error: tokio_postgres::Error| {
        error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
    };
    let prepare = format!("DEALLOCATE ALL; PREPARE s AS {}", statement.sql);
    sql.batch_execute(&prepare).await.map_err(say)?;
    let types = "SELECT unnest(parameter_types)::text FROM pg_prepared_statements WHERE name = 's'";
    let types = sql.simple_query(types).await.map_err(say)?;
    let values: Vec<String> = rows(&types).iter().map(|of| value(of)).collect();
    let values = if values.is_empty() { String::new() } else { format!("({})", values.join(", ")) };
    let steps = sql.simple_query(&format!("EXPLAIN (COSTS OFF) EXECUTE s{values}")).await.map_err(say)?;
    Ok(rows(&steps))
}

fn rows(messages: &[SimpleQueryMessage]) -> Vec<String> {
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    messages.iter().filter_map(row).collect()
}

/// A value of a type, of which there are few among the rows.
fn value(of: &str) -> String {
    match (of.strip_suffix("[]"), of) {
        (Some(element), _) => format!("ARRAY[{}]::{of}", value(element)),
        (None, "bigint") => "500::bigint".to_owned(),
        (None, "integer") => "100".to_owned(),
        (None, "numeric") => "500".to_owned(),
        (None, "smallint") => "1::smallint".to_owned(),
        (None, "boolean") => "true".to_owned(),
        (None, "uuid") => "md5('500')::uuid".to_owned(),
        (None, "bytea") => "decode(md5('500'), 'hex')".to_owned(),
        (None, _) => format!("'t350'::{of}"),
    }
}
