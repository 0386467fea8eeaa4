//! Tests of containers' life cycles: the events that plugins receive, the adjusted values in the
//! container, and the output of the engine's client.

use crate::adjusted::*;
use nri_integration::{engines::*, *};
use rustix::process::Signal;
use serde_json::json;
use std::process::Command;

test_both! {
    a_container_is_adjusted_and_its_events_arrive_in_order,
    each_start_begins_a_new_life_cycle,
    an_exit_is_detected_and_each_restart_begins_a_new_life_cycle,
    a_foreground_container_runs_as_without_the_wrapper,
    verbs_without_events_work,
    exec_has_not_more_rights_than_the_container_where_it_is_configured,
    containers_can_run_concurrently,
}

fn a_container_is_adjusted_and_its_events_arrive_in_order<E: Engine>() {
    for_each::<E>("life cycle", |suite, go_plugin| {
        let adjusted = Adjusted::<E>::start(suite, go_plugin);
        let (engine, journal) = (&adjusted.engine, &adjusted.plugin.journal);
        let id = adjusted.run_waiting("web");
        let inside = |script: &str| engine.out(&["exec", "web", "sh", "-c", script]);

        let process = engine.process_of("web");
        assert_eq!(process.env("NRI").as_deref(), Some("here"));
        assert_eq!(process.rlimit("Max core file size"), Some(("512".into(), "1024".into())));
        check_resources_except(process, &[]);
        assert_eq!(inside("cut -d' ' -f1 /nri"), "Linux", "the source of the mount");
        assert_eq!(
            inside("stat -c '%t:%T %a' /dev/nri"),
            "1:3 666",
            "number and mode of the device"
        );
        assert_eq!(inside("echo > /dev/nri && echo written"), "written", "a write to the device");
        let file = if is_cgroup_v2() { "memory.max" } else { "memory/memory.limit_in_bytes" };
        assert_eq!(
            inside(&format!("cat /sys/fs/cgroup/{file}")),
            "104857600",
            "the memory limit, read in the container"
        );
        let cpus = inside("grep Cpus_allowed_list /proc/self/status | tr -d '\\t'");
        assert_eq!(cpus, "Cpus_allowed_list:0");
        // `ulimit -c` prints the limit in blocks of 512 bytes.
        let limits = inside("echo $NRI; ulimit -c; ulimit -H -c");
        assert_eq!(limits, "here\n1\n2", "variable and rlimit of an exec process");
        let started = journal.wait_for("PostStartContainer", &id);
        assert_eq!(journal.events(&id), TO_START);
        assert_eq!(started["pid"], process.0.0);

        engine.out(&["stop", "web"]);
        assert_eq!(adjusted.events_until_removal(&id, 1), life_cycle(&[]));
        engine.out(&["rm", "web"]);
        assert_eq!(journal.events(&id), life_cycle(&[]), "rm must send no event");
        if kernel_reports_exit_codes() {
            let stopped = &journal.wait_for("StopContainer", &id)["container"];
            assert_eq!(stopped["statusReason"], "Completed", "{stopped}");
        }
    });
}

fn each_start_begins_a_new_life_cycle<E: Engine>() {
    for_each::<E>("start, restart, kill, rm --force", |suite, go_plugin| {
        let adjusted = Adjusted::<E>::start(suite, go_plugin);
        let engine = &adjusted.engine;
        let id = adjusted.run_waiting("web");
        let wait_for_trap = || {
            let process = engine.process_of("web").0;
            wait_until("the shell to set its trap of SIGTERM", || {
                process.catches(Signal::TERM).then_some(())
            });
        };
        wait_for_trap();
        engine.out(&["stop", "web"]);
        engine.out(&["start", "web"]);
        wait_for_trap();
        engine.out(&["restart", "web"]);
        assert_eq!(engine.out(&["exec", "web", "sh", "-c", "echo $NRI"]), "here");
        engine.out(&["kill", "web"]);
        assert_eq!(adjusted.events_until_removal(&id, 3), life_cycle(&[]).repeat(3));
        if kernel_reports_exit_codes() {
            let events = adjusted.plugin.journal.entries_about(&id).into_iter();
            let codes: Vec<_> = events
                .filter(|e| e["event"] == "StopContainer")
                .map(|e| e["container"]["exitCode"].as_i64().unwrap_or(0))
                .collect();
            // `stop` and `restart` send SIGTERM, at which the shell exits with 0; `kill` sends
            // SIGKILL.
            assert_eq!(codes, [0, 0, 137]);
        }
        engine.out(&["start", "web"]);
        engine.out(&["rm", "--force", "web"]);
        assert_eq!(adjusted.events_until_removal(&id, 4), life_cycle(&[]).repeat(4));
    });
}

