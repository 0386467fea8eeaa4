//! Bypass of NRI, broken and untrusted configurations, and the flags of the wrapper.

use crate::harness::{Server, WrapperHarness, stderr};
use nri_locate::{BYPASS_ENV, BYPASS_FILE, CONFIG_ENV};
use std::{fs, path::Path, process::Command};

const VERBS: [&str; 6] = ["create", "run", "restore", "start", "update", "delete"];

/// Checks that the wrapper becomes the real runtime by `execve`, without a request to `nrid`.
fn check_execve(harness: &WrapperHarness, server: &Server, mut command: Command) {
    harness.fake.clear();
    let child = command.spawn().unwrap();
    let pid = child.id();
    assert!(child.wait_with_output().unwrap().status.success(), "{command:?}");
    let calls = harness.fake.calls();
    assert_eq!(calls.len(), 1, "{command:?}");
    assert_eq!(calls[0]["own"]["pid"], pid, "{command:?}");
    assert_eq!(server.received(), [], "{command:?}");
}

#[test]
fn verbs_run_by_execve_if_the_bypass_variable_is_set() {
    let harness = WrapperHarness::new();
    let server = Server::refusing(&harness, "nrid received a request");
    for verb in VERBS {
        let mut command = harness.command(&[verb, "id"]);
        command.env(BYPASS_ENV, "1");
        check_execve(&harness, &server, command);
    }
    // The variable takes effect before the configuration is read.
    harness.configure("unreachable = 3");
    let mut command = harness.command(&["create", "id"]);
    command.env(BYPASS_ENV, "1");
    check_execve(&harness, &server, command);
    harness.configure("");
    for value in ["", "0", "false"] {
        assert_eq!(
            harness
                .command(&["create", "id"])
                .env(BYPASS_ENV, value)
                .output()
                .unwrap()
                .status
                .code(),
            Some(1),
            "the value {value:?} does not bypass NRI"
        );
    }
}

#[test]
fn verbs_run_by_execve_if_the_key_disable_is_true() {
    let harness = WrapperHarness::new();
    let server = Server::refusing(&harness, "nrid received a request");
    harness.configure("disable = true");
    for verb in VERBS {
        check_execve(&harness, &server, harness.command(&[verb, "id"]));
    }
}

#[test]
fn verbs_run_by_execve_if_the_bypass_file_exists() {
    let harness = WrapperHarness::new();
    let server = Server::refusing(&harness, "nrid received a request");
    // The path of the file is fixed, so the test mounts its own /etc in a mount namespace, which
    // other processes do not see. PATH has both /usr/bin and /bin, since one may link to the other.
    let name = Path::new(BYPASS_FILE).strip_prefix("/etc").unwrap();
    let file = harness.path("etc").join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let (etc, wrapper) = (harness.text("etc"), harness.wrapper().display().to_string());
    let run = |arguments: &[&str]| {
        // A refusal exits with 1, so 77 shows that the mount failed.
        let script = "mount --bind \"$1\" /etc || exit 77; shift; exec \"$@\"";
        let mut unshare = harness.command_of(
            Path::new("/usr/bin/unshare"),
            &["--mount", "/bin/sh", "-c", script, "sh", &etc, &wrapper],
        );
        unshare.args(arguments).env("PATH", format!("{}:/usr/bin:/bin", harness.text("bin")));
        unshare
    };
    let refused = run(&["create", "id"]).output().unwrap();
    if refused.status.code() != Some(1) || !stderr(&refused).contains("nrid received a request") {
        println!("skipped: cannot create a mount namespace: {}", stderr(&refused));
        return;
    }
    fs::write(&file, "").unwrap();
    drop(server);
    let server = Server::refusing(&harness, "nrid received a request");
    for verb in VERBS {
        check_execve(&harness, &server, run(&[verb, "id"]));
    }
}

