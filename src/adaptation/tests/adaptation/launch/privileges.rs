//! Privileges of launched plugins, as `/proc/PID/status` shows them. Changing the user needs root.

use crate::launch::launched::{Dirs, results};
use nri_adaptation::{PluginPolicy, Privileges};
use nri_api::PluginId;
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let root = status.lines().any(|line| line == "Uid:\t0\t0\t0\t0");
    if !root {
        println!("skipped: only root can run plugins as another user");
    }
    root
}

fn dirs(privileges: Privileges) -> Dirs {
    let mut dirs = Dirs::new();
    // The plugin's user must reach the program.
    fs::set_permissions(dirs.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    dirs.policy(PluginPolicy { privileges, restart: false, ..PluginPolicy::default() });
    dirs
}

/// Launches a plugin that prints its process status and limits, and checks for these lines.
async fn check(privileges: Privileges, expected: &[&str]) {
    let context = format!("{privileges:?}");
    let dirs = dirs(privileges);
    dirs.plugin("10-a", "/bin/cat /proc/$$/status\necho limit $(ulimit -n) $(ulimit -Hn)\necho $0");
    let (harness, outcomes) = dirs.start().await;
    harness.adaptation.shutdown().await;
    let output = harness.log.of("10-a printed");
    assert_eq!(
        results(&outcomes)[0].1,
        "ended before it registered: the program exited with code 0"
    );
    for line in expected {
        assert!(
            output.iter().any(|printed| printed == line),
            "{line:?} with {context}: {output:#?}"
        );
    }
    assert!(output.iter().any(|printed| printed.ends_with("/10-a")), "{output:#?}");
}

fn user(user: &str, group: Option<&str>) -> Privileges {
    Privileges { user: Some(user.into()), group: group.map(str::to_owned), ..Privileges::default() }
}

fn capabilities(names: &[&str]) -> Option<Vec<String>> {
    Some(names.iter().map(|name| (*name).to_owned()).collect())
}

const NOBODY: [&str; 2] = ["Uid:\t65534\t65534\t65534\t65534", "Gid:\t65534\t65534\t65534\t65534"];
/// Empty set of capabilities in `/proc/PID/status`.
const NONE: &str = "0000000000000000";

#[tokio::test]
async fn a_plugin_runs_with_the_user_and_groups_of_its_policy() {
    if !is_root() {
        return;
    }
    for (privileges, groups) in [
        (user("65534", Some("65534")), "Groups:\t65534"),
        (user("nobody", None), "Groups:\t65534"),
        (user("nobody", Some("nogroup")), "Groups:\t65534"),
    ] {
        let caps = format!("CapEff:\t{NONE}");
        // The kernel ends the line with a blank, which the log trims.
        check(privileges, &[NOBODY[0], NOBODY[1], groups, &caps, "NoNewPrivs:\t0"]).await;
    }
    // A uid without a passwd entry.
    check(
        user("4711", Some("4712")),
        &["Uid:\t4711\t4711\t4711\t4711", "Gid:\t4712\t4712\t4712\t4712", "Groups:\t4712"],
    )
    .await;
}

#[tokio::test]
async fn a_plugin_keeps_only_the_capabilities_of_its_policy() {
    if !is_root() {
        return;
    }
    let sets = |value: &str| {
        ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].map(|set| format!("{set}:\t{value}"))
    };
    let check = async |privileges: Privileges, value: &str| {
        let sets = sets(value);
        check(privileges, &sets.each_ref().map(String::as_str)).await;
    };
    check(Privileges { capabilities: capabilities(&[]), ..Privileges::default() }, NONE).await;
    check(Privileges { capabilities: capabilities(&[]), ..user("nobody", None) }, NONE).await;
    // CAP_KILL is bit 5, CAP_NET_BIND_SERVICE is bit 10.
    let some = capabilities(&["kill", "net_bind_service"]);
    check(Privileges { capabilities: some.clone(), ..user("nobody", None) }, "0000000000000420")
        .await;
    check(Privileges { capabilities: some, ..Privileges::default() }, "0000000000000420").await;
}

/// The launcher runs with one capability, but without CAP_SETPCAP, like the launcher of an `nrid`
/// that does not run as root.
#[tokio::test]
async fn no_new_privs_limits_capabilities_if_the_bounding_set_cannot() {
    if !is_root() {
        return;
    }
    let run = async |no_new_privs| {
        let mut dirs = dirs(Privileges {
            capabilities: capabilities(&[]),
            no_new_privs,
            ..Default::default()
        });
        let real = dirs.config.launcher.display().to_string();
        let script = |name: &str, text: &str| {
            let script = dirs.plugin(name, text);
            fs::rename(script, dirs.file(name)).unwrap();
            dirs.file(name)
        };
        // The launcher executes programs without arguments, so a variable passes them.
        let limited = script("limited", &format!("exec {real} $ARGUMENTS")).display().to_string();
        let text = format!("ARGUMENTS=\"$*\" exec {real} --launch capabilities=kill -- {limited}");
        dirs.config.launcher = script("launcher", &text);
        dirs.plugin("10-a", "/bin/cat /proc/$$/status");
        let (harness, _) = dirs.start().await;
        harness.adaptation.shutdown().await;
        harness.log.of("10-a printed")
    };
    let output = run(true).await;
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert!(output.contains(&format!("{set}:\t{NONE}")), "{set}: {output:#?}");
    }
    // Bit 5, CAP_KILL, which the launcher could not drop.
    assert!(output.contains(&"CapBnd:\t0000000000000020".to_owned()), "{output:#?}");
    // Without no_new_privs, the launch fails: a program with file capabilities could get the
    // capabilities of the bounding set.
    let output = run(false).await;
    assert_eq!(output, ["cannot drop capabilities: Operation not permitted (os error 1)"]);
}

