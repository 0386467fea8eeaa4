//! `uninstall` after edits, and while containers run, for several engines.

use crate::image::{CRUN, Image};
use std::fs;

const DOCKER: &str = "/etc/docker/daemon.json";
const CONTAINERD: &str = "/etc/containerd/config.toml";

/// A table that has several of our values is removed with the last of them.
#[test]
fn several_runtimes_are_removed_completely_after_an_edit() {
    let check = |engine: &str, file: &str, text: &str| {
        let image = Image::with(file, text);
        image.run_ok(&format!("install {engine} --default --runtime nri-crun={CRUN}"));
        image.edit(file, "999", "998");
        image.run_ok(&format!("uninstall {engine}"));
        assert_eq!(image.read(file), text.replace("999", "998"));
    };
    check("docker", DOCKER, "{\n  \"mtu\": 999\n}\n");
    check("docker", DOCKER, "{\n  \"mtu\": 999,\n  \"runtimes\": {}\n}\n");
    for (version, plugin) in [(2, "io.containerd.grpc.v1.cri"), (3, "io.containerd.cri.v1.runtime")]
    {
        let head = format!("version = {version}\noom_score = -999\n");
        check("containerd", CONTAINERD, &head);
        check(
            "containerd",
            CONTAINERD,
            &format!("{head}\n[plugins.\"{plugin}\"]\n  x = 1 # one\n"),
        );
        check("containerd", CONTAINERD, &format!("{head}plugins.\"{plugin}\".x = 1\n"));
    }
}

const RECORDS: &str = "/run/nri-container-runtime/containers";

/// Writes the record of a container, whose process has this pid and the start time 77.
fn record(image: &Image, engine: &str, id: &str, name: &str, pid: u32) {
    let cri = if engine == "containerd" { "\"/run/containerd/containerd.sock\"" } else { "null" };
    let record = format!(
        "{{\"key\":{{\"root\":\"/run/runc\",\"id\":\"{id}\"}},\"engine\":{{\"engine\":\"{engine}\",\
         \"cri\":{cri}}},\"container\":{{\"name\":\"{name}\"}},\"status\":\"running\",\
         \"pid\":{pid},\"start_time\":77}}"
    );
    image.write(&format!("{RECORDS}/{id}.json"), record.as_bytes());
}

/// Writes `/proc/PID/stat` of a process whose program has a name with parentheses. Between the pid
/// of the parent process (1) and the start time are 17 fields.
fn process(image: &Image, pid: u32, state: char, start_time: u32) {
    let stat = format!("{pid} (a) b) {state} 1{} {start_time} 0 0\n", " 5".repeat(17));
    image.write(&format!("/proc/{pid}/stat"), stat.as_bytes());
}

#[test]
fn uninstall_refuses_while_containers_of_the_engine_run() {
    for (engine, recorded, other) in [
        ("podman", "podman", "docker"),
        ("docker", "docker", "podman"),
        ("docker", "cri-dockerd", "containerd"),
        ("containerd", "containerd", "nerdctl"),
        ("crio", "cri-o", "podman"),
        ("isulad", "isulad", "docker"),
    ] {
        let image = Image::new();
        image.run_ok(&format!("install {engine}"));
        record(&image, recorded, "0123456789abcdef", "web", 41);
        record(&image, recorded, "plain", "plain", 42);
        record(&image, recorded, "ended", "ended", 43);
        record(&image, recorded, "reused", "reused", 44);
        record(&image, recorded, "zombie", "zombie", 45);
        record(&image, other, "other", "other", 46);
        for (pid, state, start_time) in
            [(41, 'S', 77), (42, 'T', 77), (44, 'S', 78), (45, 'Z', 77), (46, 'S', 77)]
        {
            process(&image, pid, state, start_time);
        }
        let containers = "2 running containers of the wrapper: plain, web (0123456789ab); ";
        for options in ["", " --dry-run"] {
            let refused = image.refused(&format!("uninstall {engine}{options}"));
            assert!(refused.contains(&format!("{engine} has {containers}")), "{refused}");
            assert!(refused.ends_with(" first, or give --force\n"), "{refused}");
        }
        let output = image.run_ok(&format!("uninstall {engine} --force"));
        assert!(output.contains(&format!("note: {engine} has {containers}")), "{output}");
        // Running containers are ignored if the engine's files no longer have the wrapper.
        let output = image.run_ok(&format!("uninstall {engine}"));
        assert!(output.contains("nothing to do"), "{output}");
    }
}

#[test]
fn containers_are_found_in_any_state_directory_and_at_most_five_are_named() {
    let image = Image::new();
    image.run_ok("install podman");
    for id in 1..=7 {
        record(&image, "podman", &format!("c{id}"), "", id);
        process(&image, id, 'S', 77);
    }
    let expected = "7 running containers of the wrapper: c1, c2, c3, c4, c5 and 2 more; ";
    let check = |options: &str| {
        let refused = image.refused(&format!("uninstall podman{options}"));
        assert!(refused.contains(expected), "{options}: {refused}");
    };
    check("");
    let move_to = |from: &str, to: &str| {
        fs::create_dir_all(image.at(to)).unwrap();
        fs::rename(image.at(from).join("containers"), image.at(to).join("containers")).unwrap();
    };
    // The state directory of a user, then a directory that an option or the configuration names.
    move_to("/run/nri-container-runtime", "/run/user/1000/nri-container-runtime");
    check("");
    move_to("/run/user/1000/nri-container-runtime", "/srv/state");
    check(" --state-dir /srv/state");
    let config = image.exists(crate::image::CONFIG).then(|| image.read(crate::image::CONFIG));
    let config = format!("state_dir = \"/srv/state\"\n{}", config.unwrap_or_default());
    image.write(crate::image::CONFIG, config.as_bytes());
    check("");
    // A record that cannot be parsed, or that is not a file, is ignored.
    image.write("/srv/state/containers/broken.json", b"{");
    fs::create_dir(image.at("/srv/state/containers/directory.json")).unwrap();
    check("");
    image.run_ok("uninstall podman --force");
}
