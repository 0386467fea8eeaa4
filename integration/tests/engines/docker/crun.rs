//! Docker with crun.

use super::*;
use crate::life;

#[test]
fn a_container_is_adjusted_updated_and_followed() {
    for_each("docker, crun", |suite, go| {
        let adjusted = Adjusted::with(Docker::start_on_crun(suite), go, &adjustment());
        let docker = &adjusted.docker;
        let id = docker.run_detached("web", &[&["--network=none", IMAGE], &WAIT[..]].concat());
        let look = docker.look_at("web");
        assert_eq!(look.env("NRI").as_deref(), Some("here"));
        assert_eq!(look.rlimit("Max core file size"), Some(("512".into(), "1024".into())));
        let check = || {
            assert_eq!(look.limit("cpuset", "cpuset.cpus", "cpuset.cpus"), "0");
            assert_eq!(look.limit("pids", "pids.max", "pids.max"), "66");
            assert_eq!(look.limit("memory", "memory.limit_in_bytes", "memory.max"), "104857600");
            assert_eq!(
                look.limit("memory", "memory.soft_limit_in_bytes", "memory.low"),
                "33554432"
            );
            if !unified_cgroups() {
                assert_eq!(look.limit("cpu", "cpu.shares", ""), "512");
            }
        };
        check();
        // In blocks of 512 bytes.
        assert_eq!(
            docker.out(&["exec", "web", "sh", "-c", "echo $NRI; ulimit -c; ulimit -H -c"]),
            "here\n1\n2"
        );
        docker.out(&["update", "--cpus", "0.5", "web"]);
        let quota = look.limit("cpu", "cpu.cfs_quota_us", "cpu.max");
        assert_eq!(quota.split(' ').next(), Some("50000"));
        check();
        docker.out(&["stop", "web"]);
        docker.out(&["start", "web"]);
        docker.out(&["rm", "--force", "web"]);
        let updated = life(&["UpdateContainer", "PostUpdateContainer"]);
        assert_eq!(adjusted.lives(&id, 2), [updated, life(&[])].concat());

        for command in ["no-such-command", "/etc"] {
            let run = |runtime| {
                docker.docker(&[
                    "run",
                    "--rm",
                    "--network=none",
                    "--runtime",
                    runtime,
                    IMAGE,
                    command,
                ])
            };
            let (bare, ours) = (run("crun"), run("nri"));
            assert!(bare.code.is_some_and(|code| code >= 125), "{}", bare.err());
            assert_eq!(ours.code, bare.code, "{}", ours.err());
            // The client of 20.10 may add a line of its own.
            let line = |ended: &Ended| ended.err().lines().next().map(str::to_owned);
            assert_eq!(line(&ours), line(&bare));
        }
    });
}
