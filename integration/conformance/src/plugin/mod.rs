//! Scripted plugins: sessions with the runtime under test that reply what a case says, and record
//! what they receive. They use the wire protocol, not the SDK's `Plugin` trait, because the SDK
//! refuses replies that are mistakes, which some cases need.

mod containers;
mod journal;
mod scripted;
mod session;

pub use containers::{Containers, VARIABLE};
pub use journal::{Entry, Journal};
pub use scripted::{Scripted, json, parse};
pub use session::{Facts, Session, Sessions};
