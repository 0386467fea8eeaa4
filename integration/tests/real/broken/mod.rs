//! A broken installation takes no node down. Each breakage meets each verb: by default, with
//! `unreachable = "pass"`, and with break-glass by variable and by file. What needs no event works
//! as with the bare runtime; what needs one is refused in one line that says what is broken, or
//! passes; nothing waits for long; and when it is mended, all is as before.
//!
//! The breakages are in [`breakages`], the calls in [`site`], the fakes that stand in for a bad
//! `nrid` in [`fakes`], what `nrictl` says in [`told`].

mod breakages;
mod fakes;
mod site;
mod told;

use breakages::{Breakage, Needing};
use nri_integration::{for_each_runtime, runtimes};
use site::{Policy, Site};
use std::thread;

/// One breakage under all policies, each on a node of its own.
fn check(breakage: &Breakage) {
    let first = runtimes().0.first().map(|runtime| runtime.name);
    for_each_runtime(breakage.name, |runtime| {
        if breakage.waits && Some(runtime.name) != first {
            return;
        }
        thread::scope(|scope| {
            for policy in Policy::ALL {
                scope.spawn(move || walk(&Site::new(runtime, policy, breakage), breakage));
            }
        });
    });
}

fn walk(site: &Site, breakage: &Breakage) {
    let lives = site.prepare();
    if breakage.waits {
        // What hangs is to be known soon to hang.
        site.configure("start_timeout = '1s'\n");
    }
    let broken = (breakage.make)(site);
    let expected = breakage.needing.under(site.policy);
    if expected == Needing::NoRuntime {
        site.check_without_runtime(&lives);
    } else {
        site.check_needing(expected, &lives);
        site.check_others(expected, &lives);
        site.check_removals(&lives);
    }
    drop(broken);
    (breakage.mend)(site);
    if breakage.waits {
        site.configure(breakage.config);
    }
    site.check_mended(&lives);
    println!("{}", site.slowest(breakage.name));
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
