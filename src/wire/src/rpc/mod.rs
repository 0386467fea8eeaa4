//! The NRI services over a trunk: calls, handlers and message sizes. Start from
//! [`RuntimeEnd`](ends::RuntimeEnd).

pub(crate) mod client;
pub(crate) mod ends;
mod guard;
pub(crate) mod message;
pub(crate) mod service;
pub(crate) mod size;
