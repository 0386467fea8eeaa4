//! The audit log: `nrictl events` prints it, `nrictl explain` shows what it says of one container.
//!
//! The file is read, not `nrid` asked: the log of a container that is gone, or of an `nrid` that
//! does not run, is as good.

mod diff;
mod events;
mod explain;
mod filter;
mod history;
mod page;
mod picture;
mod reader;

pub(crate) use events::EventsCommand;
pub(crate) use explain::ExplainCommand;
pub(crate) use filter::parse_since;
