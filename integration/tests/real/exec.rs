//! Tests of `exec`: the process gets the environment variables and rlimits that plugins have set
//! for the container, and where it is configured, not more rights than the container.

use nri_integration::*;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const ADJUSTMENT: &str = r#"
[create]
env = { set = { CHANGED = "by 10", ADDED = "by 10" }, remove = ["REMOVED"] }
[[create.rlimits]]
type = "RLIMIT_NPROC"
hard = 1024
soft = 512
[[create.rlimits]]
type = "RLIMIT_CORE"
hard = 4096
soft = 2048
"#;
/// Values that the probe reports with [`ADJUSTMENT`]. The core limit is in blocks of 512 bytes.
const ADJUSTED: [(&str, &str); 5] = [
    ("env.CHANGED", "by 10"),
    ("env.ADDED", "by 10"),
    ("env.KEPT", "by the engine"),
    ("rlimit.nproc", "512 1024"),
    ("rlimit.core", "4 8"),
];

/// A running container, and the object `process` of the `config.json` that its engine wrote.
struct Running {
    node: Node,
    id: String,
    process: Value,
}

impl Running {
    fn start(runtime: &Runtime) -> Self {
        Self::start_on(Node::new(runtime))
    }

    fn start_on(node: Node) -> Self {
        node.launch("10-adjust", &Program::Adjust, ADJUSTMENT);
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/probe", "wait"]);
        let bundle = bundle
            .env("CHANGED=by the engine")
            .env("REMOVED=by the engine")
            .env("KEPT=by the engine")
            .make();
        bundle.edit(|config| {
            config["process"]["rlimits"] =
                json!([{"type": "RLIMIT_NPROC", "hard": 300, "soft": 200}]);
        });
        let process = bundle.oci_config()["process"].clone();
        let created = node.create(&bundle, &id).success();
        node.call(&["start", &id]).success();
        wait_until("the probe", || created.out().contains("ready=1").then_some(()));
        Report::parse(&created.out()).check(&ADJUSTED);
        Self { node, id, process }
    }

    /// Writes a process file as engines do: the object `process` of `config.json` with another
    /// command.
    fn process_file(&self, arguments: &[&str], edit: impl FnOnce(&mut Value)) -> PathBuf {
        let mut process = self.process.clone();
        process["args"] = json!(arguments);
        edit(&mut process);
        let path = self.node.path("process.json");
        fs::write(&path, process.to_string()).unwrap();
        path
    }

    /// Calls `exec` of the wrapper or of the bare runtime in the foreground. Returns stdout.
    fn exec(&self, command: Command, process_file: &Path) -> String {
        self.try_exec(command, process_file).success().out()
    }

    fn try_exec(&self, mut command: Command, process_file: &Path) -> Ended {
        command.args(["exec", "--process"]).arg(process_file).arg(&self.id);
        self.node.run(command)
    }

    /// Returns a command of the bare runtime.
    fn bare(&self) -> Command {
        self.node.runtime().command(&self.node.root())
    }
}

#[test]
fn exec_with_a_process_file_gets_env_and_rlimits_of_plugins() {
    for_each_runtime("exec", |runtime| {
        let container = Running::start(runtime);
        let process_file = container.process_file(&["/probe", "wait"], |_| {});
        let before = fs::read(&process_file).unwrap();
        let pid_file = container.node.path("exec.pid");
        let mut command = container.node.wrapper();
        command.arg("exec").arg("--process").arg(&process_file).args(["--detach", "--pid-file"]);
        let ended = container.node.run({
            command.arg(&pid_file).arg(&container.id);
            command
        });
        let ended = ended.success();
        assert_eq!(fs::read(&process_file).unwrap(), before);
        // Engines remove the process file as soon as the runtime has exited.
        fs::remove_file(&process_file).unwrap();
        wait_until("the probe", || ended.out().contains("ready=1").then_some(()));
        let seen = Report::parse(&ended.out());
        seen.check(&ADJUSTED);
        assert_eq!(seen.get("env.REMOVED"), None);
        let process = Process(fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap());
        assert!(process.is_alive());
        let is_memfd = |file: &PathBuf| file.to_string_lossy().contains("memfd");
        assert!(!process.files().iter().any(is_memfd), "{:?}", process.files());
    });
}

