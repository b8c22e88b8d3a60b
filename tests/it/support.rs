//! What the tests share: a gateway on a real port, a scripted provider, clients, and judges.

pub mod legal;
pub mod response;
