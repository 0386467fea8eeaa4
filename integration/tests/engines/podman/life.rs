//! Lives of containers without a pod: what plugins hear of them, and what containers and users of
//! Podman see.

use super::*;
use crate::{TO_START, life};

#[test]
fn a_container_is_adjusted_and_followed() {
    for_each("podman, a life", |suite, go| {
        let adjusted = Adjusted::start(suite, go, &adjustment());
        let podman = &adjusted.podman;
        let id = podman.run_detached("web", &[&["--network", "none", IMAGE], &WAIT[..]].concat());
        let inside = |script: &str| podman.out(&["exec", "web", "sh", "-c", script]);

        let look = podman.look_at("web");
        assert_eq!(look.env("NRI").as_deref(), Some("here"));
        assert_eq!(look.rlimit("Max core file size"), Some(("512".into(), "1024".into())));
        assert_eq!(look.limit("cpuset", "cpuset.cpus", "cpuset.cpus"), "0");
        assert_eq!(look.limit("pids", "pids.max", "pids.max"), "66");
        assert_eq!(look.limit("memory", "memory.limit_in_bytes", "memory.max"), "104857600");
        assert_eq!(inside("cut -d' ' -f1 /nri"), "Linux", "the mount");
        assert_eq!(inside("stat -c '%t:%T %a' /dev/nri"), "1:3 666", "the device");
        assert_eq!(inside("echo > /dev/nri && echo written"), "written", "it may be used");
        let files = if unified_cgroups() { "memory.max" } else { "memory/memory.limit_in_bytes" };
        assert_eq!(inside(&format!("cat /sys/fs/cgroup/{files}")), "104857600", "seen inside");
        assert_eq!(
            inside("grep Cpus_allowed_list /proc/self/status | tr -d '\\t'"),
            "Cpus_allowed_list:0"
        );
        // In blocks of 512 bytes.
        assert_eq!(
            inside("echo $NRI; ulimit -c; ulimit -H -c"),
            "here\n1\n2",
            "exec has them, too"
        );
        let started = adjusted.plugin.journal.wait_for("PostStartContainer", &id);
        assert_eq!(adjusted.plugin.journal.events(&id), TO_START);
        assert_eq!(started["pid"], look.0.0);

        podman.out(&["stop", "web"]);
        assert_eq!(
            adjusted.lives(&id, 1),
            life(&[]),
            "Podman deletes it as soon as it has stopped"
        );
        podman.out(&["rm", "web"]);
        assert_eq!(adjusted.plugin.journal.events(&id), life(&[]), "nothing is told twice");
        if kernel_tells_exit_codes() {
            let stopped = &adjusted.plugin.journal.wait_for("StopContainer", &id)["container"];
            assert_eq!(stopped["statusReason"], "Completed", "{stopped}");
        }
    });
}

#[test]
fn each_start_is_a_life() {
    for_each("podman start, restart, kill, rm --force", |suite, go| {
        let adjusted = Adjusted::start(suite, go, &adjustment());
        let podman = &adjusted.podman;
        let id = podman.run_detached("web", &[&["--network", "none", IMAGE], &WAIT[..]].concat());
        podman.out(&["stop", "web"]);
        podman.out(&["start", "web"]);
        podman.out(&["restart", "web"]);
        assert_eq!(podman.out(&["exec", "web", "sh", "-c", "echo $NRI"]), "here");
        podman.out(&["kill", "web"]);
        assert_eq!(adjusted.lives(&id, 3), [life(&[]), life(&[]), life(&[])].concat());
        podman.out(&["start", "web"]);
        podman.out(&["rm", "--force", "web"]);
        assert_eq!(adjusted.lives(&id, 4), [life(&[]), life(&[]), life(&[]), life(&[])].concat());
    });
}

#[test]
fn one_that_ends_by_itself_is_noticed_and_restarted() {
    for_each("podman run --detach, --restart", |suite, go| {
        let adjusted = Adjusted::start(suite, go, &adjustment());
        let (podman, journal) = (&adjusted.podman, &adjusted.plugin.journal);
        let once = podman.run_detached("once", &["--network", "none", IMAGE, "sh", "-c", "exit 3"]);
        let stopped = journal.wait_for("StopContainer", &once);
        assert_eq!(podman.out(&["wait", "once"]), "3");
        let again = podman.run_detached(
            "again",
            &["--network", "none", "--restart", "on-failure:2", IMAGE, "sh", "-c", "exit 4"],
        );
        assert_eq!(adjusted.lives(&again, 3), [life(&[]), life(&[]), life(&[])].concat());
        assert_eq!(adjusted.lives(&once, 1), life(&[]), "conmon has it cleaned up");
        if kernel_tells_exit_codes() {
            let told = (&stopped["container"]["exitCode"], &stopped["container"]["statusReason"]);
            assert_eq!(told, (&json!(3), &json!("Error")));
        }
        podman.out(&["rm", "once", "again"]);
        assert_eq!(journal.events(&again).len(), 3 * life(&[]).len());
    });
}

