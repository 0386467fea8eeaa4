//! Tests of callers in sandboxes: the process that starts `nrid` has restrictions and namespaces,
//! as engines, shells and systemd units have. `nrid` must reset the inherited attributes and leave
//! the namespaces before it launches plugins, and must report what no process can reset. The
//! sandbox must not affect the next container, which the host creates.

use super::host::*;
use nri_integration::*;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

/// Attributes that a process inherits, by their names.
type Attributes = BTreeMap<String, String>;

/// Reads the inherited attributes of a process, without its namespaces.
fn attributes(process: Process) -> Attributes {
    let file =
        |name: &str| fs::read_to_string(format!("/proc/{}/{name}", process.0)).unwrap_or_default();
    let mut found = Attributes::new();
    let mut insert = |name: &str, value: String| drop(found.insert(name.to_owned(), value));
    for line in file("limits").lines().skip(1) {
        // The first 26 columns are the name of the limit, which contains spaces.
        let (name, values) = line.split_at(line.len().min(26));
        let values: Vec<_> = values.split_whitespace().take(2).collect();
        insert(name.trim(), values.join(" "));
    }
    let status = file("status");
    for (name, value) in status.lines().filter_map(|line| line.split_once(':')) {
        if STATUS.contains(&name) {
            insert(name, value.trim().to_owned());
        }
    }
    for name in ["oom_score_adj", "timerslack_ns", "personality", "coredump_filter"] {
        insert(name, file(name).trim().to_owned());
    }
    let stat = file("stat");
    let fields: Vec<_> =
        stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect()).unwrap_or_default();
    // Fields 19 and 41 of proc_pid_stat(5), which counts from 1; `fields` begins with field 3.
    insert("nice value and policy", format!("{:?} {:?}", fields.get(16), fields.get(38)));
    let priority = Command::new("ionice").args(["-p", &process.0.to_string()]).output().unwrap();
    insert("I/O priority", String::from_utf8_lossy(&priority.stdout).trim().to_owned());
    found
}

/// Names of the lines of `/proc/PID/status` that are compared.
const STATUS: [&str; 16] = [
    "Uid",
    "Gid",
    "Groups",
    "Umask",
    "NoNewPrivs",
    "Seccomp",
    "Seccomp_filters",
    "CapInh",
    "CapPrm",
    "CapEff",
    "CapBnd",
    "CapAmb",
    "SigBlk",
    "SigIgn",
    "Cpus_allowed_list",
    "Mems_allowed_list",
];

/// Returns the namespaces of a process.
fn namespaces(process: Process) -> Attributes {
    let dir = format!("/proc/{}/ns", process.0);
    let links = fs::read_dir(dir).unwrap().flatten();
    // `*_for_children` are the namespaces of programs that the process starts, not its own.
    links
        .filter(|link| !link.file_name().to_string_lossy().contains("for_children"))
        .map(|link| {
            let target = fs::read_link(link.path()).unwrap();
            (link.file_name().to_string_lossy().into(), target.to_string_lossy().into())
        })
        .collect()
}

/// Returns the names of the attributes with different values.
fn differences(a: &Attributes, b: &Attributes) -> Vec<String> {
    a.iter().filter(|(name, value)| b.get(*name) != Some(*value)).map(|(n, _)| n.clone()).collect()
}

/// Attributes and namespaces of `nrid` and of its plugin.
struct Observed([(Attributes, Attributes); 2]);

impl Observed {
    fn of(node: &Node) -> Self {
        let [nrid] = node.nrids()[..] else { panic!("not one nrid: {:?}", node.nrids()) };
        let plugin = wait_until("the plugin", || {
            Process::all().into_iter().find(|process| {
                let line = fs::read_to_string(format!("/proc/{}/cmdline", process.0));
                process.parent() == Some(nrid.0) && line.is_ok_and(|l| l.contains("10-adjust"))
            })
        });
        Self([nrid, plugin].map(|process| (attributes(process), namespaces(process))))
    }

    /// Returns the names of the attributes and namespaces that differ from `of_host`, which was
    /// observed after the host had started `nrid`.
    fn differences(&self, of_host: &Self) -> Vec<String> {
        let pairs = self.0.iter().zip(&of_host.0);
        let mut names: Vec<_> = pairs
            .flat_map(|(a, b)| [differences(&a.0, &b.0), differences(&a.1, &b.1)].concat())
            .collect();
        names.sort();
        names.dedup();
        names
    }
}

