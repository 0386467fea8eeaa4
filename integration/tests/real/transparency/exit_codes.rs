//! Exit codes of `run` and `exec`.

use super::{alike, how, text};

/// Exit codes to test: the limits, those of shells, and 128 plus a signal. All 256 would take
/// minutes.
const CODES: [u8; 14] = [0, 1, 2, 3, 63, 64, 125, 126, 127, 128, 129, 137, 254, 255];

#[test]
fn exit_codes_of_run_are_transparent() {
    alike("exit codes of run", |stage| {
        for code in [0, 1, 126, 127, 128, 200, 255] {
            let id = stage.node.id(&format!("c{code}"));
            let bundle = stage
                .node
                .bundle(&id)
                .arguments(&["/bin/sh", "-c", &format!("exit {code}")])
                .make();
            let ended = stage.reported(&["run", "--bundle", text(bundle.dir()), &id]);
            assert_eq!(ended.code, Some(code), "{}", ended.err());
        }
    });
}

#[test]
fn exit_codes_of_exec_are_transparent() {
    alike("exit codes of exec", |stage| {
        let id = stage.waiting("c");
        for code in CODES {
            let ended = stage.reported(&["exec", &id, "/bin/sh", "-c", &format!("exit {code}")]);
            assert_eq!(ended.code, Some(code.into()));
        }
        for signal in ["HUP", "INT", "KILL", "SEGV", "TERM", "USR1"] {
            let ended = stage.call(&["exec", &id, "/bin/sh", "-c", &format!("kill -{signal} $$")]);
            stage.note(signal, how(&ended));
            assert!(ended.code.is_some_and(|code| code > 128), "{signal}: {}", how(&ended));
        }
    });
}

#[test]
fn exit_codes_of_commands_that_cannot_run_are_transparent() {
    alike("exit codes of commands that cannot run", |stage| {
        let id = stage.waiting("c");
        for program in ["/nowhere", "nowhere", "/tmp", "/etc/passwd", ""] {
            stage.note(program, how(&stage.call(&["exec", &id, program])));
            let other = stage.node.id("d");
            let bundle = stage.node.bundle(&other).arguments(&[program]).make();
            let ran = stage.call(&["run", "--bundle", text(bundle.dir()), &other]);
            stage.note(program, how(&ran));
            assert_ne!(ran.code, Some(0), "{program:?}");
            stage.node.bare(&["delete", "--force", &other]);
        }
        stage.reported(&["exec", &id]);
        stage.reported(&["exec", &stage.node.id("unknown"), "/bin/true"]);
    });
}