#[test]
fn values_of_an_exec_process_file_take_precedence_over_values_of_plugins() {
    for_each_runtime("exec with other values", |runtime| {
        let container = Running::start(runtime);
        let process_file = container.process_file(&["/probe"], |_| {});
        let bare = Report::parse(&container.exec(container.bare(), &process_file));
        bare.check(&[("env.CHANGED|env.REMOVED", "by the engine"), ("rlimit.nproc", "200 300")]);
        assert_eq!(bare.get("env.ADDED"), None);

        let process_file = container.process_file(&["/probe"], |process| {
            let env = process["env"].as_array_mut().unwrap();
            env.retain(|e| !e.as_str().unwrap().starts_with("CHANGED="));
            env.extend(["CHANGED=by the exec", "ADDED=by the exec", "OWN=1"].map(Value::from));
            process["rlimits"] = json!([{"type": "RLIMIT_NPROC", "hard": 100, "soft": 50}]);
        });
        let seen = Report::parse(&container.exec(container.node.wrapper(), &process_file));
        seen.check(&[
            ("env.CHANGED", "by the exec"),
            ("env.ADDED", "by the exec"),
            ("env.OWN", "1"),
            ("env.KEPT", "by the engine"),
            ("rlimit.nproc", "50 100"),
            ("rlimit.core", "4 8"),
        ]);
        assert_eq!(seen.get("env.REMOVED"), None);
    });
}

/// Without a process file the runtime uses `process` of the adjusted `config.json`.
#[test]
fn exec_without_a_process_file_gets_env_and_rlimits_of_plugins() {
    for_each_runtime("exec without a process file", |runtime| {
        let container = Running::start(runtime);
        let exec = ["exec", &container.id, "/probe"];
        let seen = Report::parse(&container.node.call(&exec).success().out());
        let (env, rlimits) = ADJUSTED.split_at(3);
        seen.check(env);
        assert_eq!(seen.get("env.REMOVED"), None);
        if runtime.name == "crun" {
            limitation(
                "rlimits of exec without a process file (crun)",
                "crun sets rlimits of a process file only",
            );
            assert_eq!(seen, Report::parse(&container.node.bare(&exec).success().out()));
        } else {
            seen.check(rlimits);
        }
    });
}

#[test]
fn exec_leaks_no_descriptor_of_the_wrapper_into_the_container() {
    for_each_runtime("exec and descriptors", |runtime| {
        let container = Running::start(runtime);
        let script = "for f in /proc/$$/fd/*; do echo \"fd.${f##*/}=$(readlink $f)\"; done; echo \
            env.ADDED=$ADDED";
        let process_file = container.process_file(&["/bin/sh", "-c", script], |_| {});
        for preserved in ["0", "2"] {
            let [bare, ours] = [container.bare(), container.node.wrapper()].map(|inner| {
                let mut shell = Command::new("sh");
                let open = "exec 3</dev/null 4</dev/zero 5</dev/null; exec \"$@\"";
                shell.args(["-c", open, "sh"]).arg(inner.get_program()).args(inner.get_args());
                shell
                    .args(["exec", "--preserve-fds", preserved, "--process"])
                    .arg(&process_file)
                    .arg(&container.id);
                Report::parse(&container.node.run(shell).success().out())
            });
            assert_eq!(bare.get("env.ADDED"), Some(""));
            assert_eq!(ours.get("env.ADDED"), Some("by 10"));
            let numbers = |seen: &Report| {
                seen.0.keys().filter(|k| k.starts_with("fd.")).cloned().collect::<Vec<_>>()
            };
            assert_eq!(numbers(&ours), numbers(&bare));
            assert_eq!(ours.get("fd.4"), (preserved == "2").then_some("/dev/zero"));
            assert!(!ours.0.values().any(|v| v.contains("memfd")), "{ours:?}");
        }
    });
}

