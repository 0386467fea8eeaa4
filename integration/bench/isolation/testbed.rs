//! What all cells share: Docker, the plugins, the programs, and the directories of their files.

use crate::{
    cell::Service,
    cpus::Cpus,
    options::Options,
    ways::{POLICY, RULES, RULES_RUNTIME, TOPOLOGY},
};
use nri_bench::{
    machine::{describe, version},
    programs::{compile, source},
};
use nri_integration::{
    Node, copy_program,
    engines::{Docker, Engine, Host, Suite},
    is_cgroup_v2, program_dir, wait_until,
};
use serde_json::json;
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// Requests of a run of redis, for each second of the runs of the other services.
const REDIS_REQUESTS: u64 = 5000;

/// The engine and the files of the measurement. Dropping this value removes all of them.
pub(crate) struct Testbed {
    docker: Docker,
    /// The installation of the plugin `rules`; that of `topology` is Docker's.
    _rules: Host,
    pub(crate) cpus: Cpus,
    /// Units of work of the service that take a millisecond.
    pub(crate) units: f64,
    seconds: u64,
    suite: Suite,
    /// Programs, and files that neighbours write to a disk.
    programs: TempDir,
    /// Counters and results, on the file system of `TMPDIR`.
    work: TempDir,
}

impl Testbed {
    /// Builds the programs, and starts Docker and `nrid` with the plugins.
    pub(crate) fn start(options: &Options) -> Self {
        let interrupts = fs::read_to_string("/proc/interrupts").expect("/proc is mounted");
        let cpus = Cpus::divide(&interrupts);
        let programs = tempfile::Builder::new().prefix("isolation-").tempdir_in(program_dir());
        let programs = programs.expect("the directory of the programs is writable");
        for name in ["service", "neighbour"] {
            compile(name, programs.path().join(name), &["-pthread"]);
        }
        let script = "redis-run.sh";
        copy_program(&source("isolation").join(script), &programs.path().join(script));
        fs::create_dir(programs.path().join("disk")).expect("the directory is writable");
        let units = calibrate(&programs.path().join("service"));

        let suite = Suite { name: options.suite.clone() };
        let (topology, rules) = (Host::new(&suite), Host::new(&suite));
        let policy = format!("socket = {:?}\n{POLICY}", topology.path("topology.sock"));
        launch(&topology, "10-topology", "nri-topology", &policy);
        launch(&rules, "50-rules", "nri-rules", RULES);
        let docker = Docker::start_with(topology, |topology| {
            json!({"runtimes": {
                TOPOLOGY: {"path": topology.launcher()},
                RULES_RUNTIME: {"path": rules.launcher()},
            }})
        });
        let testbed = Self {
            docker,
            _rules: rules,
            cpus,
            units,
            seconds: options.seconds,
            suite,
            programs,
            work: tempfile::Builder::new().prefix("nri-").tempdir().expect("TMPDIR is writable"),
        };
        if options.services.contains(&Service::Redis) {
            let archive = redis().file("image.tar");
            let change = "ENV PATH=/bin";
            let archive = archive.to_str().expect("the path is text");
            testbed.docker.out(&["import", "--change", change, archive, "localhost/redis:local"]);
        }
        testbed
    }

