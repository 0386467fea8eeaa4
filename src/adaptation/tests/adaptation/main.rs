//! Tests of the adaptation with real sessions and scripted plugins.
//!
//! Tests that launch no program use sockets in memory and a paused clock: time advances only when
//! all tasks are idle, so an expected timeout takes no time and no other timeout occurs.

// The lints do not recognise helpers as test code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod admission;
mod failures;
mod faults;
mod harness;
mod launch;
mod missed;
mod order;
mod peers;
mod policy;
mod raw;
mod replacement;
mod replacement_rules;
mod request_time;
mod rollback;
mod sessions;
mod statistics;
mod subscriptions;
mod synchronization;
mod validators;