/// Restrictions and namespaces of the caller that starts `nrid`.
struct Sandbox {
    /// Words that precede the caller's shell, such as `prlimit --core=0`.
    enter: &'static [&'static str],
    /// Commands that the caller's shell runs first. `PLUGINS` stands for the plugin directory.
    first: &'static str,
    /// Attributes that `nrid` cannot reset, each with a part of the text with which `nrid` reports
    /// the attribute.
    kept: &'static [(&'static str, &'static str)],
}

const fn sandbox(enter: &'static [&'static str], first: &'static str) -> Sandbox {
    Sandbox { enter, first, kept: &[] }
}

/// Checks each sandbox: a creation in the sandbox starts `nrid`; then a container is created on the
/// host with the same `nrid`.
fn check(name: &str, sandboxes: &[Sandbox]) {
    for_each_runtime(name, |runtime| {
        for sandbox in sandboxes {
            println!("{} {:?} {}", runtime.name, sandbox.enter, sandbox.first);
            let (node, host) = (Node::new(runtime), Host::new());
            node.launch("10-adjust", &Program::Adjust, "[create.resources]\npids = 77\n");
            host.start_nrid(&node);
            let of_host = Observed::of(&node);
            host.run(&node, &ctl(&node, &["stop"])).success();

            let first = sandbox.first.replace("PLUGINS", node.path("plugins").to_str().unwrap());
            let in_sandbox = create_adjusted(&node, &host, "first", sandbox.enter, &first);
            check_differences(&node, &host, sandbox, &Observed::of(&node).differences(&of_host));
            let second = create_adjusted(&node, &host, "second", HERE, "true");
            let ids = [&in_sandbox, &second].map(|bundle| bundle.id.as_str());
            for id in ids {
                host.run(&node, &wrapper(&node, &["start", id])).success();
            }
            let verified = host.run(&node, &ctl(&node, &["verify"])).success();
            assert!(verified.out().contains("77"), "{}", verified.out());

            // Compare with the same container, created without the wrapper and `nrid`.
            let wrapped = second.wait_for_process(None);
            let bare = node.id("bare");
            let mut command = node.runtime().command(&node.root());
            command.args(["run", "--detach", "--bundle"]).arg(second.bundle.dir()).arg(&bare);
            host.run(&node, &command).success();
            let of_bare = attributes(second.wait_for_process(Some(wrapped)));
            let differences = differences(&attributes(wrapped), &of_bare);
            assert!(differences.is_empty(), "{:?}: {differences:?}", sandbox.enter);

            for id in ids.into_iter().chain([bare.as_str()]) {
                host.run(&node, &wrapper(&node, &["delete", "--force", id])).success();
            }
        }
    });
}

struct Created {
    id: String,
    bundle: Bundle,
}

impl Created {
    /// Waits until a process of this bundle, but not `other_than`, executes the container's
    /// program. Returns the process.
    fn wait_for_process(&self, other_than: Option<Process>) -> Process {
        wait_until("the container's process", || {
            Process::all().into_iter().filter(|process| Some(*process) != other_than).find(|p| {
                let file = |name: &str| fs::read(format!("/proc/{}/{name}", p.0));
                file("cmdline").is_ok_and(|line| line == b"/bin/sleep\x001000000\0")
                    && ContainerProcess(*p).env("ID").as_ref() == Some(&self.id)
            })
        })
    }
}

/// Creates a container in a sandbox, and checks that the plugin has adjusted the container.
fn create_adjusted(node: &Node, host: &Host, name: &str, enter: &[&str], first: &str) -> Created {
    let id = node.id(name);
    let bundle =
        node.bundle(&id).arguments(&["/bin/sleep", "1000000"]).env(&format!("ID={id}")).make();
    node.run(host.command(enter, first, &create(node, &bundle, &id))).success();
    let limit = &node.adjusted(&id)["linux"]["resources"]["pids"]["limit"];
    assert_eq!(*limit, 77, "{enter:?} {first}: {name}");
    Created { id, bundle }
}