#[test]
fn a_foreground_container_is_as_without_us() {
    for_each("podman run --rm, --tty, --interactive", |suite, go| {
        let adjusted = Adjusted::start(suite, go, &adjustment());
        let podman = &adjusted.podman;
        let run = ["run", "--rm", "--network", "none"];
        let ended = podman
            .podman(&[&run, &[IMAGE, "sh", "-c", "echo out; echo err >&2; exit 5"][..]].concat());
        assert_eq!(
            (ended.code, ended.out(), ended.err()),
            (Some(5), "out\n".into(), "err\n".into())
        );

        // As a person would. (What a container says that ends at once, Podman 4.3 loses now and
        // then, with the bare runtime, too.)
        let shell = podman.client(&[&run[..], &["--interactive", "--tty", IMAGE, "sh"]].concat());
        let terminal = Terminal::run(&shell);
        terminal.wait_for("# ");
        terminal.write("echo I am $NRI on $(tty)\n");
        terminal.wait_for("I am here on /dev/pts/0");
        terminal.write("exit 6\n");
        assert_eq!(terminal.end(), Some(6));

        let piped = podman.path("piped");
        std::fs::write(&piped, "a line\n").unwrap();
        let mut cat = podman.client(&[&run[..], &["--interactive", IMAGE, "cat"]].concat());
        cat.stdin(std::fs::File::open(&piped).unwrap());
        assert_eq!(podman.run(cat).success().out(), "a line\n");
        assert_eq!(podman.out(&["ps", "--all", "--quiet"]), "");
        let removed = |e: &&Value| e["event"] == "RemovePodSandbox";
        wait_until("three lives to end", || {
            (adjusted.plugin.journal.entries().iter().filter(removed).count() == 3).then_some(())
        });
    });
}

#[test]
fn what_carries_no_event_works() {
    for_each("podman pause, top, stats, logs, cp, health checks, exec", |suite, go| {
        let adjusted = Adjusted::start(suite, go, &adjustment());
        let podman = &adjusted.podman;
        let script = "echo begun; trap 'exit 0' TERM; sleep 600 & wait";
        let health = "test \"$NRI\" = here && test $(ulimit -c) = 1";
        let options = ["--network=none", "--health-cmd", health, "--health-interval=disable"];
        let id = podman.run_detached("web", &[&options[..], &[IMAGE, "sh", "-c", script]].concat());
        podman.out(&["pause", "web"]);
        assert_eq!(podman.inspect("web")["State"]["Status"], "paused");
        podman.out(&["unpause", "web"]);
        assert!(podman.out(&["top", "web"]).contains("sleep 600"));
        let stats = podman.out(&["stats", "--no-stream", "--format", "{{.MemUsage}}", "web"]);
        // 4.3 tells what it asked for itself.
        let limit = if suite.version("podman") >= (5, 0) { "/ 104.9MB" } else { "GB" };
        assert!(stats.ends_with(limit), "the plugin's limit: {stats}");
        assert_eq!(podman.out(&["logs", "web"]), "begun");
        let file = podman.path("copied");
        let path = file.to_str().unwrap();
        std::fs::write(&file, "by podman cp").unwrap();
        podman.out(&["cp", path, "web:/tmp/in"]);
        assert_eq!(podman.out(&["exec", "web", "cat", "/tmp/in"]), "by podman cp");
        let shell = Terminal::run(&podman.client(&["exec", "--interactive", "--tty", "web", "sh"]));
        shell.wait_for("# ");
        shell.write("echo I am $NRI on $(tty) with $(ulimit -c)\n");
        shell.wait_for("I am here on /dev/pts/0 with 1");
        shell.write("exit 8\n");
        assert_eq!(shell.end(), Some(8));
        assert_eq!(podman.podman(&["exec", "web", "sh", "-c", "exit 9"]).code, Some(9));
        podman.out(&["healthcheck", "run", "web"]);
        assert_eq!(adjusted.plugin.journal.events(&id), TO_START);
        podman.out(&["rm", "--force", "web"]);
        assert_eq!(adjusted.lives(&id, 1), life(&[]));
    });
}

#[test]
fn many_at_once() {
    for_each("podman run, many at once", |suite, go| {
        let adjusted = Adjusted::start(suite, go, &adjustment());
        let podman = &adjusted.podman;
        std::thread::scope(|scope| {
            for n in 0..6 {
                scope.spawn(move || {
                    let script = format!("echo {n} $NRI; exit {n}");
                    let ended = podman.podman(&[
                        "run",
                        "--rm",
                        "--network=none",
                        IMAGE,
                        "sh",
                        "-c",
                        &script,
                    ]);
                    assert_eq!(
                        (ended.code, ended.out()),
                        (Some(n), format!("{n} here\n")),
                        "{}",
                        ended.err()
                    );
                });
            }
        });
        let entries = adjusted.plugin.journal.entries();
        let created = entries.iter().filter(|e| e["event"] == "PostCreateContainer");
        let ids: Vec<_> = created.map(|e| e["container_id"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), 6);
        for id in ids {
            assert_eq!(adjusted.lives(id, 1), life(&[]));
        }
    });
}