#[test]
fn a_broken_configuration_fails_only_creations_and_starts() {
    let harness = WrapperHarness::new();
    let server = Server::proceeding(&harness);
    // `configure` writes `state_dir` into the first line of the file.
    harness.configure("[runtime]\npath = 7");
    for verb in ["state", "kill", "exec", "pause", "features", "--version", "update", "delete"] {
        check_execve(&harness, &server, harness.command(&[verb, "id"]));
    }
    harness.fake.clear();
    for verb in ["create", "run", "restore", "start"] {
        let output = harness.run(&[verb, "id"]);
        assert_eq!(output.status.code(), Some(1), "{verb}");
        let error = stderr(&output);
        assert!(
            error.contains(&format!("{}: line 3, column 8", harness.text("config.toml"))),
            "{error}"
        );
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    harness.check_not_called();
    assert_eq!(server.received(), []);
}

#[test]
fn an_untrusted_configuration_fails_only_creations_and_starts() {
    use std::os::unix::fs::PermissionsExt;
    let harness = WrapperHarness::new();
    let server = Server::proceeding(&harness);
    let config = harness.path("config.toml");
    let mode =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let check = |why: &str| {
        for verb in ["state", "kill", "exec", "pause", "update", "delete"] {
            check_execve(&harness, &server, harness.command(&[verb, "id"]));
        }
        harness.fake.clear();
        for verb in ["create", "run", "restore", "start"] {
            let output = harness.run(&[verb, "id"]);
            assert_eq!(output.status.code(), Some(1), "{verb}");
            let error = stderr(&output);
            assert!(
                error.contains(&format!("{} is not trusted: {why}", config.display())),
                "{error}"
            );
            assert_eq!(error.lines().count(), 1, "{error}");
        }
        harness.check_not_called();
    };
    mode(&config, 0o646);
    // What was published is still that of the trusted file.
    if rustix::process::geteuid().is_root() {
        assert!(harness.run(&["create", "--bundle", "bundle", "id"]).status.success());
        assert_eq!(server.received().len(), 2, "begin and finished");
        server.clear();
    }
    harness.unpublish();
    check(&format!("{} is writable by everybody (mode 646)", config.display()));
    mode(&config, 0o644);
    let dir = config.parent().unwrap();
    mode(dir, 0o777);
    check(&format!("{} is writable by everybody (mode 777)", dir.display()));
    mode(dir, 0o700);
    harness.run(&["create", "id"]);
    assert_eq!(harness.fake.calls().len(), 1, "the configuration is trusted again");
    assert_eq!(server.received().len(), 2, "begin and finished");
}

#[test]
fn a_configuration_file_named_by_flag_or_variable_must_exist() {
    let harness = WrapperHarness::new();
    let server = Server::proceeding(&harness);
    let nowhere = harness.text("nowhere.toml");
    let by_option = |verb| harness.command(&["--nri-config", &nowhere, verb, "id"]);
    let by_variable = |verb| {
        let mut command = harness.command(&[verb, "id"]);
        command.env(CONFIG_ENV, &nowhere);
        command
    };
    for command in [&by_option as &dyn Fn(&'static str) -> Command, &by_variable] {
        check_execve(&harness, &server, command("state"));
        let output = command("create").output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(&nowhere), "{}", stderr(&output));
    }
    // A directory in place of the configuration file is an error.
    let output = harness.run(&["--nri-config", &harness.text("bundle"), "create", "id"]);
    assert!(stderr(&output).contains(&harness.text("bundle")), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn flags_of_the_wrapper_without_a_value_are_refused() {
    let harness = WrapperHarness::new();
    for option in ["--nri-config", "--nri-runtime", "--nri-config="] {
        let output = harness.run(&[option]);
        assert_eq!(output.status.code(), Some(1), "{option}");
        assert!(stderr(&output).contains("needs a value"), "{}", stderr(&output));
    }
    harness.check_not_called();
}

#[test]
fn nri_help_prints_the_options_of_the_wrapper() {
    let harness = WrapperHarness::new();
    let output = harness.run(&["--nri-help", "create", "--help"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(help.starts_with("Usage: nri-container-runtime "), "{help}");
    assert!(help.contains("\n  --nri-runtime PATH "), "{help}");
    harness.check_not_called();
}

#[test]
fn only_nri_version_prints_the_version_of_the_wrapper() {
    let harness = WrapperHarness::new();
    let output = harness.run(&["--nri-version"]);
    assert!(output.stdout.starts_with(b"nri-container-runtime version "), "{output:?}");
    harness.check_not_called();
    for option in ["--version", "-v", "--help", "-h"] {
        let server = Server::proceeding(&harness);
        check_execve(&harness, &server, harness.command(&[option, "create"]));
        check_execve(&harness, &server, harness.command(&["create", "--help", "id"]));
    }
}
