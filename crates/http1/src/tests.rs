//! Decoders by tables and properties, the client against scripted servers.

mod client;
mod coding;
mod heads;
mod server;
