//! The runtime's verbs that have NRI events, and our OCI hook: a file per verb, from the request to
//! the reply.

pub mod create;
pub mod creation;
pub mod delete;
mod follow;
pub mod hook;
mod lock;
pub mod request;
pub mod run;
pub mod start;
pub mod update;
