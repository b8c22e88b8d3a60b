//! What strangers send is bounded: each test shows one way in which somebody took what was not theirs.

mod approvals;
mod bodies;
mod conversations;
mod digits;
mod limits;
mod pages;
mod provider;
mod references;
mod shares;
mod web_pages;
mod words;