#[tokio::test]
async fn a_plugin_runs_with_no_new_privs_and_resource_limits() {
    let privileges = Privileges {
        no_new_privs: true,
        rlimits: vec![("nofile".into(), Some(123)), ("core".into(), Some(0))],
        ..Privileges::default()
    };
    check(privileges, &["NoNewPrivs:\t1", "limit 123 123"]).await;
}

#[tokio::test]
async fn a_plugin_with_reduced_privileges_handles_requests() {
    let privileges = Privileges {
        no_new_privs: true,
        capabilities: is_root().then(Vec::new),
        rlimits: vec![("nofile".into(), Some(64))],
        ..Privileges::default()
    };
    let dirs = dirs(privileges);
    dirs.plugin("07-fix", &dirs.fixture());
    let (harness, outcomes) = dirs.start().await;
    assert_eq!(results(&outcomes)[0].1, "ok 07-fix");
    let outcome = harness.create("c").await.unwrap();
    assert_eq!(outcome.adjust.annotations["NRI_PLUGIN_NAME"], "fix");
    let pid = harness.adaptation.plugins()[0].pid.unwrap();
    let outputs = [1, 2].map(|fd| fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap());
    assert_eq!(outputs[0], outputs[1], "standard output is still the launcher's pipe");
    harness.adaptation.shutdown().await;
}

#[tokio::test]
async fn privileges_that_cannot_be_applied_are_reported() {
    if !is_root() {
        return;
    }
    // More open files than the kernel permits any process.
    let limits = |name: &str| vec![(name.to_owned(), Some(1 << 40))];
    for (privileges, expected) in [
        (user("no-such-user", None), "unknown user no-such-user"),
        (user("nobody", Some("no-such-group")), "unknown group no-such-group"),
        (
            user("4711", None),
            "user 4711 has no passwd entry, so its group must be given, as in \"4711:4711\"",
        ),
        (
            Privileges { capabilities: capabilities(&["fly"]), ..Privileges::default() },
            "unknown capability fly",
        ),
        (
            Privileges { rlimits: limits("files"), ..Privileges::default() },
            "unknown resource limit files",
        ),
        (
            Privileges { rlimits: limits("nofile"), ..Privileges::default() },
            "cannot set the resource limit nofile: Operation not permitted (os error 1)",
        ),
    ] {
        let dirs = dirs(privileges);
        dirs.plugin("10-a", "echo it runs");
        let (harness, outcomes) = dirs.start().await;
        assert_eq!(results(&outcomes)[0].1, format!("cannot be executed: {expected}"));
        harness.adaptation.shutdown().await;
        assert_eq!(harness.log.of("10-a printed"), [""; 0]);
    }
    // A file that the user may not execute.
    let dirs = dirs(user("nobody", None));
    let path = dirs.plugin("10-a", "");
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    let (harness, outcomes) = dirs.start().await;
    let expected = "cannot be executed: Permission denied (os error 13) (as user nobody)";
    assert_eq!(results(&outcomes)[0].1, expected);
    let status = harness.adaptation.plugins().remove(0);
    assert_eq!(status.last_error.as_deref(), Some(expected));
    harness.adaptation.shutdown().await;
}

#[tokio::test]
async fn an_isolated_plugin_has_no_network_and_cannot_write_to_sys() {
    if !is_root() {
        return;
    }
    let mut dirs = dirs(Privileges { isolated: true, ..Privileges::default() });
    dirs.config.selected = Some(vec![PluginId::from_file_name("10-a").unwrap()]);
    let text = "/bin/cat /proc/net/dev\n/bin/cat /proc/self/mountinfo\n\
        echo namespaces $(/usr/bin/readlink /proc/self/ns/net /proc/self/ns/mnt)";
    dirs.plugin("10-a", text);
    dirs.plugin("20-b", "echo launched");
    let (harness, outcomes) = dirs.start().await;
    harness.adaptation.shutdown().await;
    assert_eq!(results(&outcomes).len(), 1);
    assert_eq!(harness.log.of("20-b printed"), Vec::<String>::new());
    let output = harness.log.of("10-a printed");
    let own = ["net", "mnt"].map(|name| fs::read_link(format!("/proc/self/ns/{name}")).unwrap());
    let namespaces = output.iter().find(|line| line.starts_with("namespaces ")).unwrap();
    assert!(own.iter().all(|own| !namespaces.contains(own.to_str().unwrap())), "{namespaces}");
    let is_sys = |line: &&String| {
        line.split(' ').nth(4).is_some_and(|point| point == "/sys" || point.starts_with("/sys/"))
    };
    let sys: Vec<_> = output.iter().filter(is_sys).collect();
    assert!(!sys.is_empty(), "{output:#?}");
    let options = |line: &str| line.split(' ').nth(5).unwrap().to_owned();
    assert!(sys.iter().all(|line| options(line).split(',').any(|o| o == "ro")), "{sys:#?}");
    // The mounts of this process stay as they are.
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let outside: Vec<_> = table.lines().filter(|line| is_sys(&&(*line).to_owned())).collect();
    assert_eq!(outside.len(), sys.len());
}
