//! Tests of the recipes of the plugin `rules` (`src/plugins/rules/cookbook`), each as it is
//! written: what containers of Docker and Podman have of them. The recipe for builds is in
//! `tests/real/shipped/rules.rs`, since these engines have no BuildKit.

use crate::adjusted::*;
use nri_integration::{engines::*, *};
use std::{fs, os::unix::fs::symlink, path::Path};

test_both! {
    certificates_and_proxy_are_in_every_container,
    limits_apply_where_none_were_requested,
    host_mounts_are_refused,
    privileged_containers_are_of_listed_images,
    huge_pages_and_devices_come_by_label,
    gpus_come_through_cdi,
    labels_choose_what_the_kernel_kills_first,
    memory_high_follows_the_limit,
}

/// Runs a test with an engine of each suite whose `nrid` launches the plugin with this recipe, and
/// gives it all facts, and the labels of Podman.
pub(super) fn with_recipe<E: Engine>(recipe: &str, test: impl Fn(&E, &str)) {
    with_edited_recipe(recipe, |_, text| text, test);
}

/// As [`with_recipe`], with a change of the recipe for the directories of the engine.
pub(super) fn with_edited_recipe<E: Engine>(
    recipe: &str,
    edit: impl Fn(&E, String) -> String,
    test: impl Fn(&E, &str),
) {
    let name = format!("{} recipe {recipe}", E::NAME);
    for_each_suite(&name, E::PROGRAM, |suite| {
        let engine = E::start(suite);
        let specs = engine.path("cdi");
        engine.configure(&format!(
            "containers.facts = ['engine', 'capabilities', 'device_access', 'host_namespaces', \
                                 'mount_sources', 'privileged', 'seccomp', 'unprotected_paths']\n\
             pods.annotations_from_labels = ['example.com/']\n\
             cdi.spec_dirs = [{specs:?}]\n"
        ));
        let file = format!("../src/plugins/rules/cookbook/{recipe}.yaml");
        let text = edit(&engine, fs::read_to_string(script(&file)).unwrap());
        fs::write(engine.path("conf.d/50-rules.conf"), text).unwrap();
        symlink(engine.program("nri-rules"), engine.path("plugins/50-rules")).unwrap();
        test(&engine, &name);
    });
}

/// Starts a container with these options, which waits, and returns its process.
pub(super) fn run<E: Engine>(engine: &E, name: &str, options: &[&str]) -> ContainerProcess {
    engine.run_detached(name, &[&["--network=none"], options, &[IMAGE], &WAIT[..]].concat());
    engine.process_of(name)
}

/// Checks that a container with these options is refused, and that the engine shows the message.
#[track_caller]
pub(super) fn check_refused<E: Engine>(engine: &E, options: &[&str], message: &str) {
    let ended = engine.run_with("nri", &[options, &[IMAGE, "true"]].concat());
    assert_eq!(ended.code, Some(E::RUNTIME_FAILED), "{}", ended.err());
    assert!(ended.err().contains(message), "{}", ended.err());
    assert!(ended.err().contains("50-rules"), "{}", ended.err());
}

fn certificates_and_proxy_are_in_every_container<E: Engine>() {
    with_recipe::<E>("ca-and-proxy", |engine, name| {
        if !Path::new("/etc/ssl/certs").is_dir() {
            return skip(name, "no /etc/ssl/certs");
        }
        let web = run(engine, "web", &[]);
        let proxy = "http://proxy.example.com:3128";
        assert_eq!(web.env("HTTPS_PROXY").as_deref(), Some(proxy));
        assert_eq!(web.env("NO_PROXY").as_deref(), Some("localhost,127.0.0.1,.example.com"));
        let mount = web.mount("/etc/ssl/certs").expect("a mount");
        assert!(mount.contains(" ro"), "{mount}");
        let count = |dir: &Path| fs::read_dir(dir).unwrap().count();
        let inside = format!("/proc/{}/root/etc/ssl/certs", web.0.0);
        assert_eq!(count(Path::new(&inside)), count(Path::new("/etc/ssl/certs")));
        let own = run(engine, "own", &["--env=HTTP_PROXY=http://own.example:1"]);
        assert_eq!(own.env("HTTP_PROXY").as_deref(), Some("http://own.example:1"));
        assert_eq!(own.env("HTTPS_PROXY").as_deref(), Some(proxy));
    });
}

