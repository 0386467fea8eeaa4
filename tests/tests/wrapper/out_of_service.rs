//! NRI switched off, and configurations that cannot be read.

use crate::lab::{Lab, Server, stderr};
use nri_locate::{BYPASS_ENV, BYPASS_FILE, CONFIG_ENV};
use std::{fs, path::Path, process::Command};

const VERBS: [&str; 6] = ["create", "run", "restore", "start", "update", "delete"];

/// The verb is an `execve` of the real runtime, and nobody was asked.
fn check_exec(lab: &Lab, server: &Server, mut command: Command) {
    lab.fake.forget();
    let child = command.spawn().unwrap();
    let pid = child.id();
    assert!(child.wait_with_output().unwrap().status.success(), "{command:?}");
    let calls = lab.fake.calls();
    assert_eq!(calls.len(), 1, "{command:?}");
    assert_eq!(calls[0]["own"]["pid"], pid, "{command:?}");
    assert_eq!(server.heard(), [], "{command:?}");
}

#[test]
fn by_variable() {
    let lab = Lab::new();
    let server = Server::refusing(&lab, "it was asked");
    for verb in VERBS {
        let mut command = lab.command(&[verb, "id"]);
        command.env(BYPASS_ENV, "1");
        check_exec(&lab, &server, command);
    }
    // Also with a configuration that is broken.
    lab.configure("unreachable = 3");
    let mut command = lab.command(&["create", "id"]);
    command.env(BYPASS_ENV, "1");
    check_exec(&lab, &server, command);
    lab.configure("");
    for value in ["", "0"] {
        assert_eq!(
            lab.command(&["create", "id"]).env(BYPASS_ENV, value).output().unwrap().status.code(),
            Some(1),
            "{value:?}"
        );
    }
}

#[test]
fn by_configuration() {
    let lab = Lab::new();
    let server = Server::refusing(&lab, "it was asked");
    lab.configure("disable = true");
    for verb in VERBS {
        check_exec(&lab, &server, lab.command(&[verb, "id"]));
    }
}

#[test]
fn by_file() {
    let lab = Lab::new();
    let server = Server::refusing(&lab, "it was asked");
    // The file's place is fixed: a mount namespace of its own keeps it from everybody else. The
    // programs in /bin may be links into /usr.
    let name = Path::new(BYPASS_FILE).strip_prefix("/etc").unwrap();
    let file = lab.path("etc").join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let (etc, wrapper) = (lab.text("etc"), lab.wrapper().display().to_string());
    let run = |arguments: &[&str]| {
        let script = "mount --bind \"$1\" /etc || exit 77; shift; exec \"$@\"";
        let mut unshare = lab.command_of(
            Path::new("/usr/bin/unshare"),
            &["--mount", "/bin/sh", "-c", script, "sh", &etc, &wrapper],
        );
        unshare.args(arguments).env("PATH", format!("{}:/usr/bin:/bin", lab.text("bin")));
        unshare
    };
    let refused = run(&["create", "id"]).output().unwrap();
    if refused.status.code() != Some(1) || !stderr(&refused).contains("it was asked") {
        println!("skipped: no mount namespace can be made here: {}", stderr(&refused));
        return;
    }
    fs::write(&file, "").unwrap();
    drop(server);
    let server = Server::refusing(&lab, "it was asked");
    for verb in VERBS {
        check_exec(&lab, &server, run(&[verb, "id"]));
    }
}

#[test]
fn a_broken_configuration_stops_only_what_needs_it() {
    let lab = Lab::new();
    let server = Server::proceeding(&lab);
    lab.configure("[runtime]\npath = 7");
    for verb in ["state", "kill", "exec", "pause", "features", "--version", "update", "delete"] {
        check_exec(&lab, &server, lab.command(&[verb, "id"]));
    }
    lab.fake.forget();
    for verb in ["create", "run", "restore", "start"] {
        let output = lab.run(&[verb, "id"]);
        assert_eq!(output.status.code(), Some(1), "{verb}");
        let said = stderr(&output);
        assert!(said.contains(&format!("{}: line 3, column 8", lab.text("config.toml"))), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    lab.check_not_called();
    assert_eq!(server.heard(), []);
}

#[test]
fn a_configuration_that_others_could_change_stops_only_what_needs_it() {
    use std::os::unix::fs::PermissionsExt;
    let lab = Lab::new();
    let server = Server::proceeding(&lab);
    let config = lab.path("config.toml");
    let mode =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let check = |why: &str| {
        for verb in ["state", "kill", "exec", "pause", "update", "delete"] {
            check_exec(&lab, &server, lab.command(&[verb, "id"]));
        }
        lab.fake.forget();
        for verb in ["create", "run", "restore", "start"] {
            let output = lab.run(&[verb, "id"]);
            assert_eq!(output.status.code(), Some(1), "{verb}");
            let said = stderr(&output);
            assert!(
                said.contains(&format!("{} is not trusted: {why}", config.display())),
                "{said}"
            );
            assert_eq!(said.lines().count(), 1, "{said}");
        }
        lab.check_not_called();
    };
    mode(&config, 0o646);
    check(&format!("{} is writable by everybody (mode 646)", config.display()));
    mode(&config, 0o644);
    let dir = config.parent().unwrap();
    mode(dir, 0o777);
    check(&format!("{} is writable by everybody (mode 777)", dir.display()));
    mode(dir, 0o700);
    lab.run(&["create", "id"]);
    assert_eq!(lab.fake.calls().len(), 1, "it is relied upon again");
    assert_eq!(server.heard().len(), 2, "begin and finished");
}

#[test]
fn a_configuration_that_was_named_must_exist() {
    let lab = Lab::new();
    let server = Server::proceeding(&lab);
    let nowhere = lab.text("nowhere.toml");
    let by_option = |verb| lab.command(&["--nri-config", &nowhere, verb, "id"]);
    let by_variable = |verb| {
        let mut command = lab.command(&[verb, "id"]);
        command.env(CONFIG_ENV, &nowhere);
        command
    };
    for make in [&by_option as &dyn Fn(&'static str) -> Command, &by_variable] {
        check_exec(&lab, &server, make("state"));
        let output = make("create").output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(&nowhere), "{}", stderr(&output));
    }
    // A directory is no configuration either.
    let output = lab.run(&["--nri-config", &lab.text("bundle"), "create", "id"]);
    assert!(stderr(&output).contains(&lab.text("bundle")), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn own_options_without_value() {
    let lab = Lab::new();
    for option in ["--nri-config", "--nri-runtime", "--nri-config="] {
        let output = lab.run(&[option]);
        assert_eq!(output.status.code(), Some(1), "{option}");
        assert!(stderr(&output).contains("needs a value"), "{}", stderr(&output));
    }
    lab.check_not_called();
}

#[test]
fn versions() {
    let lab = Lab::new();
    let output = lab.run(&["--nri-version"]);
    assert!(output.stdout.starts_with(b"nri-container-runtime version "), "{output:?}");
    lab.check_not_called();
    for option in ["--version", "-v", "--help", "-h"] {
        let server = Server::proceeding(&lab);
        check_exec(&lab, &server, lab.command(&[option, "create"]));
        check_exec(&lab, &server, lab.command(&["create", "--help", "id"]));
    }
}
