//! What the tests share: a gateway on a real port, a scripted provider, clients, and judges.

pub mod gateway;
pub mod legal;
pub mod openapi;
pub mod response;
pub mod upstream;
