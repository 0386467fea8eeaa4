//! Handles verbs with an event: sends a request to `nrid` before the verb. Afterwards the exit of
//! the real runtime is reported to `nrid`, unless this process has become the runtime.

mod begin;
mod handle;
mod resources;
mod timeouts;

pub(crate) use handle::handle;
