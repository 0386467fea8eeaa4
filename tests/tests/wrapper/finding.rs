//! The real runtime is found, and is never ourselves; ids that nobody can mean are refused.

use crate::lab::{Lab, Server, always, argv, stderr};
use nri_locate::RUNTIME_ENV;
use nri_tests::fake_runtime::FakeRuntime;
use serde_json::json;
use std::{fs, os::unix::fs::symlink, process::Command};

/// Runs `command` and tells which runtime it came to.
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
        runtime.forget();
        if let Some(call) = calls.first() {
            assert_eq!(argv(call)[0], runtime.path.display().to_string());
        }
    }
}

#[test]
fn order_of_places() {
    let lab = Lab::new();
    let runc = &lab.fake;
    let crun = &FakeRuntime::install(&lab.path("bin"), "crun").unwrap();
    let other = &FakeRuntime::install(&lab.path("other"), "my-runtime").unwrap();
    let all = [runc, crun, other];
    let state = ["state", "id"];
    check(&mut lab.command(&state), &all, runc);
    check(
        lab.command(&["--nri-runtime", "crun", "state", "id"]).env(RUNTIME_ENV, &other.path),
        &all,
        crun,
    );
    check(&mut lab.command(&["--nri-runtime=other/my-runtime", "state", "id"]), &all, other);
    check(lab.command(&state).env(RUNTIME_ENV, &other.path), &all, other);
    symlink(lab.wrapper(), lab.path("nri-crun")).unwrap();
    check(&mut lab.command_of(&lab.path("nri-crun"), &state), &all, crun);
    // Installed in place of a runtime, it stands for that one: found behind itself in PATH.
    fs::create_dir(lab.path("first")).unwrap();
    symlink(lab.wrapper(), lab.path("first/crun")).unwrap();
    let path = format!("{}:{}", lab.text("first"), lab.text("bin"));
    check(lab.command_of(&lab.path("first/crun"), &state).env("PATH", &path), &all, crun);
    lab.configure(&format!(
        "[runtime]\npath = {:?}\n[runtime.names.special]\npath = 'crun'",
        other.path
    ));
    check(&mut lab.command(&state), &all, other);
    symlink(lab.wrapper(), lab.path("special")).unwrap();
    check(&mut lab.command_of(&lab.path("special"), &state), &all, crun);
    lab.configure("[runtime]\ncandidates = ['nowhere', 'crun', 'runc']");
    check(&mut lab.command(&state), &all, crun);
}

/// What is there has to be killed and deleted by the runtime that made it, whatever is wrong with
/// the file.
#[test]
fn a_broken_configuration_still_says_which() {
    let lab = Lab::new();
    let other = &FakeRuntime::install(&lab.path("other"), "my-runtime").unwrap();
    let all = [&lab.fake, other];
    for wrong in ["colour = 1", "unreachable = ", "mode = 'dark'"] {
        lab.configure(&format!("{wrong}\n[runtime]\npath = {:?}", other.path));
        for verb in ["state", "kill", "delete", "update"] {
            check(&mut lab.command(&[verb, "id"]), &all, other);
        }
        check(lab.command(&["create", "id"]).env(nri_locate::BYPASS_ENV, "1"), &all, other);
        assert_eq!(lab.run(&["create", "id"]).status.code(), Some(1), "{wrong}");
    }
}

#[test]
fn never_ourselves() {
    let lab = Lab::new();
    fs::create_dir(lab.path("first")).unwrap();
    symlink(lab.wrapper(), lab.path("first/runc")).unwrap();
    // A hard link is on the wrapper's file system.
    fs::hard_link(lab.wrapper(), lab.beside("crun")).unwrap();
    let path = format!("{}:{}:{}", lab.text("first"), lab.beside("").display(), lab.text("bin"));
    check(lab.command(&["state", "id"]).env("PATH", &path), &[&lab.fake], &lab.fake);
    for ourselves in [lab.path("first/runc"), lab.beside("crun"), lab.wrapper()] {
        let output = lab.command(&["state", "id"]).env(RUNTIME_ENV, &ourselves).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        assert!(
            said.contains("nri-container-runtime itself")
                && said.contains(&*ourselves.to_string_lossy()),
            "{said}"
        );
    }
}