fn an_exit_is_detected_and_each_restart_begins_a_new_life_cycle<E: Engine>() {
    for_each::<E>("run --detach, --restart", |suite, go_plugin| {
        let adjusted = Adjusted::<E>::start(suite, go_plugin);
        let (engine, journal) = (&adjusted.engine, &adjusted.plugin.journal);
        let command = |script| ["--network=none", IMAGE, "sh", "-c", script];
        let once = engine.run_detached("once", &command("exit 3"));
        let stopped = journal.wait_for("StopContainer", &once);
        assert_eq!(engine.out(&["wait", "once"]), "3");
        let restarted = [&["--restart", "on-failure:2"], &command("exit 4")[..]].concat();
        let again = engine.run_detached("again", &restarted);
        // The first start and two restarts.
        assert_eq!(adjusted.events_until_removal(&again, 3), life_cycle(&[]).repeat(3));
        assert_eq!(adjusted.events_until_removal(&once, 1), life_cycle(&[]));
        if kernel_reports_exit_codes() {
            let container = &stopped["container"];
            let exit = (&container["exitCode"], &container["statusReason"]);
            assert_eq!(exit, (&json!(3), &json!("Error")));
        }
        engine.out(&["rm", "once", "again"]);
        assert_eq!(journal.events(&again).len(), 3 * life_cycle(&[]).len());
    });
}

fn a_foreground_container_runs_as_without_the_wrapper<E: Engine>() {
    for_each::<E>("run --rm, --tty, --interactive", |suite, go_plugin| {
        let adjusted = Adjusted::<E>::start(suite, go_plugin);
        let engine = &adjusted.engine;
        let run =
            |more: &[&str]| engine.client(&[&["run", "--rm", "--network=none"], more].concat());
        let ended = engine.run(run(&[IMAGE, "sh", "-c", "echo out; echo err >&2; exit 5"]));
        let (out, err) = (ended.out(), ended.err());
        assert_eq!((ended.code, out.as_str(), err.as_str()), (Some(5), "out\n", "err\n"));

        // The shell is interactive, because Podman 4.3 may lose the output of a container with a
        // terminal if the container exits at once, also with the bare runtime.
        let terminal = Terminal::run(&run(&["--interactive", "--tty", IMAGE, "sh"]));
        terminal.wait_for("# ");
        terminal.write("echo I am $NRI on $(tty)\n");
        terminal.wait_for("I am here on /dev/pts/0");
        terminal.write("exit 6\n");
        assert_eq!(terminal.wait_for_exit(), Some(6));

        let piped = engine.path("piped");
        std::fs::write(&piped, "a line\n").unwrap();
        let mut cat = run(&["--interactive", IMAGE, "cat"]);
        cat.stdin(std::fs::File::open(&piped).unwrap());
        assert_eq!(engine.run(cat).success().out(), "a line\n");
        wait_until("the engine to remove all containers", || {
            engine.out(&["ps", "--all", "--quiet"]).is_empty().then_some(())
        });
        adjusted.wait_for_removals(3);
    });
}

fn verbs_without_events_work<E: Engine>() {
    for_each::<E>("pause, top, logs, cp, exec", |suite, go_plugin| {
        let adjusted = Adjusted::<E>::start(suite, go_plugin);
        let engine = &adjusted.engine;
        let script = "echo started; trap 'exit 0' TERM; sleep 600 & wait";
        let id = engine.run_detached("web", &["--network=none", IMAGE, "sh", "-c", script]);
        engine.out(&["pause", "web"]);
        assert_eq!(engine.inspect("web")["State"]["Status"], "paused");
        engine.out(&["unpause", "web"]);
        // dockerd calls ps, which finds no boot time in User Mode Linux.
        if E::NAME == "docker"
            && !Command::new("ps").arg("-ef").output().is_ok_and(|o| o.status.success())
        {
            limitation("docker top", "ps fails on this machine");
        } else {
            assert!(engine.out(&["top", "web"]).contains("sleep 600"));
        }
        assert_eq!(engine.out(&["logs", "web"]), "started");
        let file = engine.path("copied");
        let path = file.to_str().unwrap();
        std::fs::write(&file, "copied").unwrap();
        engine.out(&["cp", path, "web:/tmp/in"]);
        assert_eq!(engine.out(&["exec", "web", "cat", "/tmp/in"]), "copied");
        engine.out(&["cp", "web:/tmp/in", &format!("{path}.out")]);
        assert_eq!(std::fs::read_to_string(format!("{path}.out")).unwrap(), "copied");
        let shell = Terminal::run(&engine.client(&["exec", "--interactive", "--tty", "web", "sh"]));
        shell.wait_for("# ");
        // The soft limit of the adjustment is one block of 512 bytes.
        shell.write("echo I am $NRI on $(tty) with $(ulimit -c)\n");
        shell.wait_for("I am here on /dev/pts/0 with 1");
        shell.write("exit 8\n");
        assert_eq!(shell.wait_for_exit(), Some(8));
        assert_eq!(engine.call_client(&["exec", "web", "sh", "-c", "exit 9"]).code, Some(9));
        assert_eq!(adjusted.plugin.journal.events(&id), TO_START);
        engine.out(&["rm", "--force", "web"]);
        assert_eq!(adjusted.events_until_removal(&id, 1), life_cycle(&[]));
    });
}

