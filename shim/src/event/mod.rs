//! Handles verbs with an event: sends a request to `nrid` before the verb, and reports the exit of
//! the real runtime to `nrid` afterwards.

mod begin;
mod handle;
mod resources;
mod timeouts;

pub(crate) use handle::handle;
