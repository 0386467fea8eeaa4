//! A broken installation takes no node down. Each breakage meets each verb: by default, with
//! `unreachable = "pass"`, and with break-glass by variable and by file. What needs no event works
//! as with the bare runtime; what needs one is refused in one line that says what is broken, or
//! passes; nothing waits for long; and when it is mended, all is as before.
//!
//! The breakages are in [`breakages`], the calls in [`installation`], the fakes that stand in for a
//! bad `nrid` in [`fakes`], what `nrictl` says in [`nrictl`].

mod breakages;
mod expected;
mod fakes;
mod installation;
mod nrictl;

use breakages::Breakage;
use expected::{Needing, Policy};
use installation::Installation;
use nri_integration::{Runtime, for_each_runtime, runtimes};
use std::thread;

/// An installation that can be broken so.
fn new(runtime: &Runtime, policy: Policy, breakage: &Breakage) -> Installation {
    Installation::new(runtime, policy, breakage.config, breakage.mounts)
}

/// One breakage under all policies, each on a node of its own.
fn check(breakage: &Breakage) {
    let first = runtimes().0.first().map(|runtime| runtime.name);
    for_each_runtime(breakage.name, |runtime| {
        if breakage.waits && Some(runtime.name) != first {
            return;
        }
        thread::scope(|scope| {
            for policy in Policy::ALL {
                scope.spawn(move || walk(&new(runtime, policy, breakage), breakage));
            }
        });
    });
}

fn walk(installation: &Installation, breakage: &Breakage) {
    let containers = installation.prepare();
    if breakage.waits {
        // What hangs is to be known soon to hang.
        installation.configure("start_timeout = '1s'\n");
    }
    let broken = (breakage.make)(installation);
    let expected = breakage.needing.under(installation.policy);
    if expected == Needing::NoRuntime {
        installation.check_without_runtime(&containers);
    } else {
        installation.check_needing(expected, &containers);
        installation.check_others(expected, &containers);
        installation.check_removals(&containers);
    }
    drop(broken);
    (breakage.mend)(installation);
    if breakage.waits {
        installation.configure(breakage.config);
    }
    installation.check_mended(&containers);
    println!("{}", installation.slowest(breakage.name));
}

macro_rules! breakages {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            check(&breakages::$name());
        })*
    };
}

breakages! {
    nrid_is_missing
    nrid_is_not_executable
    nrid_ends_at_once
    nrid_says_why_it_ends
    nrid_never_starts
    nrid_is_stopped
    nrid_never_answers
    nrid_takes_no_connection
    nrid_hangs_up
    the_socket_is_a_stale_file
    the_socket_is_a_directory
    the_socket_is_another_users
    the_state_directory_is_a_file
    the_state_directory_is_everybodys
    the_state_directory_is_read_only
    the_state_directory_is_full
    records_are_garbage
    the_log_cannot_be_written
    the_configuration_has_an_error
    the_configuration_is_a_directory
    the_configuration_is_a_pipe
    the_configuration_is_missing
    the_configuration_is_everybodys
    plugins_are_missing
    plugins_are_in_no_directory
    plugins_are_everybodys
    a_required_plugin_is_missing
    a_required_plugin_does_not_start
    the_hook_is_missing
    the_runtime_is_missing
}
