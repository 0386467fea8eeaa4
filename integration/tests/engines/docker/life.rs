//! Lives of containers: what plugins hear of them, and what containers and users of Docker see.

use super::*;
use crate::{TO_START, life};

#[test]
fn a_container_is_adjusted_and_followed() {
    for_each("docker, a life", |suite, go| {
        let adjusted = Adjusted::start(suite, go, &adjustment());
        let docker = &adjusted.docker;
        let id = docker.run_detached("web", &[&["--network", "none", IMAGE], &WAIT[..]].concat());
        let inside = |script: &str| docker.out(&["exec", "web", "sh", "-c", script]);

        let look = docker.look_at("web");
        assert_eq!(look.env("NRI").as_deref(), Some("here"));
        assert_eq!(look.rlimit("Max core file size"), Some(("512".into(), "1024".into())));
        assert_eq!(look.limit("cpuset", "cpuset.cpus", "cpuset.cpus"), "0");
        assert_eq!(look.limit("pids", "pids.max", "pids.max"), "66");
        assert_eq!(look.limit("memory", "memory.limit_in_bytes", "memory.max"), "104857600");
        assert_eq!(look.limit("memory", "memory.soft_limit_in_bytes", "memory.low"), "33554432");
        assert_eq!(inside("cut -d' ' -f1 /nri"), "Linux", "the mount");
        assert_eq!(inside("stat -c '%t:%T %a' /dev/nri"), "1:3 666", "the device");
        assert_eq!(inside("echo > /dev/nri && echo written"), "written", "it may be used");
        let cgroup = if unified_cgroups() { "" } else { "memory/memory.limit_in_bytes cpuset/" };
        let files = format!(
            "cd /sys/fs/cgroup; cat {cgroup}cpuset.cpus; [ -z '{cgroup}' ] && cat memory.max; :"
        );
        assert!(inside(&files).contains("104857600"), "the limits, seen inside");
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

        docker.out(&["stop", "web"]);
        assert_eq!(adjusted.lives(&id, 1), life(&[]));
        docker.out(&["rm", "web"]);
        assert_eq!(adjusted.plugin.journal.events(&id), life(&[]), "nothing is told twice");
        let stopped = &adjusted.plugin.journal.wait_for("StopContainer", &id)["container"];
        if kernel_tells_exit_codes() {
            assert_eq!(stopped["statusReason"], "Completed", "{stopped}");
        }
    });
}

#[test]
fn each_start_is_a_life() {
    for_each("docker start, restart, kill, rm --force", |suite, go| {
        let adjusted = Adjusted::start(suite, go, &adjustment());
        let docker = &adjusted.docker;
        let id = docker.run_detached("web", &[&["--network", "none", IMAGE], &WAIT[..]].concat());
        let stoppable = || {
            let first = docker.look_at("web").0;
            wait_until("its trap", || first.catches(rustix::process::Signal::TERM).then_some(()));
        };
        stoppable();
        docker.out(&["stop", "web"]);
        docker.out(&["start", "web"]);
        stoppable();
        docker.out(&["restart", "web"]);
        assert_eq!(docker.out(&["exec", "web", "sh", "-c", "echo $NRI"]), "here");
        docker.out(&["kill", "web"]);
        assert_eq!(adjusted.lives(&id, 3), [life(&[]), life(&[]), life(&[])].concat());
        if kernel_tells_exit_codes() {
            let entries = adjusted.plugin.journal.about(&id);
            let codes: Vec<_> = entries
                .iter()
                .filter(|e| e["event"] == "StopContainer")
                .map(|e| e["container"]["exitCode"].as_i64().unwrap_or(0))
                .collect();
            assert_eq!(codes, [0, 0, 137]);
        }
        docker.out(&["start", "web"]);
        docker.out(&["rm", "--force", "web"]);
        assert_eq!(adjusted.lives(&id, 4), [life(&[]), life(&[]), life(&[]), life(&[])].concat());
    });
}

#[test]
fn one_that_ends_by_itself_is_noticed_and_restarted() {
    for_each("docker run --restart", |suite, go| {
        let adjusted = Adjusted::start(suite, go, &adjustment());
        let (docker, journal) = (&adjusted.docker, &adjusted.plugin.journal);
        let once = docker.run_detached("once", &["--network", "none", IMAGE, "sh", "-c", "exit 3"]);
        let stopped = journal.wait_for("StopContainer", &once);
        assert_eq!(docker.out(&["wait", "once"]), "3");
        let again = docker.run_detached(
            "again",
            &["--network", "none", "--restart", "on-failure:2", IMAGE, "sh", "-c", "exit 4"],
        );
        assert_eq!(adjusted.lives(&again, 3), [life(&[]), life(&[]), life(&[])].concat());
        assert_eq!(adjusted.lives(&once, 1), life(&[]));
        if kernel_tells_exit_codes() {
            let told = (&stopped["container"]["exitCode"], &stopped["container"]["statusReason"]);
            assert_eq!(told, (&json!(3), &json!("Error")));
        }
        docker.out(&["rm", "once", "again"]);
        assert_eq!(journal.events(&again).len(), 3 * life(&[]).len());
    });
}

