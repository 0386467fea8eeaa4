//! Tests of broken installations. Each breakage is tested with each verb under four policies: the
//! default, `unreachable = "pass"`, and break-glass by variable and by file. Verbs without an event
//! work as with the bare runtime. Verbs with an event either succeed or are refused in one line
//! that names the cause. Each call ends within a time limit. After the repair, plugins adjust
//! containers again.
//!
//! [`breakages`] has the breakages, [`installation`] the calls, [`fakes`] the listeners that stand
//! in for an `nrid` that hangs, [`nrictl`] the tests of `nrictl doctor` and `nrictl status`.

mod breakages;
mod expected;
mod fakes;
mod installation;
mod nrictl;

use breakages::Breakage;
use expected::{Outcome, Policy};
use installation::Installation;
use nri_integration::{Runtime, for_each_runtime, runtimes};
use std::thread;

/// Creates an installation as a breakage requires it.
fn new_installation(runtime: &Runtime, policy: Policy, breakage: &Breakage) -> Installation {
    Installation::new(runtime, policy, breakage.config, breakage.has_mounted_state_dir)
}

/// Checks one breakage under all policies, with a separate node for each.
fn check(breakage: &Breakage) {
    let first_runtime = runtimes().0.first().map(|runtime| runtime.name);
    for_each_runtime(breakage.name, |runtime| {
        if breakage.times_out && Some(runtime.name) != first_runtime {
            return;
        }
        thread::scope(|scope| {
            for policy in Policy::ALL {
                scope.spawn(move || {
                    break_and_repair(&new_installation(runtime, policy, breakage), breakage)
                });
            }
        });
    });
}

/// Breaks an installation, checks all verbs, repairs it, and checks that it works again.
fn break_and_repair(installation: &Installation, breakage: &Breakage) {
    let containers = installation.prepare();
    if breakage.times_out {
        // Shorten the time after which a call stops waiting for an nrid that hangs.
        installation.configure("start_timeout = '1s'\n");
    }
    let broken = (breakage.make)(installation);
    let expected = breakage.expected.under(installation.policy);
    if expected == Outcome::NoRuntime {
        installation.check_without_runtime(&containers);
    } else {
        installation.check_verbs_with_events(expected, &containers);
        installation.check_verbs_without_events(expected, &containers);
        installation.check_removals(&containers);
    }
    drop(broken);
    (breakage.repair)(installation);
    if breakage.times_out {
        installation.configure(breakage.config);
    }
    installation.check_repaired(&containers);
    println!("{}", installation.slowest_call(breakage.name));
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
    nrid_exits_without_a_message
    nrid_exits_with_a_message
    nrid_never_starts
    nrid_is_stopped
    nrid_never_replies
    nrid_accepts_no_connection
    nrid_closes_connections
    the_socket_is_a_stale_file
    the_socket_is_a_directory
    the_socket_belongs_to_another_user
    the_state_directory_is_a_file
    the_state_directory_is_world_writable
    the_state_directory_is_read_only
    the_state_directory_is_full
    records_are_garbage
    the_log_cannot_be_written
    the_configuration_has_an_error
    the_configuration_is_a_directory
    the_configuration_is_a_pipe
    the_configuration_is_missing
    the_configuration_is_world_writable
    the_plugin_directory_is_missing
    the_plugin_directory_is_unreadable
    the_plugin_directory_is_world_writable
    a_required_plugin_is_missing
    a_required_plugin_does_not_start
    the_hook_is_missing
    the_runtime_is_missing
}
