//! Podman with crun, as most have it.

use super::*;
use crate::life;

#[test]
fn a_container_is_adjusted_updated_and_followed() {
    for_each("podman, crun", |suite, go| {
        let adjusted = Adjusted::with(Podman::start_on_crun(suite), go, &adjustment());
        let podman = &adjusted.podman;
        let id = podman.run_detached("web", &[&["--network=none", IMAGE], &WAIT[..]].concat());
        let look = podman.look_at("web");
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
            podman.out(&["exec", "web", "sh", "-c", "echo $NRI; ulimit -c; ulimit -H -c"]),
            "here\n1\n2"
        );
        podman.out(&["update", "--cpus", "0.5", "web"]);
        let quota = look.limit("cpu", "cpu.cfs_quota_us", "cpu.max");
        assert_eq!(quota.split(' ').next(), Some("50000"));
        check();
        podman.out(&["stop", "web"]);
        podman.out(&["start", "web"]);
        podman.out(&["rm", "--force", "web"]);
        let updated = life(&["UpdateContainer", "PostUpdateContainer"]);
        assert_eq!(adjusted.lives(&id, 2), [updated, life(&[])].concat());

        for (code, command) in [(127, "no-such-command"), (126, "/etc")] {
            let run = |runtime| {
                podman.podman(&[
                    "--runtime",
                    runtime,
                    "run",
                    "--rm",
                    "--network=none",
                    IMAGE,
                    command,
                ])
            };
            let (bare, ours) = (run("crun"), run("nri"));
            assert_eq!((bare.code, ours.code), (Some(code), Some(code)), "{}", ours.err());
            // Podman names its runtime.
            assert_eq!(ours.err().replace("nri:", "crun:"), bare.err());
        }
    });
}