/// Returns the texts with which the status of `nrid` reports what `nrid` cannot reset.
fn reports(node: &Node, host: &Host) -> Vec<String> {
    let status = host.run(node, &ctl(node, &["status", "--json"])).success();
    let status: Value = serde_json::from_str(&status.out()).unwrap();
    let inherited = status["status"]["inherited"].as_array().cloned().unwrap_or_default();
    inherited.iter().map(|i| i["what"].as_str().unwrap().to_owned()).collect()
}

/// Checks that `nrid` reports what it cannot reset, and resets everything else.
fn check_differences(node: &Node, host: &Host, sandbox: &Sandbox, differences: &[String]) {
    let inherited = reports(node, host);
    let is_reported = |part: &str| inherited.iter().any(|what| what.contains(part));
    let what = format!("{:?}: {differences:?}, reported: {inherited:?}", sandbox.enter);
    for (name, report) in sandbox.kept {
        let is_kept = differences.iter().any(|other| other == name);
        // nrid can raise hard limits if the tests run with CAP_SYS_RESOURCE.
        assert!(is_kept || name.starts_with("Max "), "{name} is expected to be kept. {what}");
        assert!(!is_kept || is_reported(report), "{name} is not reported. {what}");
    }
    for name in differences {
        let is_expected = sandbox.kept.iter().any(|(kept, _)| kept == name);
        assert!(is_expected, "{name} is not reset. {what}");
    }
    assert!(!differences.is_empty() || inherited.is_empty(), "{what}");
}

#[test]
fn attributes_of_the_caller_are_reset() {
    check(
        "attributes of the caller",
        &[
            sandbox(&["taskset", "-c", "0"], "true"),
            sandbox(&["nice", "-n", "7", "ionice", "-c", "3"], "true"),
            sandbox(&["chrt", "--batch", "0"], "true"),
            sandbox(&["choom", "-n", "500", "--"], "echo 1000000 >/proc/$$/timerslack_ns"),
            sandbox(&["setarch", "-R"], "echo 3 >/proc/$$/coredump_filter"),
            sandbox(&["env"], "trap '' HUP USR2 && umask 0 && ulimit -S -n 256 && ulimit -S -c 0"),
            sandbox(&["setpriv", "--regid", "5", "--groups", "6,7"], "true"),
            sandbox(&["setpriv", "--inh-caps", "+net_raw", "--ambient-caps", "+net_raw"], "true"),
        ],
    );
}

#[test]
fn restrictions_of_the_caller_are_reported() {
    check(
        "restrictions of the caller",
        &[
            Sandbox {
                enter: &["setpriv", "--no-new-privs", "--bounding-set", "-sys_boot,-sys_time"],
                first: "true",
                kept: &[
                    ("NoNewPrivs", "no_new_privs"),
                    ("CapBnd", "lacks SYS_BOOT, SYS_TIME"),
                    ("CapPrm", "lacks SYS_BOOT, SYS_TIME"),
                    ("CapEff", "lacks SYS_BOOT, SYS_TIME"),
                ],
            },
            Sandbox {
                enter: &[
                    "prlimit",
                    "--nofile=900:900",
                    "--nproc=3000:3000",
                    "--core=0:0",
                    "--memlock=65536:65536",
                    "--",
                ],
                first: "true",
                kept: &[
                    ("Max open files", "the hard limit of open files is 900"),
                    ("Max processes", "the hard limit of processes is 3000"),
                    ("Max core file size", "the hard limit of core file size is 0"),
                    ("Max locked memory", "the hard limit of locked memory is 65536"),
                ],
            },
        ],
    );
}

#[test]
fn nrid_leaves_the_namespaces_of_the_caller() {
    // The caller sees an empty plugin directory.
    let cover = "mount -t tmpfs none 'PLUGINS'";
    check(
        "namespaces of the caller",
        &[
            sandbox(&["unshare", "--mount", "--net", "--ipc", "--uts", "--cgroup"], cover),
            // Like a systemd unit with a private /run.
            sandbox(&["unshare", "--mount"], "mount -t tmpfs none /run"),
        ],
    );
}

/// Starts a caller that creates a container and then sleeps. The caller is the init process of a
/// pid namespace, so its end would kill all processes in the namespace. Returns the caller and its
/// output.
fn create_and_stay(host: &Host, enter: &[&str], create: &Command) -> (Child, String) {
    let first = "create() { if \"$@\"; then echo created; else echo refused; fi; \
         exec sleep 1000000; }; create \"$@\" 2>&1; true";
    let mut caller = host.command(enter, first, create);
    let mut caller = caller.stdout(Stdio::piped()).spawn().unwrap();
    let mut text = String::new();
    for line in BufReader::new(caller.stdout.take().unwrap()).lines().map(Result::unwrap) {
        text += &line;
        if line == "created" || line == "refused" {
            break;
        }
    }
    (caller, text)
}

