//! Tests of the exit codes of `run` and `exec`.

use super::{check_transparent, exit_status, path_str};

/// Exit codes to test: the smallest and the largest, some that shells use, and 128 plus a signal.
/// All 256 codes would take minutes.
const CODES: [u8; 14] = [0, 1, 2, 3, 63, 64, 125, 126, 127, 128, 129, 137, 254, 255];

#[test]
fn exit_codes_of_run_are_transparent() {
    check_transparent("exit codes of run", |scenario| {
        // Fewer codes than for `exec`, since each code needs a container.
        for code in [0, 1, 126, 127, 128, 200, 255] {
            let id = scenario.node.id(&format!("c{code}"));
            let bundle = scenario
                .node
                .bundle(&id)
                .arguments(&["/bin/sh", "-c", &format!("exit {code}")])
                .make();
            let ended = scenario.call_and_note(&["run", "--bundle", path_str(bundle.dir()), &id]);
            assert_eq!(ended.code, Some(code), "{}", ended.err());
        }
    });
}

#[test]
fn exit_codes_of_exec_are_transparent() {
    check_transparent("exit codes of exec", |scenario| {
        let id = scenario.start_waiting_container("c");
        for code in CODES {
            let ended =
                scenario.call_and_note(&["exec", &id, "/bin/sh", "-c", &format!("exit {code}")]);
            assert_eq!(ended.code, Some(code.into()));
        }
        for signal in ["HUP", "INT", "KILL", "SEGV", "TERM", "USR1"] {
            let ended =
                scenario.call(&["exec", &id, "/bin/sh", "-c", &format!("kill -{signal} $$")]);
            scenario.note(signal, exit_status(&ended));
            assert!(ended.code.is_some_and(|code| code > 128), "{signal}: {}", exit_status(&ended));
        }
    });
}

#[test]
fn exit_codes_of_commands_that_cannot_run_are_transparent() {
    check_transparent("exit codes of commands that cannot run", |scenario| {
        let id = scenario.start_waiting_container("c");
        for program in ["/nowhere", "nowhere", "/tmp", "/etc/passwd", ""] {
            scenario.note(program, exit_status(&scenario.call(&["exec", &id, program])));
            let other = scenario.node.id("d");
            let bundle = scenario.node.bundle(&other).arguments(&[program]).make();
            let ran = scenario.call(&["run", "--bundle", path_str(bundle.dir()), &other]);
            scenario.note(program, exit_status(&ran));
            assert_ne!(ran.code, Some(0), "{program:?}");
            scenario.node.bare(&["delete", "--force", &other]);
        }
        scenario.call_and_note(&["exec", &id]);
        scenario.call_and_note(&["exec", &scenario.node.id("unknown"), "/bin/true"]);
    });
}
