//! The tools that are part of the gateway, and the executor of those that the configuration makes possible.

pub mod calculate;
pub mod datetime;
#[cfg(test)]
mod tests;
pub mod weather;
mod web;
pub mod web_search;
