//! Tools of servers that speak the Model Context Protocol.

mod real;
mod server;