#[test]
fn not_found_says_where_it_was_looked_for() {
    let lab = Lab::new();
    lab.configure("[runtime]\ncandidates = ['no-such-a', 'no-such-b']");
    let output = lab.run(&["--log=log", "--log-format=json", "create", "-b", "bundle", "id"]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert_eq!(said.lines().count(), 1, "{said}");
    for part in ["no-such-a, no-such-b", &lab.text("bin"), "/usr/local/sbin", "[runtime].path"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert!(fs::read_to_string(lab.path("log")).unwrap().contains("no-such-a"));
    for (name, why) in [
        ("no-such-c", "not found"),
        ("bundle", "not an executable file"),
        ("bundle/config.json", "not an executable file"),
    ] {
        let value = if name.starts_with("no") { name.to_owned() } else { lab.text(name) };
        let said = stderr(&lab.run(&["--nri-runtime", &value, "state", "id"]));
        assert!(
            said.contains(&value) && said.contains("--nri-runtime") && said.contains(why),
            "{said}"
        );
    }
}

#[test]
fn without_path_the_standard_directories_are_searched() {
    let lab = Lab::new();
    lab.configure("[runtime]\ncandidates = ['no-such-runtime', 'true']");
    let output = lab.command(&["state", "id"]).env_remove("PATH").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn relative_entries_of_path_are_not_searched() {
    let lab = Lab::new();
    lab.configure("[runtime]\ncandidates = ['only-here']");
    let _here = FakeRuntime::install(lab.dir.path(), "only-here").unwrap();
    for path in [".", "", ":", "bin"] {
        let output = lab.command(&["state", "id"]).env("PATH", path).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{path:?}");
    }
}

#[test]
fn an_unusable_file_is_reported() {
    use std::os::unix::fs::PermissionsExt;
    let lab = Lab::new();
    let server = Server::proceeding(&lab);
    // No interpreter of that name: found, but it cannot be run.
    fs::write(lab.path("broken"), "#!/nowhere/at/all\n").unwrap();
    fs::set_permissions(lab.path("broken"), fs::Permissions::from_mode(0o755)).unwrap();
    for verb in ["state", "create"] {
        let output = lab.run(&["--nri-runtime", &lab.text("broken"), verb, "id"]);
        assert_eq!(output.status.code(), Some(1), "{verb}");
        assert!(
            stderr(&output).contains(&format!("cannot run {}", lab.text("broken"))),
            "{}",
            stderr(&output)
        );
    }
    assert_eq!(server.finished().unwrap().exit, nri_control::Exit::NotStarted);
}

#[test]
fn ids() {
    let lab = Lab::new();
    let server = Server::proceeding(&lab);
    for verb in ["create", "run", "restore", "start", "update"] {
        for id in ["a/b", "../x", "/", "", ".", ".."] {
            let output = lab.run(&[verb, "--", id]);
            assert_eq!(output.status.code(), Some(1), "{verb} {id:?}");
            let said = stderr(&output);
            assert!(
                said.contains(&format!("container id {id:?}")) && said.lines().count() == 1,
                "{said}"
            );
        }
    }
    assert_eq!(server.heard(), []);
    lab.check_not_called();
    assert_eq!(fs::read_to_string(lab.path("bundle/config.json")).unwrap(), "{}");
    // The real runtime answers a delete of what cannot exist.
    assert!(lab.run(&["delete", "--force", "a/b"]).status.success());
    assert_eq!(lab.fake.calls().len(), 1);
    assert_eq!(server.heard(), []);
}

#[test]
fn a_missing_bundle_is_the_runtimes_to_refuse() {
    let lab = Lab::new();
    let server = Server::proceeding(&lab);
    lab.fake.script(&always(json!({"exit": 3, "stderr": "no such bundle\n"}))).unwrap();
    fs::create_dir(lab.path("empty")).unwrap();
    for bundle in ["nowhere", "bundle/config.json", "empty"] {
        for verb in ["create", "run", "restore"] {
            let output = lab.run(&[verb, "--bundle", bundle, "id"]);
            assert_eq!(output.status.code(), Some(3), "{verb} {bundle}");
            assert_eq!(stderr(&output), "no such bundle\n");
        }
    }
    // As crun does it: relative to where we are, not to the bundle.
    let output = lab.run(&["create", "--config", "nowhere.json", "--bundle", "bundle", "id"]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(lab.fake.calls().len(), 10);
    assert_eq!(server.heard(), []);
}