fn limits_apply_where_none_were_requested<E: Engine>() {
    with_recipe::<E>("defaults", |engine, name| {
        // The hard limit of the recipe, and a higher one.
        let (limit, higher) = if may_raise_limits() {
            (65536, 100_000)
        } else {
            limitation(name, "without CAP_SYS_RESOURCE, with lower limits of open files");
            let file = engine.path("conf.d/50-rules.conf");
            fs::write(&file, fs::read_to_string(&file).unwrap().replace("65536", "8192")).unwrap();
            (8192, 10_000)
        };
        let memory = |process: ContainerProcess| {
            process.limit("memory", "memory.limit_in_bytes", "memory.max")
        };
        let pids = |process: ContainerProcess| process.limit("pids", "pids.max", "pids.max");
        // Only the hard limit: the Go runtime in runc changes the soft one.
        let files = |process: ContainerProcess| process.rlimit("Max open files").unwrap().1;
        // Podman has a limit of its own, unless it is 0.
        let web = run(engine, "web", &["--pids-limit=0"]);
        assert_eq!(memory(web), (2_u64 << 30).to_string());
        assert_eq!(pids(web), "1000");
        let requested = if E::NAME == "podman" { web_files() } else { limit };
        assert_eq!(files(web), requested.min(limit).to_string());
        if E::NAME == "podman" && engine.suite().version("podman") < (5, 0) && !may_raise_limits() {
            return limitation(name, "this Podman requests a limit of processes above the host's");
        }
        let options = ["--memory=64m", "--pids-limit=50", "--ulimit=nofile=100:200"];
        let own = run(engine, "own", &options);
        assert_eq!((memory(own), pids(own)), ((64 << 20).to_string(), "50".to_owned()));
        assert_eq!(files(own), "200");
        let many = run(engine, "many", &[&format!("--ulimit=nofile={higher}:{higher}")]);
        assert_eq!(files(many), limit.to_string());
    });
}

/// Whether runtimes can raise hard limits and lower `oom_score_adj`: with CAP_SYS_RESOURCE.
pub(super) fn may_raise_limits() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    u64::from_str_radix(line.trim(), 16).unwrap() & 1 << 24 != 0
}

/// The number of open files that Podman requests for its containers: see `engines/podman.sh`.
fn web_files() -> u64 {
    let limits = fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(4).unwrap().parse().unwrap()
}

/// Names the directories of this engine in the recipe for mounts of the host.
pub(super) fn with_directories<E: Engine>(engine: &E, text: String) -> String {
    let path = |name: &str| engine.path(E::NAME).join(name).display().to_string();
    text.replace("^(/run|/var/lib)/containers/storage/", &format!("^{}/", path("(run|root)")))
        .replace("/var/lib/containers/storage", &path("root"))
        .replace("/var/lib/docker", &path("data"))
        .replace("/run/nri-container-runtime", &engine.state_dir().display().to_string())
        .replace("/srv/shared", &engine.path("shared").display().to_string())
}

fn host_mounts_are_refused<E: Engine>() {
    with_edited_recipe::<E>("host-mounts", with_directories, |engine, _| {
        check_refused(engine, &["--volume=/etc:/x"], "this host ");
        let shared = engine.path("shared");
        fs::create_dir(&shared).unwrap();
        let web = run(engine, "web", &["--volume", &format!("{}:/x", shared.display())]);
        assert!(web.mount("/x").is_some());
        let db = run(engine, "db", &["--volume", "data:/x"]);
        assert!(db.mount("/x").is_some());
    });
}

fn privileged_containers_are_of_listed_images<E: Engine>() {
    with_recipe::<E>("privileged", |engine, name| {
        let message = format!("{IMAGE} is not on the list of images that may have more");
        check_refused(engine, &["--privileged"], &message);
        run(engine, "web", &["--cap-drop=ALL", "--cap-add=CHOWN"]);
        let bare = engine.run_with(engine.runtime().name, &["--privileged", IMAGE, "true"]);
        if bare.code != Some(0) {
            return limitation(name, &format!("without the wrapper: {}", bare.err()));
        }
        let agent = "registry.example.com/node-agent:1";
        engine.out(&["tag", IMAGE, agent]);
        let ended = engine.run_with("nri", &["--privileged", agent, "sh", "-c", "echo runs"]);
        assert_eq!(ended.success().out(), "runs\n");
    });
}

