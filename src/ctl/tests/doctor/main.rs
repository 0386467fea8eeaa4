//! Tests of `nrictl doctor`: each finding is provoked. The tests of `nrid` (`operate/doctor.rs`)
//! have findings of a real `nrid`; here it is a thread that replies with a given status.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests: clippy exempts only functions with #[test]"
)]

mod containers;
mod engines;
mod fake_nrid;
mod installation;
mod plugins;
mod resources;
mod rootless;
mod running;
mod site;
mod sockets;
mod uncalled;