#[test]
fn a_foreground_container_is_as_without_us() {
    for_each("docker run --rm, --tty, --interactive", |suite, go| {
        let adjusted = Adjusted::start(suite, go, &adjustment());
        let docker = &adjusted.docker;
        let run = ["run", "--rm", "--network", "none"];
        let ended = docker
            .docker(&[&run, &[IMAGE, "sh", "-c", "echo out; echo err >&2; exit 5"][..]].concat());
        assert_eq!(
            (ended.code, ended.out(), ended.err()),
            (Some(5), "out\n".into(), "err\n".into())
        );
        let tty = docker.out(&[&run, &["--tty", IMAGE, "sh", "-c", "tty; echo $NRI"][..]].concat());
        assert_eq!(tty.replace('\r', ""), "/dev/pts/0\nhere");

        // As a person would.
        let shell = docker.client(&[&run[..], &["--interactive", "--tty", IMAGE, "sh"]].concat());
        let terminal = Terminal::run(&shell);
        terminal.wait_for("# ");
        terminal.write("echo I am $NRI on $(tty)\n");
        terminal.wait_for("I am here on /dev/pts/0");
        terminal.write("exit 6\n");
        assert_eq!(terminal.end(), Some(6));

        let piped = docker.path("piped");
        std::fs::write(&piped, "a line\n").unwrap();
        let mut cat = docker.client(&[&run[..], &["--interactive", IMAGE, "cat"]].concat());
        cat.stdin(std::fs::File::open(&piped).unwrap());
        assert_eq!(docker.run(cat).success().out(), "a line\n");
        wait_until("all to be removed", || {
            docker.out(&["ps", "--all", "--quiet"]).is_empty().then_some(())
        });
        let removed = |e: &&Value| e["event"] == "RemovePodSandbox";
        wait_until("four lives to end", || {
            (adjusted.plugin.journal.entries().iter().filter(removed).count() == 4).then_some(())
        });
    });
}

#[test]
fn what_carries_no_event_works() {
    for_each("docker pause, top, stats, logs, cp, health checks", |suite, go| {
        let adjusted = Adjusted::start(suite, go, &adjustment());
        let docker = &adjusted.docker;
        let script = "echo begun; trap 'exit 0' TERM; sleep 600 & wait";
        let health = "test \"$NRI\" = here && test $(ulimit -c) = 1";
        let id = docker.run_detached(
            "web",
            &[
                "--network=none",
                "--health-cmd",
                health,
                "--health-interval=1s",
                IMAGE,
                "sh",
                "-c",
                script,
            ],
        );
        docker.out(&["pause", "web"]);
        assert_eq!(docker.out(&["inspect", "--format", "{{.State.Status}}", "web"]), "paused");
        docker.out(&["unpause", "web"]);
        assert!(docker.out(&["top", "web"]).contains("sleep 600"));
        let stats = docker.out(&["stats", "--no-stream", "--format", "{{.MemUsage}}", "web"]);
        assert!(stats.ends_with("/ 100MiB"), "the plugin's limit: {stats}");
        assert_eq!(docker.out(&["logs", "web"]), "begun");
        let file = docker.path("copied");
        let path = file.to_str().unwrap();
        std::fs::write(&file, "by docker cp").unwrap();
        docker.out(&["cp", path, "web:/tmp/in"]);
        docker.out(&["cp", "web:/tmp/in", &format!("{path}.out")]);
        assert_eq!(std::fs::read_to_string(format!("{path}.out")).unwrap(), "by docker cp");
        let terminal = docker.out(&["exec", "--tty", "web", "sh", "-c", "tty; echo $NRI"]);
        assert_eq!(terminal.replace('\r', ""), "/dev/pts/0\nhere");
        assert_eq!(docker.docker(&["exec", "web", "sh", "-c", "exit 9"]).code, Some(9));
        wait_until("the health check", || {
            let health = docker.out(&["inspect", "--format", "{{.State.Health.Status}}", "web"]);
            assert_ne!(health, "unhealthy", "{}", docker.out(&["inspect", "web"]));
            (health == "healthy").then_some(())
        });
        assert_eq!(adjusted.plugin.journal.events(&id), TO_START);
        docker.out(&["rm", "--force", "web"]);
        assert_eq!(adjusted.lives(&id, 1), life(&[]));
    });
}

#[test]
fn many_at_once() {
    for_each("docker run, many at once", |suite, go| {
        let adjusted = Adjusted::start(suite, go, &adjustment());
        let docker = &adjusted.docker;
        std::thread::scope(|scope| {
            for n in 0..8 {
                scope.spawn(move || {
                    let script = format!("echo {n} $NRI; exit {n}");
                    let ended = docker.docker(&[
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
        let journal = &adjusted.plugin.journal;
        let ids = || -> Vec<String> {
            let created =
                journal.entries().into_iter().filter(|e| e["event"] == "PostCreateContainer");
            created.map(|e| e["container_id"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(ids().len(), 8);
        for id in ids() {
            assert_eq!(adjusted.lives(&id, 1), life(&[]));
        }
    });
}
