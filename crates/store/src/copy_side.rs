//! One of the two databases of a copy.

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::StoreError;
use super::neutral_row::NeutralRow;
use super::row_kinds::Kind;

/// Rows that are sent together at most.
const BATCH_ROWS: usize = 200;
/// Bytes of rows that are sent together, but for the last one.
const BATCH_BYTES: usize = 1 << 20;

/// Where rows are read from, or written to. Nobody else writes to it meanwhile.
#[async_trait]
pub trait CopySide: Send + Sync {
    /// What it is, for people: without a password.
    fn name(&self) -> String;

    /// Sends all rows of a kind, in any order, until nobody wants them any more.
    async fn export(&self, kind: &'static Kind, to: mpsc::Sender<Vec<NeutralRow>>) -> Result<(), StoreError>;

    /// Writes the rows that it does not have yet, all or none, and returns how many they were.
    async fn import(&self, kind: &'static Kind, rows: Vec<NeutralRow>) -> Result<usize, ImportError>;

    /// Makes what was written last through a loss of power.
    async fn sync(&self) -> Result<(), StoreError>;
}

/// Why rows were not written.
#[derive(Debug)]
pub enum ImportError {
    /// The database failed.
    Store(StoreError),
    /// The row of this name is there with other content.
    Differs(String),
}

impl From<StoreError> for ImportError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Rows that wait to be sent.
#[derive(Default)]
pub struct Batch {
    rows: Vec<NeutralRow>,
    bytes: usize,
}

impl Batch {
    /// Adds a row. Returns all of them if it is time to send them.
    pub fn push(&mut self, row: NeutralRow) -> Option<Vec<NeutralRow>> {
        self.bytes = self.bytes.saturating_add(row.size());
        self.rows.push(row);
        (self.rows.len() >= BATCH_ROWS || self.bytes >= BATCH_BYTES).then(|| self.take())
    }

    /// The rows that are left, if there are any.
    pub fn rest(mut self) -> Option<Vec<NeutralRow>> {
        (!self.rows.is_empty()).then(|| self.take())
    }

    fn take(&mut self) -> Vec<NeutralRow> {
        self.bytes = 0;
        std::mem::take(&mut self.rows)
    }
}
