//! The plans of PostgreSQL, for values that it does not know, on tables with rows and statistics.

use tokio_postgres::{Client, SimpleQueryMessage};

use super::sources::statements;
use super::{Statement, words, write_table};
use crate::support::postgres::Database;

/// Statements that read a whole table, by how they begin, and why they may.
const MAY_SCAN: &[(&str, &str)] = &[
    ("SELECT c.relname::text, a.attname::text", "the catalogue, once for a copy"),
    ("SELECT EXISTS (SELECT 1 FROM runs WHERE lease_until >", "once for a copy"),
    ("DELETE FROM conversation_locks", "at an exit and in maintenance; a lock is there while a run is made"),
    (
        "DELETE FROM item_states WHERE owner = $1 AND response = $2",
        "of a row whose index of items is damaged",
    ),
    ("DELETE FROM schema_version", "it has one row"),
    ("SELECT version, compatible_with FROM schema_version", "it has one row"),
];

/// Parameters whose type a statement does not say.
const TYPES: &[(&str, &str)] = &[];

/// Fills every table as a busy service's: much is stored, of the little that is made now most waits in a queue. One row in
/// twenty has a value where there may be none.
const FILL: &str = r"DO $$
DECLARE t record; columns text; vals text;
BEGIN
    SET session_replication_role = replica;
    FOR t IN SELECT c.oid, c.relname FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
        WHERE c.relkind = 'r' AND s.nspname = 'public' AND c.relname NOT IN ('schema_version', 'probe')
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
END $$; ANALYZE; SET plan_cache_mode = force_generic_plan";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_statement_of_postgresql_reads_a_whole_table() {
    let database = Database::new().await;
    drop(database.open(|_| ()).await);
    let sql = database.sql().await;
    sql.batch_execute(FILL).await.unwrap();
    let statements = statements("src/store/postgres");
    assert!(statements.len() > 100, "{} statements were found", statements.len());
    let (mut plans, mut faults) = (Vec::new(), Vec::new());
    for statement in &statements {
        match plan(&sql, statement).await {
            Ok(plan) => plans.push((statement, plan)),
            Err(error) => faults.push(format!("{}: {error}: {}", statement.place, words(&statement.sql))),
        }
    }
    write_table("postgresql", &plans);
    for (statement, plan) in &plans {
        let may = MAY_SCAN.iter().any(|(begin, _)| words(&statement.sql).starts_with(begin));
        if plan.iter().any(|step| step.contains("Seq Scan on ")) != may {
            let plan = plan.join("\n    ");
            faults.push(format!("{}: {}\n    {plan}", statement.place, words(&statement.sql)));
        }
    }
    assert!(faults.is_empty(), "these read a whole table, or are listed and do not:\n{}", faults.join("\n"));
}

/// The steps of a statement.
async fn plan(sql: &Client, statement: &Statement) -> Result<Vec<String>, String> {
    let parameters = (1..100).take_while(|n| statement.sql.contains(&format!("${n}"))).count();
    let types = TYPES.iter().find(|(begin, _)| words(&statement.sql).starts_with(begin));
    let types = types.map_or(String::new(), |(_, types)| format!("({types})"));
    let values = vec!["NULL"; parameters].join(", ");
    let values = if parameters == 0 { String::new() } else { format!("({values})") };
    let text = &statement.sql;
    let all = format!("DEALLOCATE ALL; PREPARE s{types} AS {text}; EXPLAIN (COSTS OFF) EXECUTE s{values}");
    let rows = sql.simple_query(&all).await.map_err(|error| {
        error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
    })?;
    let steps = rows.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    Ok(steps.collect())
}