/// The exec marker is the file from which the wrapper reads the values of plugins at `exec`.
#[test]
fn the_exec_marker_is_removed_with_the_container() {
    for_each_runtime("exec marker", |runtime| {
        let container = Running::start(runtime);
        let marker = container.node.state_dir().join("exec").join(format!("{}.json", container.id));
        assert!(marker.is_file());
        container.node.call(&["delete", "--force", &container.id]).success();
        wait_until("the marker to be removed", || (!marker.exists()).then_some(()));
    });
}

/// The path of the exec marker depends on the runtime root. The wrapper must find the marker
/// although the root did not exist before the container, as after a boot, and although engines name
/// the root by a symbolic link (`/var/run`).
#[test]
fn exec_finds_its_marker_if_the_root_is_a_symbolic_link() {
    for_each_runtime("root behind a link", |runtime| {
        let node = Node::new(runtime);
        let journal = node.launch("10-adjust", &Program::Adjust, ADJUSTMENT);
        std::os::unix::fs::symlink(".", node.path("link")).unwrap();
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/probe", "wait"]).make();
        let process_file = node.path("process.json");
        let mut process = bundle.oci_config()["process"].clone();
        process["args"] = json!(["/probe"]);
        fs::write(&process_file, process.to_string()).unwrap();
        let call = |arguments: &[&str]| {
            let mut command = node.wrapper();
            command.arg("--root").arg(node.path("link/root")).args(arguments);
            node.run(command).success()
        };
        assert!(!node.root().exists());
        call(&["create", "--bundle", bundle.dir().to_str().unwrap(), &id]);
        call(&["start", &id]);
        journal.wait_for("PostStartContainer", &id);
        for by_link in [true, false] {
            let exec = ["exec", "--process", process_file.to_str().unwrap(), &id];
            let ended = if by_link { call(&exec) } else { node.call(&exec).success() };
            Report::parse(&ended.out()).check(&[("env.ADDED", "by 10")]);
        }
        call(&["delete", "--force", &id]);
        journal.wait_for("RemoveContainer", &id);
    });
}

/// Prints the rights of a process.
const RIGHTS: [&str; 3] = ["/bin/sh", "-c", "grep -E 'Cap|NoNewPrivs|Uid' /proc/self/status"];

/// Checks that an `exec` was refused, for this reason.
#[track_caller]
fn check_refused(ended: &Ended, because: &str) {
    let err = ended.err();
    // The exit code of runc for an `exec` that fails.
    assert_eq!((ended.code, err.lines().count()), (Some(255), 1), "{err}");
    assert!(err.contains("refused: more than the container has: "), "{err}");
    assert!(err.contains(because), "{err}");
}

