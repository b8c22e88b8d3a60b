//! What strangers send is bounded: each test shows one way in which somebody took what was not theirs.

mod answer_memory;
mod approvals;
mod bodies;
mod connections;
mod conversations;
mod digits;
mod limits;
mod names;
mod pages;
mod provider;
mod readiness;
mod references;
mod shares;
mod untaken;
mod web_pages;
mod words;
