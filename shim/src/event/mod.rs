//! Verbs that carry an event: `nrid` is asked first, and told afterwards how the verb ended.

mod begin;
mod handle;
mod policy;
mod resources;
mod timeouts;

pub(crate) use handle::handle;