#[test]
fn exec_with_more_rights_than_the_container_is_refused_where_it_is_configured() {
    for_each_runtime("limits of exec", |runtime| {
        let start = |lines: &str| {
            let node = Node::new(runtime);
            node.configure(lines);
            Running::start_on(node)
        };
        let wrapper = |container: &Running| container.node.wrapper();
        // As with `--privileged` of Docker and Podman.
        let privileged = |container: &Running| {
            container.process_file(&RIGHTS, |process| {
                for set in ["bounding", "effective", "permitted"] {
                    let set = process["capabilities"][set].as_array_mut().unwrap();
                    set.push("CAP_SYS_ADMIN".into());
                }
            })
        };
        let is_admin = |seen: &str| {
            let line = seen.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap() & (1 << 21) != 0
        };
        let unlimited = start("");
        let seen = unlimited.exec(wrapper(&unlimited), &privileged(&unlimited));
        assert!(is_admin(&seen), "by default an exec may have more: {seen}");

        let limited = start("exec.more_rights = 'refuse'");
        let flags = |flags: &[&str]| {
            let exec = [&["exec"][..], flags, &[limited.id.as_str()], &RIGHTS].concat();
            limited.node.call(&exec)
        };
        let check = || {
            let ended = limited.try_exec(wrapper(&limited), &privileged(&limited));
            check_refused(&ended, "CAP_SYS_ADMIN ([exec] more_rights was \"refuse\"");
            let file = limited.process_file(&RIGHTS, |process| {
                process["noNewPrivileges"] = false.into();
            });
            check_refused(&limited.try_exec(wrapper(&limited), &file), "no_new_privs is not set");
            check_refused(&flags(&["--cap", "CAP_SYS_ADMIN"]), "CAP_SYS_ADMIN");
            check_refused(&flags(&["-cCAP_KILL", "-c", "sys_admin"]), "CAP_SYS_ADMIN");
            // What is no more than the container has is as with the bare runtime.
            let same = limited.process_file(&RIGHTS, |_| {});
            let other_user = |process: &mut Value| {
                process["user"] = json!({"uid": 1, "gid": 1});
            };
            let seen = limited.exec(wrapper(&limited), &same);
            assert_eq!(seen, limited.exec(limited.bare(), &same));
            assert!(!is_admin(&seen), "{seen}");
            let file = limited.process_file(&RIGHTS, other_user);
            let seen = limited.exec(wrapper(&limited), &file);
            assert_eq!(seen, limited.exec(limited.bare(), &file));
            assert!(!is_admin(&flags(&[]).success().out()));
            let ended = flags(&["--cap", "CAP_KILL"]);
            assert!(!ended.err().contains("refused"), "{}", ended.err());
        };
        check();
        // The values of the creation apply, and no `nrid` is needed.
        limited.node.configure("");
        limited.node.kill_nrid();
        check();
    });
}

#[test]
fn exec_as_another_user_is_refused_where_it_is_configured() {
    for_each_runtime("exec as another user", |runtime| {
        let node = Node::new(runtime);
        node.configure("exec.other_user = 'refuse'");
        let container = Running::start_on(node);
        let exec = |user: Value| {
            let file = container.process_file(&RIGHTS, |process| process["user"] = user);
            container.try_exec(container.node.wrapper(), &file)
        };
        check_refused(&exec(json!({"uid": 1, "gid": 0})), "user 1 in place of 0");
        check_refused(&exec(json!({"uid": 0, "gid": 0, "additionalGids": [5]})), "group 5");
        exec(json!({"uid": 0, "gid": 0})).success();
        let user =
            |user| container.node.call(&["exec", "--user", user, &container.id, "/bin/true"]);
        check_refused(&user("1:0"), "user 1 in place of 0");
        user("0:0").success();
    });
}

/// A container that no plugin adjusts has a marker, too, and so has a sandbox.
#[test]
fn a_container_without_plugins_and_a_sandbox_have_limits_of_exec_until_they_are_deleted() {
    for_each_runtime("limits without plugins", |runtime| {
        let node = Node::new(runtime);
        node.configure("exec.more_rights = 'refuse'");
        for kind in ["sandbox", "container"] {
            let id = node.id(kind);
            let bundle = node.bundle(&id).arguments(&["/probe", "wait"]).make();
            bundle.annotate_as_crio(&node.id("sandbox"), kind);
            node.create(&bundle, &id).success();
            node.call(&["start", &id]).success();
        }
        for kind in ["container", "sandbox"] {
            let id = node.id(kind);
            let exec = ["exec", "--cap", "CAP_SYS_ADMIN", &id, "/bin/true"];
            check_refused(&node.call(&exec), "CAP_SYS_ADMIN");
            node.call(&["exec", &id, "/bin/true"]).success();
            node.call(&["delete", "--force", &id]).success();
        }
        wait_until("the markers to be removed", || node.records("exec").is_empty().then_some(()));
    });
}