fn containers_can_run_concurrently<E: Engine>() {
    const CONTAINERS: i32 = 8;
    for_each::<E>("run, many at once", |suite, go_plugin| {
        let adjusted = Adjusted::<E>::start(suite, go_plugin);
        let engine = &adjusted.engine;
        std::thread::scope(|scope| {
            for n in 0..CONTAINERS {
                scope.spawn(move || {
                    let script = format!("echo {n} $NRI; exit {n}");
                    let ended = engine.run_with("nri", &[IMAGE, "sh", "-c", &script]);
                    let expected = (Some(n), format!("{n} here\n"));
                    assert_eq!((ended.code, ended.out()), expected, "{}", ended.err());
                });
            }
        });
        let entries = adjusted.plugin.journal.entries();
        let created = entries.iter().filter(|e| e["event"] == "PostCreateContainer");
        let ids: Vec<_> = created.map(|e| e["container_id"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), CONTAINERS as usize);
        for id in ids {
            assert_eq!(adjusted.events_until_removal(id, 1), life_cycle(&[]));
        }
    });
}

fn exec_has_not_more_rights_than_the_container_where_it_is_configured<E: Engine>() {
    let name = format!("{} limits of exec", E::NAME);
    for_each_suite(&name, E::PROGRAM, |suite| {
        let engine = E::start(suite);
        let exec = |options: &[&str], container: &str| {
            let script = "grep -E 'CapBnd|CapEff|Uid' /proc/self/status";
            engine.call_client(&[&["exec"], options, &[container, "sh", "-c", script]].concat())
        };
        engine.run_detached("unlimited", &[&["--network=none", IMAGE], &WAIT[..]].concat());
        // Docker 20.10 asks for all capabilities that it knows, whether it has them or not.
        let bare = [&["--network=none", IMAGE], &WAIT[..]].concat();
        match E::NAME {
            "docker" => engine.run_detached("bare", &[&["--runtime=runc"], &bare[..]].concat()),
            _ => engine.out(&[&["--runtime=runc", "run", "-d", "--name=bare"], &bare[..]].concat()),
        };
        let on_bare = exec(&["--privileged"], "bare");
        let all = exec(&["--privileged"], "unlimited");
        let can = on_bare.code == Some(0);
        assert_eq!(all.code == Some(0), can, "{}{}", all.err(), all.out());
        let all = all.out();
        if can {
            assert_eq!(all, on_bare.out());
            assert_ne!(all, exec(&[], "unlimited").success().out(), "more than the container");
        } else {
            limitation(&name, &format!("exec --privileged without the wrapper: {}", on_bare.out()));
        }
        engine.configure("exec.more_rights = 'refuse'\n");
        engine.ctl(&["reload"]).success();
        engine.run_detached("limited", &[&["--network=none", IMAGE], &WAIT[..]].concat());
        let user = ["--network=none", "--user=1:1", "--cap-drop=all", IMAGE];
        engine.run_detached("user", &[&user, &WAIT[..]].concat());
        for container in ["limited", "user"] {
            let refused = exec(&["--privileged"], container);
            assert_ne!(refused.code, Some(0), "{}", refused.out());
            let said = refused.err() + &refused.out();
            assert!(said.contains("more than the container has: CAP_"), "{said}");
            assert!(said.contains("more_rights"), "{said}");
            exec(&[], container).success();
            exec(&["--user=0"], container).success();
            exec(&["--user=7:7"], container).success();
        }
        // The container from before has no limits.
        assert_eq!(exec(&["--privileged"], "unlimited").out(), all);
        if !can {
            return;
        }
        let privileged = ["--network=none", "--privileged", IMAGE];
        engine.run_detached("privileged", &[&privileged, &WAIT[..]].concat());
        exec(&["--privileged"], "privileged").success();
    });
}