fn huge_pages_and_devices_come_by_label<E: Engine>() {
    with_recipe::<E>("labels", |engine, name| {
        if E::PROGRAM == "podman" && engine.suite().version("podman") < (4, 8) {
            return limitation(name, "the labels of this Podman are in a BoltDB");
        }
        let label = |value: &str| format!("--label=example.com/{value}");
        let message = "only /dev/fuse and /dev/kvm can be requested by label";
        check_refused(engine, &[&label("devices=/dev/fuse,/dev/null")], message);
        if Path::new("/dev/fuse").exists() {
            let web = run(engine, "web", &[&label("devices=/dev/fuse")]);
            assert!(Path::new(&format!("/proc/{}/root/dev/fuse", web.0.0)).exists());
            let stat = ["exec", "web", "stat", "-c", "%t:%T", "/dev/fuse"];
            assert_eq!(engine.out(&stat), "a:e5");
        } else {
            limitation(name, "the host has no /dev/fuse");
        }
        for (value, expected) in [("64Mi", 64_u64 << 20), ("5Gi", 1 << 30)] {
            let pages = label(&format!("hugepages-2Mi={value}"));
            if has_hugepages() {
                let db = format!("db-{value}").to_lowercase();
                run(engine, &db, &[&pages]);
                let file = match is_cgroup_v2() {
                    true => "/sys/fs/cgroup/hugetlb.2MB.max",
                    false => "/sys/fs/cgroup/hugetlb/hugetlb.2MB.limit_in_bytes",
                };
                assert_eq!(engine.out(&["exec", &db, "cat", file]), expected.to_string());
            } else {
                limitation(name, "the host has no controller hugetlb");
                check_refused(engine, &[&pages], "hugepageLimits");
            }
        }
    });
}

fn gpus_come_through_cdi<E: Engine>() {
    with_recipe::<E>("gpus", |engine, _| {
        let specs = engine.path("cdi");
        fs::create_dir(&specs).unwrap();
        // As `nvidia-ctk cdi generate` names them; the device nodes are those of any host.
        let text = "cdiVersion: 0.6.0\nkind: nvidia.com/gpu\ndevices:\n\
             - name: '0'\n  containerEdits:\n    \
               deviceNodes: [{path: /dev/nvidia0, hostPath: /dev/null}]\n\
             - name: all\n  containerEdits:\n    \
               deviceNodes: [{path: /dev/nvidia0, hostPath: /dev/null}, \
                 {path: /dev/nvidia1, hostPath: /dev/zero}]\n\
             containerEdits:\n  env: [NVIDIA_CDI=yes]\n";
        fs::write(specs.join("nvidia.yaml"), text).unwrap();
        for (name, value, expected) in [
            ("one", "NVIDIA_VISIBLE_DEVICES=0", "/dev/nvidia0"),
            ("all", "NVIDIA_VISIBLE_DEVICES=all", "/dev/nvidia0 /dev/nvidia1"),
            ("void", "NVIDIA_VISIBLE_DEVICES=void", ""),
            ("none", "OTHER=0", ""),
        ] {
            let process = run(engine, name, &["--env", value]);
            let found =
                engine.out(&["exec", name, "sh", "-c", "ls /dev/nvidia* 2>/dev/null; true"]);
            assert_eq!(found.split_whitespace().collect::<Vec<_>>().join(" "), expected, "{name}");
            let edits = process.env("NVIDIA_CDI").is_some();
            assert_eq!(edits, !expected.is_empty(), "{name}");
        }
        check_refused(engine, &["--env=NVIDIA_VISIBLE_DEVICES=7"], "nvidia.com/gpu=7");
    });
}

fn labels_choose_what_the_kernel_kills_first<E: Engine>() {
    with_recipe::<E>("oom-priority", |engine, name| {
        if E::PROGRAM == "podman" && engine.suite().version("podman") < (4, 8) {
            return limitation(name, "the labels of this Podman are in a BoltDB");
        }
        let score = |name: &str, options: &[&str]| {
            let process = run(engine, name, options);
            let file = format!("/proc/{}/oom_score_adj", process.0.0);
            fs::read_to_string(file).unwrap().trim().to_owned()
        };
        assert_eq!(score("batch", &["--label=example.com/priority=batch"]), "900");
        if may_raise_limits() {
            assert_eq!(score("critical", &["--label=example.com/priority=critical"]), "-500");
        } else {
            limitation(name, "without CAP_SYS_RESOURCE, oom_score_adj cannot be lowered");
            check_refused(engine, &["--label=example.com/priority=critical"], "oom_score_adj");
        }
        assert_ne!(score("web", &["--label=example.com/priority=web"]), "900");
    });
}

fn memory_high_follows_the_limit<E: Engine>() {
    with_recipe::<E>("memory-high", |engine, name| {
        if !is_cgroup_v2() {
            limitation(name, "memory.high needs cgroup v2");
            check_refused(engine, &["--memory=100m"], "unified");
        } else {
            let web = run(engine, "web", &["--memory=100m"]);
            let high = web.limit("memory", "", "memory.high");
            // The kernel rounds down to pages.
            assert_eq!(high, ((100_u64 << 20) / 10 * 9 / 4096 * 4096).to_string());
        }
        run(engine, "other", &[]);
    });
}