#[test]
fn an_nrid_in_a_user_namespace_reports_it_and_adjusts_the_next_container() {
    for_each_runtime("user namespace", |runtime| {
        let (node, host) = (Node::new(runtime), Host::new());
        node.launch("10-adjust", &Program::Adjust, "[create.resources]\npids = 77\n");
        let enter = ["unshare", "--user", "--map-root-user", "--mount"];
        let first = create_adjusted(&node, &host, "first", &enter, "true");
        let reports = reports(&node, &host);
        let part = "nrid is in the namespaces of the process that started it";
        assert!(reports.iter().any(|what| what.contains(part)), "{reports:?}");
        let second = create_adjusted(&node, &host, "second", HERE, "true");
        for created in [first, second] {
            host.run(&node, &wrapper(&node, &["delete", "--force", &created.id])).success();
        }
    });
}

/// The host shares the state directory with a container. The engine in the container starts `nrid`,
/// which then is not in the host's pid namespace.
#[test]
fn an_nrid_in_a_nested_pid_namespace_refuses_the_host_in_one_line() {
    for_each_runtime("nested pid namespace", |runtime| {
        let (node, host) = (Node::new(runtime), Host::new());
        node.launch("10-adjust", &Program::Adjust, "[create.resources]\npids = 77\n");
        let enter = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
        let bundle_of = |name: &str| {
            let id = node.id(name);
            (node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make(), id)
        };
        let (bundle, id) = bundle_of("first");
        let (mut caller, output) = create_and_stay(&host, &enter, &create(&node, &bundle, &id));
        assert_eq!(output, "created");

        let (bundle, id) = bundle_of("second");
        let refusal = host.run(&node, &create(&node, &bundle, &id)).refusal();
        assert!(refusal.contains("an engine in a container started it"), "{refusal}");
        // End nrid and the caller, as the end of the container with the engine would.
        for nrid in node.nrids() {
            nrid.signal(rustix::process::Signal::KILL);
        }
        caller.kill().unwrap();
        caller.wait().unwrap();
        wait_until("the end of nrid", || node.nrids().is_empty().then_some(()));
        create_adjusted(&node, &host, "third", HERE, "true");
    });
}

/// The caller is in a new pid namespace, but its `/proc` shows the pid namespace of the host. An
/// `nrid` that this caller started could not find processes in `/proc` by their ids.
#[test]
fn a_caller_with_the_proc_of_another_pid_namespace_is_refused_in_one_line() {
    for_each_runtime("/proc of another pid namespace", |runtime| {
        let (node, host) = (Node::new(runtime), Host::new());
        node.launch("10-adjust", &Program::Adjust, "[create.resources]\npids = 77\n");
        let id = node.id("first");
        let bundle = node.bundle(&id).make();
        let enter = ["unshare", "--pid", "--fork", "--kill-child"];
        let create = create(&node, &bundle, &id);
        let (mut caller, output) = create_and_stay(&host, &enter, &create);
        assert!(output.contains("/proc belongs to another pid namespace"), "{output}");
        create_adjusted(&node, &host, "second", HERE, "true");
        caller.kill().unwrap();
        caller.wait().unwrap();
    });
}

#[test]
fn a_caller_with_a_private_state_directory_is_refused_in_one_line() {
    for_each_runtime("private state directory", |runtime| {
        let (node, host) = (Node::new(runtime), Host::new());
        node.launch("10-adjust", &Program::Adjust, "[create.resources]\npids = 77\n");
        host.start_nrid(&node);
        let id = node.id("first");
        let bundle = node.bundle(&id).make();
        let hide = format!("mount -t tmpfs -o mode=700 none {}", node.state_dir().display());
        let hidden = host.command(UNSHARE, &hide, &create(&node, &bundle, &id));
        let refusal = node.run(hidden).refusal();
        assert!(
            refusal.contains("does not lead to the state directory of the engine"),
            "{refusal}"
        );
        create_adjusted(&node, &host, "second", HERE, "true");
    });
}
