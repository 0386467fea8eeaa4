//! Verbs that carry an event: a request to `nrid` before the verb, and a report of its exit after
//! it.

mod begin;
mod handle;
mod policy;
mod resources;
mod timeouts;

pub(crate) use handle::handle;
