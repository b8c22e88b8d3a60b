//! Single texts of rows that may be large: the others of the row are not read.

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::error::corrupt;
use super::session::{Param, Session};
use super::values::text_or_null;
use antwort_store::StoreError;
use antwort_store::item_index::{Damaged, Span};

/// The row that texts of items are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ItemRow {
    pub key: Uuid,
    /// The turn, if the response still runs and the items are not in its own row.
    pub turn: Option<i32>,
}

const TEXTS: &str = "SELECT CASE WHEN p.turn IS NULL THEN substring(s.items FROM p.first FOR p.length) ELSE (
            SELECT substring(t.items FROM p.first FOR p.length) FROM turns t
            WHERE t.response = p.key AND t.owner = $1 AND t.turn = p.turn) END
    FROM unnest($2::uuid[], $3::int[], $4::int[], $5::int[])
        WITH ORDINALITY AS p (key, turn, first, length, place)
    LEFT JOIN responses s ON s.key = p.key AND s.owner = $1
    ORDER BY p.place";

/// The texts at these places, in this order.
pub(super) async fn read(
    session: Session<'_>,
    owner: i64,
    places: &[(ItemRow, Span)],
) -> Result<Vec<String>, StoreError> {
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let small = |number: usize| i32::try_from(number).map_err(corrupt);
    let keys: Vec<Uuid> = places.iter().map(|(row, _)| row.key).collect();
    let turns: Vec<Option<i32>> = places.iter().map(|(row, _)| row.turn).collect();
    let firsts = places.iter().map(|(_, span)| small(span.start.saturating_add(1)));
    let firsts: Vec<i32> = firsts.collect::<Result<_, _>>()?;
    let lengths: Vec<i32> = places.iter().map(|(_, span)| small(span.len)).collect::<Result<_, _>>()?;
    let params: [Param<'_>; 5] = [
        (&owner, Type::INT8),
        (&keys, Type::UUID_ARRAY),
        (&turns, Type::INT4_ARRAY),
        (&firsts, Type::INT4_ARRAY),
        (&lengths, Type::INT4_ARRAY),
    ];
    let rows = session.query(TEXTS, &params).await?;
    let texts = rows.iter().zip(places).map(|(row, (_, span))| {
        let text = text_or_null(row, 0)?.filter(|text| text.len() == span.len);
        text.map(str::to_owned).ok_or_else(|| corrupt(Damaged))
    });
    texts.collect()
}
