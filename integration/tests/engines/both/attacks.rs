//! Ways past the recipes of the plugin `rules` that say what containers may be: options of Docker
//! and Podman by which whoever may create containers could take the host. Each way is tried on the
//! bare runtime first: what does not work there shows nothing.
//!
//! Here are those of a single `run`; others are in the folder `attacks`. A way that a recipe cannot
//! stop is tried, too: it has to work, and the recipe has to say so ([`Tried::open`]).

mod certificates;
mod checkpoint;
mod compose;
mod images;
mod labels;
mod later;
mod limits;
mod volumes;

use super::rules::{run, with_directories, with_edited_recipe, with_recipe};
use crate::adjusted::*;
use nri_integration::{engines::*, *};
use std::{fs, os::unix::fs::symlink, path::Path};

test_both! {
    a_container_is_privileged_by_no_spelling,
    no_path_leads_to_directories_of_the_host,
    a_limit_has_no_second_spelling,
}

/// A way past a recipe.
struct Way {
    /// What it gives.
    what: &'static str,
    options: Vec<String>,
}

fn way(what: &'static str, options: &[&str]) -> Way {
    Way { what, options: options.iter().map(|option| (*option).to_owned()).collect() }
}

/// Checks that each way works on the bare runtime and is refused with the recipe. Reports the
/// number of each.
fn check_ways<E: Engine>(engine: &E, name: &str, message: &str, ways: &[Way]) {
    let mut stopped = 0;
    for way in ways {
        let options: Vec<&str> = way.options.iter().map(String::as_str).collect();
        let bare =
            engine.run_with(engine.runtime().name, &[&options[..], &[IMAGE, "true"]].concat());
        if bare.code != Some(0) {
            let why = bare.err().lines().last().unwrap_or_default().to_owned();
            limitation(name, &format!("{}: not on the bare runtime: {why}", way.what));
            continue;
        }
        let ended = engine.run_with("nri", &[&options[..], &[IMAGE, "true"]].concat());
        assert!(
            ended.code == Some(E::RUNTIME_FAILED) && ended.err().contains(message),
            "{}: {options:?}: exit code {:?}: {}",
            way.what,
            ended.code,
            ended.err()
        );
        stopped += 1;
    }
    println!("{name}: {stopped} of {} ways are stopped, the others do not exist here", ways.len());
    assert!(stopped * 2 > ways.len(), "{name}: only {stopped} of {} ways were tried", ways.len());
}

/// The ways past a recipe that were tried, and what became of them.
struct Tried<'a> {
    /// Name of the engine and of the recipe.
    name: &'a str,
    /// Text of the recipe in one line, comments included.
    recipe: String,
    stopped: usize,
    open: usize,
    missing: usize,
}

impl<'a> Tried<'a> {
    fn new(name: &'a str, recipe: &str) -> Self {
        let file = script(&format!("../src/plugins/rules/cookbook/{recipe}.yaml"));
        let text = fs::read_to_string(file).unwrap();
        let lines = text.lines().map(|line| line.trim_start_matches(['#', ' ', '*']));
        let recipe = lines.collect::<Vec<_>>().join(" ");
        Self { name, recipe, stopped: 0, open: 0, missing: 0 }
    }

    /// Checks that an attempt succeeds with the bare runtime, and fails with this message with the
    /// wrapper.
    #[track_caller]
    fn refused<E: Engine>(
        &mut self,
        engine: &E,
        what: &str,
        message: &str,
        mut attempt: impl FnMut(&str) -> Ended,
    ) {
        let bare = attempt(engine.runtime().name);
        if bare.code != Some(0) {
            return self.missing(what, &said(&bare));
        }
        let ended = attempt("nri");
        let said = said(&ended);
        assert!(
            ended.code != Some(0) && said.contains(message),
            "{what}: exit code {:?}: {said}",
            ended.code
        );
        self.stopped += 1;
    }

    /// Counts a way after which a limit of the recipe holds.
    #[track_caller]
    fn held(&mut self, what: &str, holds: bool, found: &str) {
        assert!(holds, "{}: {what}: {found}", self.name);
        self.stopped += 1;
    }

    /// Counts a way that the recipe does not stop, and checks that it says so in these words.
    #[track_caller]
    fn open(&mut self, what: &str, works: bool, words: &str) {
        assert!(works, "{}: {what} is stopped, but the recipe says {words:?}", self.name);
        assert!(self.recipe.contains(words), "{}: {what}: it does not say {words:?}", self.name);
        self.open += 1;
    }

