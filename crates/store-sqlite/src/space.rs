//! The space that a database uses.

use rusqlite::Connection;

/// Bytes that a transaction of maintenance deletes, at least one row: deleted pages are overwritten, and so written to
/// the log.
pub(super) const BATCH_BYTES: u64 = 4 << 20;

/// Bytes of the used pages. Free pages are reused before the file grows.
pub(super) fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name| connection.pragma_query_one::<i64>(None, name);
    let pages = pragma("page_count")? - pragma("freelist_count")?;
    Ok(u64::try_from(pages.saturating_mul(pragma("page_size")?)).unwrap_or(0))
}