    /// Describes the machine, the engine and the measurement.
    pub(crate) fn describe(&self, form: &str) -> Vec<(&'static str, String)> {
        let mut all = describe(form);
        let disk = Command::new("stat").args(["-f", "-c", "%T"]).arg(self.disk()).output();
        let disk = disk.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned());
        let server = self.docker.out(&["version", "-f", "{{.Server.Version}}"]);
        all.extend([
            ("disk of neighbours", disk.unwrap_or_default()),
            ("cgroups", if is_cgroup_v2() { "v2" } else { "v1" }.to_owned()),
            ("Docker", format!("{server} of {}", self.suite.name)),
            ("runc", version(&self.suite.program("runc"), "--version")),
            ("redis", version(&redis().program("redis-server"), "--version")),
            ("CPU of the service by hand", self.cpus.of_service.clone()),
            ("units of work in a millisecond", format!("{:.0}", self.units)),
        ]);
        all.retain(|(_, text)| !text.is_empty());
        all
    }

    /// Command line of a service in a container, or without one if `is_pinned`.
    pub(crate) fn service(&self, service: Service, is_pinned: bool) -> Vec<String> {
        let program = |name: &str| self.program(name, is_pinned);
        let result = self.file(is_pinned, RESULT);
        match service.request() {
            Some(request) => {
                let units = (request * self.units).round().to_string();
                vec![program("service"), units, self.seconds.to_string(), result]
            }
            None => {
                let dir = redis().program("redis-server");
                let dir = dir.parent().expect("programs are in a directory");
                let requests = (self.seconds * REDIS_REQUESTS).to_string();
                let script = program("redis-run.sh");
                vec!["sh".to_owned(), script, dir.display().to_string(), requests, result]
            }
        }
    }

    /// Command line of neighbour `n`.
    pub(crate) fn neighbour(
        &self,
        kind: &str,
        threads: usize,
        n: usize,
        pinned: bool,
    ) -> Vec<String> {
        let disk = if pinned { self.disk().display().to_string() } else { "/disk".to_owned() };
        let counter = self.file(pinned, &format!("{COUNTER}{n}"));
        let program = self.program("neighbour", pinned);
        vec![program, kind.to_owned(), threads.to_string(), counter, format!("{disk}/{n}-")]
    }

    fn program(&self, name: &str, is_pinned: bool) -> String {
        let dir = if is_pinned { self.programs.path() } else { Path::new("/bench") };
        dir.join(name).display().to_string()
    }

    /// Path of a file of the work directory for a program.
    fn file(&self, is_pinned: bool, name: &str) -> String {
        let dir = if is_pinned { self.work() } else { Path::new("/work") };
        dir.join(name).display().to_string()
    }

    /// Directory of counters and results.
    pub(crate) fn work(&self) -> &Path {
        self.work.path()
    }

    /// Directory of the files that neighbours write.
    fn disk(&self) -> PathBuf {
        self.programs.path().join("disk")
    }

    /// Removes what the last cell has left.
    pub(crate) fn clear(&self) {
        for dir in [self.work(), &self.disk()] {
            for file in fs::read_dir(dir).expect("the directory exists").flatten() {
                fs::remove_file(file.path()).expect("the directory is writable");
            }
        }
    }

    /// Starts a container.
    pub(crate) fn run(&self, name: &str, options: &[String], image: &str, command: &[String]) {
        let volume = |dir: &Path, at: &str| format!("--volume={}:{at}", dir.display());
        let mut arguments = vec![
            "--network=none".to_owned(),
            volume(self.programs.path(), "/bench:ro"),
            volume(self.work(), "/work"),
            volume(&self.disk(), "/disk"),
            "--workdir=/work".to_owned(),
        ];
        arguments.extend_from_slice(options);
        arguments.push(format!("localhost/{image}:local"));
        arguments.extend_from_slice(command);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.docker.run_detached(name, &arguments);
    }

    /// Removes containers.
    pub(crate) fn remove(&self, names: &[String]) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.docker.out(&[&["rm", "--force"], &names[..]].concat());
    }

    /// Output of a container, for messages.
    pub(crate) fn logs(&self, name: &str) -> String {
        let ended = self.docker.call_client(&["logs", name]);
        format!("{}{}", ended.out(), ended.err())
    }

    /// Path of a cgroup at the root, which the node of Docker removes in the end.
    pub(crate) fn parent(&self) -> String {
        format!("/{}-service", self.docker.prefix())
    }

    /// Makes such a cgroup for neighbours, with `cpu.idle`.
    pub(crate) fn make_idle_parent(&self) -> String {
        let parent = format!("/{}-batch", self.docker.prefix());
        let root = if is_cgroup_v2() { "/sys/fs/cgroup" } else { "/sys/fs/cgroup/cpu" };
        let dir = format!("{root}{parent}");
        fs::create_dir_all(&dir).unwrap_or_else(|e| panic!("{dir}: {e}"));
        fs::write(format!("{dir}/cpu.idle"), "1").unwrap_or_else(|e| panic!("{dir}: {e}"));
        parent
    }

    /// Gives that cgroup the largest weight: the default is 1024 with cgroup v1, and 100 with v2.
    pub(crate) fn raise_parent(&self) {
        let (dir, value) = if is_cgroup_v2() {
            (format!("/sys/fs/cgroup{}/cpu.weight", self.parent()), "10000")
        } else {
            (format!("/sys/fs/cgroup/cpu{}/cpu.shares", self.parent()), "262144")
        };
        fs::write(&dir, value).unwrap_or_else(|e| panic!("{dir}: {e}"));
    }
}

/// Name of the result of a service.
pub(crate) const RESULT: &str = "result";

/// Prefix of the names of counters.
pub(crate) const COUNTER: &str = "counter-";

/// Where `redis.sh` installs redis.
fn redis() -> Suite {
    Suite { name: "redis".to_owned() }
}

/// Installs a plugin with its configuration, and starts `nrid`.
fn launch(node: &Node, name: &str, program: &str, configuration: &str) {
    fs::write(node.path(&format!("conf.d/{name}.conf")), configuration)
        .expect("the directory is writable");
    symlink(node.program(program), node.path("plugins").join(name))
        .expect("the directory is writable");
    node.ctl(&["start"]).success();
    wait_until(format_args!("the plugin {name}"), || {
        let status = node.status().expect("nrid runs");
        let plugins = status["plugins"].as_array().expect("plugins is a list");
        plugins.iter().any(|plugin| plugin["state"] == "active").then_some(())
    });
}

/// Returns how many units of work of the service take a millisecond: the best of some runs, which
/// other work of the machine has disturbed least.
fn calibrate(service: &Path) -> f64 {
    let run = || {
        let output = Command::new(service).arg("calibrate").output().expect("it was just compiled");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.trim().parse::<f64>().unwrap_or_else(|e| panic!("{text:?}: {e}"))
    };
    (0..5).map(|_| run()).fold(0.0, f64::max)
}
