//! Search for the real runtime, and calls with invalid ids or bundles.

use crate::harness::{Server, WrapperHarness, always, argv, stderr};
use nri_locate::RUNTIME_ENV;
use nri_tests::fake_runtime::FakeRuntime;
use serde_json::json;
use std::{fs, os::unix::fs::symlink, process::Command};

/// Runs `command` and checks that it calls `expected` and no other of `runtimes`.
fn check(command: &mut Command, runtimes: &[&FakeRuntime], expected: &FakeRuntime) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    for runtime in runtimes {
        let calls = runtime.calls();
        assert_eq!(
            calls.len(),
            usize::from(runtime.path == expected.path),
            "{}",
            runtime.path.display()
        );
        runtime.clear();
        if let Some(call) = calls.first() {
            assert_eq!(argv(call)[0], runtime.path.display().to_string());
        }
    }
}

#[test]
fn runtimes_are_searched_in_the_documented_order() {
    let harness = WrapperHarness::new();
    let runc = &harness.fake;
    let crun = &FakeRuntime::install(&harness.path("bin"), "crun").unwrap();
    let other = &FakeRuntime::install(&harness.path("other"), "my-runtime").unwrap();
    let all = [runc, crun, other];
    let state = ["state", "id"];
    check(&mut harness.command(&state), &all, runc);
    check(
        harness.command(&["--nri-runtime", "crun", "state", "id"]).env(RUNTIME_ENV, &other.path),
        &all,
        crun,
    );
    check(&mut harness.command(&["--nri-runtime=other/my-runtime", "state", "id"]), &all, other);
    check(harness.command(&state).env(RUNTIME_ENV, &other.path), &all, other);
    symlink(harness.wrapper(), harness.path("nri-crun")).unwrap();
    check(&mut harness.command_of(&harness.path("nri-crun"), &state), &all, crun);
    // A wrapper that is installed as `crun` runs the next `crun` in PATH.
    fs::create_dir(harness.path("first")).unwrap();
    symlink(harness.wrapper(), harness.path("first/crun")).unwrap();
    let path = format!("{}:{}", harness.text("first"), harness.text("bin"));
    check(harness.command_of(&harness.path("first/crun"), &state).env("PATH", &path), &all, crun);
    harness.configure(&format!(
        "[runtime]\npath = {:?}\n[runtime.names.special]\npath = 'crun'",
        other.path
    ));
    check(&mut harness.command(&state), &all, other);
    symlink(harness.wrapper(), harness.path("special")).unwrap();
    check(&mut harness.command_of(&harness.path("special"), &state), &all, crun);
    harness.configure("[runtime]\ncandidates = ['nowhere', 'crun', 'runc']");
    check(&mut harness.command(&state), &all, crun);
}

/// Even while the configuration is broken, containers have to be killed and deleted by the runtime
/// that created them.
#[test]
fn the_runtime_of_a_broken_configuration_is_still_used() {
    let harness = WrapperHarness::new();
    let other = &FakeRuntime::install(&harness.path("other"), "my-runtime").unwrap();
    let all = [&harness.fake, other];
    for wrong in ["colour = 1", "unreachable = ", "mode = 'dark'"] {
        harness.configure(&format!("{wrong}\n[runtime]\npath = {:?}", other.path));
        for verb in ["state", "kill", "delete", "update"] {
            check(&mut harness.command(&[verb, "id"]), &all, other);
        }
        check(harness.command(&["create", "id"]).env(nri_locate::BYPASS_ENV, "1"), &all, other);
        assert_eq!(harness.run(&["create", "id"]).status.code(), Some(1), "{wrong}");
    }
}

#[test]
fn the_wrapper_never_runs_itself_as_the_runtime() {
    let harness = WrapperHarness::new();
    fs::create_dir(harness.path("first")).unwrap();
    symlink(harness.wrapper(), harness.path("first/runc")).unwrap();
    // A hard link works only on the file system of the wrapper.
    fs::hard_link(harness.wrapper(), harness.beside("crun")).unwrap();
    let path = format!(
        "{}:{}:{}",
        harness.text("first"),
        harness.beside("").display(),
        harness.text("bin")
    );
    check(harness.command(&["state", "id"]).env("PATH", &path), &[&harness.fake], &harness.fake);
    for wrapper in [harness.path("first/runc"), harness.beside("crun"), harness.wrapper()] {
        let output = harness.command(&["state", "id"]).env(RUNTIME_ENV, &wrapper).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let error = stderr(&output);
        assert!(
            error.contains("nri-container-runtime itself")
                && error.contains(&*wrapper.to_string_lossy()),
            "{error}"
        );
    }
}