    /// Counts a way that does not exist on this machine.
    fn missing(&mut self, what: &str, why: &str) {
        let why = why.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        limitation(self.name, &format!("{what}: not on the bare runtime: {why}"));
        self.missing += 1;
    }

    /// Prints the numbers.
    fn report(&self) {
        let Self { name, stopped, open, missing, .. } = self;
        let all = stopped + open + missing;
        println!(
            "{name}: {stopped} of {all} ways are stopped, {open} cannot be, as the recipe says, \
             {missing} do not exist here"
        );
        assert!(stopped + open > 0, "{name}: no way was tried");
    }
}

/// What a call has printed.
fn said(ended: &Ended) -> String {
    format!("{}\n{}", ended.out(), ended.err())
}

/// Calls a subcommand of the client that creates a container, with this runtime of the engine.
fn call_with<E: Engine>(engine: &E, runtime: &str, verb: &str, arguments: &[&str]) -> Ended {
    let call = match E::NAME {
        "podman" => ["--runtime", runtime, verb],
        _ => [verb, "--runtime", runtime],
    };
    engine.call_client(&[&call, arguments].concat())
}

/// Replaces the rules of an engine that runs.
fn replace_rules(engine: &Host, text: &str) {
    fs::write(engine.path("conf.d/50-rules.conf"), text).unwrap();
    engine.ctl(&["reload"]).success();
}

/// Rules that refuse nothing.
const HARMLESS: &str = "rules: [{name: harmless, default: {env: {HARMLESS: 'yes'}}}]";

/// The text of a recipe.
fn recipe(name: &str) -> String {
    fs::read_to_string(script(&format!("../src/plugins/rules/cookbook/{name}.yaml"))).unwrap()
}

/// A seccomp profile that allows all, and one that has a default action and allows each call.
fn profiles(engine: &Host) -> [String; 2] {
    let all = engine.path("all.json");
    fs::write(&all, r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": []}"#).unwrap();
    let listed = engine.path("listed.json");
    fs::write(
        &listed,
        r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
            {"names": ["sync"], "action": "SCMP_ACT_ERRNO"}]}"#,
    )
    .unwrap();
    [all, listed].map(|path| format!("--security-opt=seccomp={}", path.display()))
}

fn a_container_is_privileged_by_no_spelling<E: Engine>() {
    with_recipe::<E>("privileged", |engine, name| {
        let [all, listed] = profiles(engine);
        let unconfined = "--security-opt=seccomp=unconfined";
        let mut ways = vec![
            way("privileged", &["--privileged"]),
            way("privileged with a filter that allows all", &["--privileged", &all]),
            way("privileged with a filter of one call", &["--privileged", &listed]),
            way(
                "all capabilities and two device rules",
                &[
                    "--cap-add=ALL",
                    "--device-cgroup-rule=b *:* rwm",
                    "--device-cgroup-rule=c *:* rwm",
                    unconfined,
                ],
            ),
            way(
                "SYS_ADMIN, all devices",
                &["--cap-add=SYS_ADMIN", "--device-cgroup-rule=a *:* rwm"],
            ),
            way("all capabilities", &["--cap-add=ALL"]),
            way("SYS_ADMIN", &["--cap-add=SYS_ADMIN"]),
            way("SYS_MODULE", &["--cap-add=SYS_MODULE"]),
            way("SYS_RAWIO", &["--cap-add=SYS_RAWIO"]),
            way("DAC_READ_SEARCH", &["--cap-add=DAC_READ_SEARCH"]),
            way("SYS_BOOT", &["--cap-add=SYS_BOOT"]),
            way("SYS_TIME", &["--cap-add=SYS_TIME"]),
            way("SYSLOG", &["--cap-add=SYSLOG"]),
            way("NET_ADMIN", &["--cap-add=NET_ADMIN"]),
            way("a process of the host to trace", &["--cap-add=SYS_PTRACE", "--pid=host"]),
            way("processes of the host", &["--pid=host"]),
            way("IPC of the host", &["--ipc=host"]),
            way("host name of the host", &["--uts=host"]),
            way("no filter", &[unconfined]),
            way("a filter that allows all", &[&all]),
            way("a filter of one call", &[&listed]),
            way("all block devices, with MKNOD", &["--device-cgroup-rule=b *:* rwm"]),
            way("memory of the host, with MKNOD", &["--device-cgroup-rule=c 1:1 rwm"]),
            way("a disk to read", &["--device-cgroup-rule=b 7:* r"]),
        ];
        if E::NAME == "docker" {
            ways.push(way("files of the kernel", &["--security-opt=systempaths=unconfined"]));
            ways.push(way("cgroups of the host", &["--cgroupns=host", "--privileged"]));
        } else {
            ways.push(way("files of the kernel", &["--security-opt=unmask=ALL"]));
            ways.push(way("processes of the host by path", &["--pid=ns:/proc/1/ns/pid"]));
            ways.push(way("IPC of the host by path", &["--ipc=ns:/proc/1/ns/ipc"]));
            ways.push(way("host name of the host by path", &["--uts=ns:/proc/1/ns/uts"]));
        }
        if let Some(disk) = block_device() {
            ways.push(way("a disk of the host", &[&format!("--device={disk}")]));
            ways.push(way("a disk to read", &[&format!("--device={disk}:/dev/disk:r")]));
        }
        check_ways(engine, name, "50-rules", &ways);
        // Ordinary containers are created.
        for options in [&[][..], &["--cap-drop=ALL"], &["--user=1000"], &["--read-only"]] {
            engine.run_with("nri", &[options, &[IMAGE, "true"]].concat()).success();
        }
    });
}

