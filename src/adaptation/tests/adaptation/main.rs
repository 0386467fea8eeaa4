//! The adaptation with real sessions: plugins are scripted, everything between them and the
//! adaptation is the real thing.
//!
//! Sockets are in memory and the clock is paused wherever no program is launched: time passes only
//! when nothing else can happen, so a timeout that is waited for comes at once, and none comes by
//! accident.

// Helpers are no tests in the eyes of the lint; a failure of theirs is that of the test that called
// them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod admission;
mod failures;
mod faults;
mod harness;
mod launched;
mod order;
mod outputs;
mod peers;
mod permissions;
mod privileges;
mod raw;
mod reload;
mod restarts;
mod rollback;
mod sessions;
mod subscriptions;
mod validators;