#[test]
fn a_missing_runtime_is_reported_with_the_searched_directories() {
    let harness = WrapperHarness::new();
    harness.configure("[runtime]\ncandidates = ['no-such-a', 'no-such-b']");
    let output = harness.run(&["--log=log", "--log-format=json", "create", "-b", "bundle", "id"]);
    assert_eq!(output.status.code(), Some(1));
    let error = stderr(&output);
    assert_eq!(error.lines().count(), 1, "{error}");
    let first = "no real runtime found: searched no-such-a, no-such-b in ";
    for part in [first, &harness.text("bin"), "/usr/local/sbin", "[runtime].path"] {
        assert!(error.contains(part), "{part} in {error}");
    }
    assert!(fs::read_to_string(harness.path("log")).unwrap().contains("no-such-a"));
    for (name, why) in [
        ("no-such-c", "not found"),
        ("bundle", "not an executable file"),
        ("bundle/config.json", "not an executable file"),
    ] {
        let value = if name.starts_with("no") { name.to_owned() } else { harness.text(name) };
        let error = stderr(&harness.run(&["--nri-runtime", &value, "state", "id"]));
        assert!(
            error.contains(&value) && error.contains("--nri-runtime") && error.contains(why),
            "{error}"
        );
    }
}

#[test]
fn without_the_variable_path_the_standard_directories_are_searched() {
    let harness = WrapperHarness::new();
    // Every host has the program `true` in a standard directory.
    harness.configure("[runtime]\ncandidates = ['no-such-runtime', 'true']");
    let output = harness.command(&["state", "id"]).env_remove("PATH").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn relative_directories_in_path_are_not_searched() {
    let harness = WrapperHarness::new();
    harness.configure("[runtime]\ncandidates = ['only-here']");
    let _here = FakeRuntime::install(harness.dir.path(), "only-here").unwrap();
    for path in [".", "", ":", "bin"] {
        let output = harness.command(&["state", "id"]).env("PATH", path).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{path:?}");
    }
}

#[test]
fn a_runtime_that_cannot_be_executed_is_reported() {
    use std::os::unix::fs::PermissionsExt;
    let harness = WrapperHarness::new();
    let server = Server::proceeding(&harness);
    // The file is found, but execve fails because its interpreter does not exist.
    fs::write(harness.path("broken"), "#!/nowhere/at/all\n").unwrap();
    fs::set_permissions(harness.path("broken"), fs::Permissions::from_mode(0o755)).unwrap();
    for verb in ["state", "create"] {
        let output = harness.run(&["--nri-runtime", &harness.text("broken"), verb, "id"]);
        assert_eq!(output.status.code(), Some(1), "{verb}");
        assert!(
            stderr(&output).contains(&format!("cannot run {}", harness.text("broken"))),
            "{}",
            stderr(&output)
        );
    }
    assert_eq!(server.finished().unwrap().exit, nri_control::Exit::NotStarted);
}

#[test]
fn invalid_container_ids_are_refused() {
    let harness = WrapperHarness::new();
    let server = Server::proceeding(&harness);
    for verb in ["create", "run", "restore", "start", "update"] {
        for id in ["a/b", "../x", "/", "", ".", ".."] {
            let output = harness.run(&[verb, "--", id]);
            assert_eq!(output.status.code(), Some(1), "{verb} {id:?}");
            let error = stderr(&output);
            assert!(
                error.contains(&format!("container id {id:?}")) && error.lines().count() == 1,
                "{error}"
            );
        }
    }
    assert_eq!(server.received(), []);
    harness.check_not_called();
    assert_eq!(fs::read_to_string(harness.path("bundle/config.json")).unwrap(), "{}");
    // A delete with an invalid id is passed through to the real runtime.
    assert!(harness.run(&["delete", "--force", "a/b"]).status.success());
    assert_eq!(harness.fake.calls().len(), 1);
    assert_eq!(server.received(), []);
}

#[test]
fn a_missing_bundle_is_reported_by_the_runtime() {
    let harness = WrapperHarness::new();
    let server = Server::proceeding(&harness);
    harness.fake.script(&always(json!({"exit": 3, "stderr": "no such bundle\n"}))).unwrap();
    fs::create_dir(harness.path("empty")).unwrap();
    for bundle in ["nowhere", "bundle/config.json", "empty"] {
        for verb in ["create", "run", "restore"] {
            let output = harness.run(&[verb, "--bundle", bundle, "id"]);
            assert_eq!(output.status.code(), Some(3), "{verb} {bundle}");
            assert_eq!(stderr(&output), "no such bundle\n");
        }
    }
    // As in crun, the path of `--config` is relative to the working directory.
    let output = harness.run(&["create", "--config", "nowhere.json", "--bundle", "bundle", "id"]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(harness.fake.calls().len(), 3 * 3 + 1, "the runtime receives every call");
    assert_eq!(server.received(), []);
}
