//! What strangers send is bounded: each test shows one way in which somebody took what was not theirs.

mod limits;
mod provider;
mod shares;
mod references;
mod web_pages;
