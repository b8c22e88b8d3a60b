//! `antwort doctor`: asks a model server what it does with the fields and habits that servers differ in.
//!
//! A [`Question`](question::Question) is data: what is sent, and how the answers are judged. `examination` asks them all
//! within bounds, `seen` keeps what shows in passing, `profile` makes settings of the findings, `report` prints them. All
//! that a server says is untrusted: it is read within limits and shown as one clipped line.

mod client;
mod examination;
mod excerpt;
mod exchange;
mod finding;
mod interruption;
mod listing;
mod profile;
mod question;
mod questions;
mod reply;
mod report;
mod seen;
mod structured;
mod verdict;

pub use client::{Client, base_url};
pub use examination::{Bounds, Progress, examine};
pub use interruption::Interruption;
pub use report::{MARK, Report};