/// A block device that exists.
fn block_device() -> Option<String> {
    let names = fs::read_dir("/sys/class/block").ok()?.flatten();
    let mut names = names.map(|entry| format!("/dev/{}", entry.file_name().display()));
    names.find(|path| Path::new(path).exists())
}

fn no_path_leads_to_directories_of_the_host<E: Engine>() {
    with_edited_recipe::<E>("host-mounts", with_directories, |engine, name| {
        let link = engine.path("link");
        symlink("/etc", &link).unwrap();
        let state = engine.state_dir();
        let socket = engine.path("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let volume = |source: &str| format!("--volume={source}:/x");
        let mut ways: Vec<Way> = [
            ("root of the host", "/"),
            ("configuration", "/etc"),
            ("a file of the configuration", "/etc/passwd"),
            ("two slashes", "//etc"),
            ("a way up", "/home/../etc"),
            ("root of a process", "/proc/self/root/etc"),
            ("root of process 1", "/proc/1/root/etc"),
            ("home of root", "/root"),
            ("sockets of the host", "/run"),
            ("sockets of the host", "/var/run"),
            ("kernel", "/boot"),
            ("devices", "/dev"),
            ("files of the kernel", "/proc"),
            ("kernel objects", "/sys"),
            ("all containers", "/var"),
            ("programs", "/usr"),
        ]
        .map(|(what, source)| way(what, &[&volume(source)]))
        .into();
        ways.push(way("a link", &[&volume(&link.display().to_string())]));
        ways.push(way("state directory", &[&volume(&state.display().to_string())]));
        ways.push(way("a socket", &[&volume(&socket.display().to_string())]));
        for (what, device) in
            [("a volume that is the root", "/"), ("a volume that is /etc", "/etc")]
        {
            let mount = format!(
                "--mount=type=volume,dst=/x,volume-opt=type=none,volume-opt=o=bind,\
                 volume-opt=device={device}"
            );
            if E::NAME == "docker" {
                ways.push(way(what, &[&mount]));
            } else {
                let name = format!("v{}", device.len());
                engine.out(&[
                    "volume",
                    "create",
                    "--opt=type=none",
                    "--opt=o=bind",
                    &format!("--opt=device={device}"),
                    &name,
                ]);
                ways.push(way(what, &[&volume(&name)]));
            }
        }
        if E::NAME == "podman" {
            ways.push(way("an overlay of /etc", &["--volume=/etc:/x:O"]));
        }
        check_ways(engine, name, "50-rules", &ways);
        // Ordinary containers are created.
        let shared = engine.path("shared");
        fs::create_dir(&shared).unwrap();
        let shared = format!("--volume={}:/s", shared.display());
        run(engine, "web", &["--volume=own:/x", "--tmpfs=/t", &shared]);
    });
}

fn a_limit_has_no_second_spelling<E: Engine>() {
    let edit = |_: &E, _: String| {
        "rules: [{name: a, at_most: {memory.limit: 1Gi, pids.limit: 100}}]".to_owned()
    };
    with_edited_recipe::<E>("defaults", edit, |engine, name| {
        if E::NAME != "podman" || !is_cgroup_v2() {
            return limitation(name, "only Podman passes files of cgroup v2");
        }
        let options = ["--cgroup-conf=memory.max=8589934592", "--cgroup-conf=pids.max=4000"];
        let web = run(engine, "web", &options);
        assert_eq!(web.limit("pids", "", "pids.max"), "100");
        assert_eq!(web.limit("memory", "", "memory.max"), (1_u64 << 30).to_string());
    });
}
