//! What is refused, and how: requests, bodies, URLs, and what a provider refuses.

mod bodies;
mod overflow;
mod provider;
mod requests;
mod urls;
