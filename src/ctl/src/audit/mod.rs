//! The audit log: `nrictl events` prints it, `nrictl explain` shows what it says of one container.
//!
//! The file is read, not `nrid` asked: the log of a container that is gone, or of an `nrid` that
//! does not run, is as good. What the log lacks of a container that exists, its record has.

mod diff;
mod events;
mod explain;
mod filter;
mod history;
mod page;
mod picture;
mod reader;
mod record;
mod shown;

pub(crate) use events::EventsCommand;
pub(crate) use explain::ExplainCommand;
pub(crate) use filter::parse_time;
