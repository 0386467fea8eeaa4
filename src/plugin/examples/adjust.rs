//! An NRI plugin that does what a TOML file says: adjusts containers that are created, changes updates, and logs every event.
//!
//! ```text
//! adjust [--config FILE] [--idx NN] [--name NAME] [--socket PATH] [--log FILE]
//! ```
//! Launched by a runtime, as `NN-name` in its plugin directory, it takes the TOML from its configuration there
//! instead. `--idx` is 50 and `--name` is `adjust` unless given. All of the TOML is optional; an unknown key is an error.
//!
//! ```toml
//! log = "/run/adjust.log"          # a JSON line per event; `--log` wins
//!
//! [filter]                         # adjust and update only containers that match all of this
//! name = "web"
//! annotations = { "example.org/adjust" = "yes" }   # of the container, or else of its pod
//!
//! [create]
//! args = ["sleep", "100"]          # the command line
//! replace_args = true              # even if an earlier plugin set it
//! oom_score_adj = 100
//! cdi_devices = ["vendor.example/class=name"]
//! env = { set = { A = "b" }, remove = ["C"] }
//! annotations = { set = { "example.org/seen" = "yes" }, remove = ["example.org/old"] }
//! sysctl = { set = { "net.ipv4.ip_forward" = "1" }, remove = ["net.ipv4.ip_default_ttl"] }
//! remove_mounts = ["/var/cache"]
//! remove_devices = ["/dev/fuse"]
//!
//! [[create.mounts]]
//! destination = "/data"
//! source = "/srv/data"
//! type = "bind"
//! options = ["rbind", "ro"]
//!
//! [[create.devices]]
//! path = "/dev/null2"
//! type = "c"
//! major = 1
//! minor = 3
//! mode = 0o666
//! uid = 0
//! gid = 0
//!
//! [[create.rlimits]]
//! type = "RLIMIT_NOFILE"
//! hard = 1024
//! soft = 512
//!
//! [[create.hooks]]
//! stage = "poststop"               # prestart, create_runtime, create_container, start_container, poststart, poststop
//! path = "/bin/true"
//! args = ["true"]
//! env = ["A=b"]
//! timeout = 5
//!
//! [create.resources]
//! cpus = "0-1"
//! mems = "0"
//! shares = 512
//! quota = 50000
//! period = 100000
//! memory = 67108864
//! reservation = 33554432
//! swap = 134217728
//! pids = 100
//! hugepages = { "2MB" = 4194304 }
//! unified = { "memory.high" = "50000000" }
//! blockio_class = "slow"
//! rdt_class = "shared"
//!
//! [update]                         # laid over every update of a matching container; keys as in create.resources
//! shares = 256
//! ```

use nri_plugin::{
    Adjustment, Changes, Creation, EventMask, Failure, Plugin, Reply, Session, SetResources, Stub, Update,
    async_trait, opt, proto::*,
};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    io::Write,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    log: Option<PathBuf>,
    filter: Filter,
    create: Create,
    update: Option<Resources>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Filter {
    name: Option<String>,
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Create {
    args: Vec<String>,
    replace_args: bool,
    oom_score_adj: Option<i64>,
    cdi_devices: Vec<String>,
    env: Keyed,
    annotations: Keyed,
    sysctl: Keyed,
    mounts: Vec<MountRule>,
    remove_mounts: Vec<String>,
    devices: Vec<DeviceRule>,
    remove_devices: Vec<String>,
    rlimits: Vec<RlimitRule>,
    hooks: Vec<HookRule>,
    resources: Option<Resources>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Keyed {
    set: BTreeMap<String, String>,
    remove: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MountRule {
    destination: String,
    source: String,
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    options: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceRule {
    path: String,
    r#type: String,
    major: i64,
    minor: i64,
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RlimitRule {
    r#type: String,
    hard: u64,
    soft: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HookRule {
    stage: Stage,
    path: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<String>,
    timeout: Option<i64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stage {
    Prestart,
    CreateRuntime,
    CreateContainer,
    StartContainer,
    Poststart,
    Poststop,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Resources {
    cpus: Option<String>,
    mems: Option<String>,
    shares: Option<u64>,
    quota: Option<i64>,
    period: Option<u64>,
    memory: Option<i64>,
    reservation: Option<i64>,
    swap: Option<i64>,
    pids: Option<i64>,
    hugepages: BTreeMap<String, u64>,
    unified: BTreeMap<String, String>,
    blockio_class: Option<String>,
    rdt_class: Option<String>,
}

impl Filter {
    fn matches(&self, pod: &PodSandbox, container: &Container) -> bool {
        let annotation = |key| container.annotations.get(key).or_else(|| pod.annotations.get(key));
        self.name.as_ref().is_none_or(|name| *name == container.name)
            && self.annotations.iter().all(|(key, value)| annotation(key) == Some(value))
    }
}

impl Create {
    fn adjustment(&self) -> Adjustment {
        let mut a = Adjustment::new();
        if self.replace_args && !self.args.is_empty() {
            a.replace_args(&self.args);
        } else {
            a.set_args(&self.args);
        }
        if let Some(score) = self.oom_score_adj {
            a.set_oom_score_adj(score);
        }
        for name in &self.cdi_devices {
            a.add_cdi_device(name);
        }
        // Removals first: removing and setting the same key in one answer sets it whoever had it.
        for key in &self.env.remove {
            a.remove_env(key);
        }
        for (key, value) in &self.env.set {
            a.add_env(key, value);
        }
        for key in &self.annotations.remove {
            a.remove_annotation(key);
        }
        for (key, value) in &self.annotations.set {
            a.add_annotation(key, value);
        }
        for key in &self.sysctl.remove {
            a.remove_sysctl(key);
        }
        for (key, value) in &self.sysctl.set {
            a.set_sysctl(key, value);
        }
        for destination in &self.remove_mounts {
            a.remove_mount(destination);
        }
        for m in &self.mounts {
            a.add_mount(Mount {
                destination: m.destination.clone(),
                source: m.source.clone(),
                type_: m.r#type.clone(),
                options: m.options.clone(),
                ..Default::default()
            });
        }
        for path in &self.remove_devices {
            a.remove_device(path);
        }
        for d in &self.devices {
            a.add_device(LinuxDevice {
                path: d.path.clone(),
                type_: d.r#type.clone(),
                major: d.major,
                minor: d.minor,
                file_mode: opt(d.mode),
                uid: opt(d.uid),
                gid: opt(d.gid),
                ..Default::default()
            });
        }
        for r in &self.rlimits {
            a.add_rlimit(&r.r#type, r.hard, r.soft);
        }
        for h in &self.hooks {
            a.add_hooks(h.hooks());
        }
        if let Some(resources) = &self.resources {
            resources.apply(&mut a);
        }
        a
    }
}

impl HookRule {
    fn hooks(&self) -> Hooks {
        let hook = Hook {
            path: self.path.clone(),
            args: self.args.clone(),
            env: self.env.clone(),
            timeout: opt(self.timeout),
            ..Default::default()
        };
        let mut hooks = Hooks::new();
        match self.stage {
            Stage::Prestart => hooks.prestart.push(hook),
            Stage::CreateRuntime => hooks.create_runtime.push(hook),
            Stage::CreateContainer => hooks.create_container.push(hook),
            Stage::StartContainer => hooks.start_container.push(hook),
            Stage::Poststart => hooks.poststart.push(hook),
            Stage::Poststop => hooks.poststop.push(hook),
        }
        hooks
    }
}

impl Resources {
    fn apply(&self, to: &mut impl SetResources) {
        macro_rules! set {
            ($($field:ident: $setter:ident),*) => {$(
                if let Some(value) = self.$field.clone() {
                    to.$setter(value);
                }
            )*};
        }
        set!(cpus: set_cpu_cpus, mems: set_cpu_mems, shares: set_cpu_shares, quota: set_cpu_quota, period: set_cpu_period);
        set!(memory: set_memory_limit, reservation: set_memory_reservation, swap: set_memory_swap, pids: set_pids_limit);
        set!(blockio_class: set_blockio_class, rdt_class: set_rdt_class);
        for (size, limit) in &self.hugepages {
            to.add_hugepage_limit(size, *limit);
        }
        for (file, value) in &self.unified {
            to.add_unified(file, value);
        }
    }
}

struct Adjust {
    config: Mutex<Arc<Config>>,
    /// From the command line; wins over that of the configuration.
    log: Option<PathBuf>,
}

impl Adjust {
    fn config(&self) -> Arc<Config> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes a line: the event, whom it is about, and the resources it brings.
    fn log(
        &self,
        event: &str,
        pod: Option<&PodSandbox>,
        container: Option<&Container>,
        resources: Option<&LinuxResources>,
    ) -> Reply<()> {
        let config = self.config();
        let Some(path) = self.log.as_ref().or(config.log.as_ref()) else { return Ok(()) };
        let mut line = serde_json::json!({ "event": event });
        if let Some(pod) = pod {
            line["pod"] = pod.id.as_str().into();
        }
        if let Some(container) = container {
            line["container"] = container.id.as_str().into();
        }
        if let Some(resources) = resources {
            line["resources"] = serde_json::from_str(&protobuf_json_mapping::print_to_string(resources)?)?;
        }
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(format!("{line}\n").as_bytes())?; // one write, so that lines do not mix
        Ok(())
    }

    fn pod(&self, event: &str, pod: &PodSandbox) -> Reply<()> {
        self.log(event, Some(pod), None, None)
    }

    fn container(&self, event: &str, pod: &PodSandbox, container: &Container) -> Reply<()> {
        self.log(event, Some(pod), Some(container), container.linux.resources.as_ref())
    }
}

#[async_trait]
impl Plugin for Adjust {
    /// Nothing, which means everything, those events included that this protocol version does not know.
    fn events(&self) -> EventMask {
        EventMask::NONE
    }

    async fn configure(&self, _: &Session, config: &str) -> Reply<()> {
        if !config.trim().is_empty() {
            *self.config.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(parse(config)?);
        }
        self.log("Configure", None, None, None)
    }

    async fn synchronize(
        &self,
        _: &Session,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> Reply<Vec<ContainerUpdate>> {
        self.log("Synchronize", None, None, None)?;
        for pod in &pods {
            self.pod("Synchronize", pod)?;
        }
        for container in &containers {
            let pod = pods.iter().find(|p| p.id == container.pod_sandbox_id);
            self.log("Synchronize", pod, Some(container), container.linux.resources.as_ref())?;
        }
        Ok(Vec::new())
    }

    async fn shutdown(&self, _: &Session) {
        self.log("Shutdown", None, None, None).ok(); // there is nobody left to tell
    }

    async fn run_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        self.pod("RunPodSandbox", &pod)
    }

    async fn update_pod_sandbox(
        &self,
        _: &Session,
        pod: PodSandbox,
        _: LinuxResources,
        resources: LinuxResources,
    ) -> Reply<()> {
        self.log("UpdatePodSandbox", Some(&pod), None, Some(&resources))
    }

    async fn post_update_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        self.pod("PostUpdatePodSandbox", &pod)
    }

    async fn stop_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        self.pod("StopPodSandbox", &pod)
    }

    async fn remove_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        self.pod("RemovePodSandbox", &pod)
    }

    async fn create_container(&self, _: &Session, pod: PodSandbox, container: Container) -> Reply<Creation> {
        self.container("CreateContainer", &pod, &container)?;
        let config = self.config();
        if !config.filter.matches(&pod, &container) {
            return Ok(Creation::default());
        }
        Ok(config.create.adjustment().into())
    }

    async fn post_create_container(&self, _: &Session, pod: PodSandbox, container: Container) -> Reply<()> {
        self.container("PostCreateContainer", &pod, &container)
    }

    async fn start_container(&self, _: &Session, pod: PodSandbox, container: Container) -> Reply<()> {
        self.container("StartContainer", &pod, &container)
    }

    async fn post_start_container(&self, _: &Session, pod: PodSandbox, container: Container) -> Reply<()> {
        self.container("PostStartContainer", &pod, &container)
    }

    async fn update_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
        resources: LinuxResources,
    ) -> Reply<Changes> {
        self.log("UpdateContainer", Some(&pod), Some(&container), Some(&resources))?;
        let config = self.config();
        match &config.update {
            Some(rules) if config.filter.matches(&pod, &container) => {
                let mut update = Update::new(container.id);
                rules.apply(&mut update);
                Ok(update.into())
            }
            _ => Ok(Changes::default()),
        }
    }

    async fn post_update_container(&self, _: &Session, pod: PodSandbox, container: Container) -> Reply<()> {
        self.container("PostUpdateContainer", &pod, &container)
    }

    async fn stop_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<Vec<ContainerUpdate>> {
        self.container("StopContainer", &pod, &container)?;
        Ok(Vec::new())
    }

    async fn remove_container(&self, _: &Session, pod: PodSandbox, container: Container) -> Reply<()> {
        self.container("RemoveContainer", &pod, &container)
    }

    async fn validate_container_adjustment(
        &self,
        _: &Session,
        request: ValidateContainerAdjustmentRequest,
    ) -> Reply<()> {
        let resources = request.adjust.linux.resources.as_ref();
        self.log("ValidateContainerAdjustment", request.pod.as_ref(), request.container.as_ref(), resources)
    }
}

const USAGE: &str = "\
An NRI plugin that adjusts containers as a TOML file says.
Usage: adjust [--config FILE] [--idx NN] [--name NAME] [--socket PATH] [--log FILE]
Launched by a runtime, it takes the TOML from its configuration there. src/plugin/examples/adjust.rs begins with all of its keys.";

/// An error is one line, since it ends in a log.
fn parse(text: &str) -> Result<Config, String> {
    toml::from_str(text).map_err(|e| {
        let before = &text[..e.span().map_or(0, |span| span.start.min(text.len()))];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        format!("line {line}, column {column}: {}", e.message().trim_end().replace('\n', ", "))
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    if let Err(e) = run().await {
        let mut text = format!("adjust: {e}");
        let mut source = e.source();
        while let Some(e) = source {
            text += &format!(": {e}");
            source = e.source();
        }
        eprintln!("{text}");
        std::process::exit(1);
    }
}

async fn run() -> Result<(), Failure> {
    let (mut config, mut log, mut index, mut name, mut socket) = (Config::default(), None, None, None, None);
    let mut args = std::env::args().skip(1);
    while let Some(option) = args.next() {
        if matches!(option.as_str(), "-h" | "--help") {
            writeln!(std::io::stdout(), "{USAGE}")?;
            return Ok(());
        }
        let value = args.next().ok_or_else(|| format!("{option} needs a value"))?;
        match option.as_str() {
            "--config" => {
                let text = std::fs::read_to_string(&value).map_err(|e| format!("{value}: {e}"))?;
                config = parse(&text).map_err(|e| format!("{value}: {e}"))?;
            }
            "--log" => log = Some(PathBuf::from(value)),
            "--idx" => index = Some(value),
            "--name" => name = Some(value),
            "--socket" => socket = Some(value),
            _ => return Err(format!("unknown option {option}").into()),
        }
    }
    let plugin = Adjust { config: Mutex::new(Arc::new(config)), log };
    let mut stub = Stub::builder(plugin)
        .name(name.unwrap_or_else(|| "adjust".into()))
        .index(index.unwrap_or_else(|| "50".into()));
    if let Some(socket) = socket {
        stub = stub.socket_path(socket);
    }
    Ok(stub.connect().await?.run().await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example at the top of this file.
    fn documented() -> String {
        let source = include_str!("adjust.rs");
        let toml = source.lines().skip_while(|l| *l != "//! ```toml").skip(1).take_while(|l| *l != "//! ```");
        toml.map(|l| l.trim_start_matches("//!").trim_start_matches(' ').to_owned() + "\n").collect()
    }

    #[test]
    fn an_error_is_one_line_with_its_place() {
        let wrong = |text: &str| parse(text).map(|_| ()).unwrap_err();
        assert!(
            wrong("log = '/l'\n  nonsense = 1\n").starts_with("line 2, column 3: unknown field `nonsense`")
        );
        for text in ["a = \n", "[create]\nargs = 1\n", "\u{e4} = [", "="] {
            let error = wrong(text);
            assert!(error.starts_with("line ") && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn the_documented_example_is_read_and_says_everything() {
        let config: Config = toml::from_str(&documented()).unwrap();
        let a = ContainerAdjustment::from(config.create.adjustment());
        assert_eq!(a.args, ["", "sleep", "100"]);
        assert_eq!(a.env.iter().map(|e| e.key.as_str()).collect::<Vec<_>>(), ["-C", "A"]);
        assert_eq!(
            a.mounts.iter().map(|m| m.destination.as_str()).collect::<Vec<_>>(),
            ["-/var/cache", "/data"]
        );
        assert_eq!(a.linux.devices[1].file_mode.value, 0o666);
        assert_eq!(a.hooks.poststop[0].timeout.value, 5);
        assert_eq!(a.rlimits[0].soft, 512);
        let r = &a.linux.resources;
        assert_eq!((r.cpu.cpus.as_str(), r.cpu.quota.value, r.memory.swap.value), ("0-1", 50000, 134217728));
        assert_eq!((r.pids.limit, r.hugepage_limits[0].limit), (100, 4194304));
        assert_eq!(r.unified["memory.high"], "50000000");
        assert_eq!(config.update.unwrap().shares, Some(256));
    }

    #[test]
    fn an_unknown_key_is_named() {
        for (toml, key) in [
            ("colour = 1", "colour"),
            ("[create]\nmemory = 1", "memory"),
            ("[create.resources]\ncpu = 1", "`cpu`"),
            ("[[create.mounts]]\ndestination = \"/a\"\nsource = \"/b\"\nopts = []", "opts"),
        ] {
            let e = toml::from_str::<Config>(toml).unwrap_err().to_string();
            assert!(e.contains(key) && e.contains("unknown field"), "{e}");
        }
    }

    #[test]
    fn filters() {
        let check = |filter: &str, expect: bool| {
            let filter: Filter = toml::from_str(filter).unwrap();
            let pod = PodSandbox { annotations: [("a".into(), "pod".into())].into(), ..Default::default() };
            let annotations = [("b".into(), "own".into())].into();
            let container = Container { name: "web".into(), annotations, ..Default::default() };
            assert_eq!(filter.matches(&pod, &container), expect, "{filter:?}");
        };
        check("", true);
        check("name = 'web'", true);
        check("name = 'db'", false);
        check("annotations = { a = 'pod', b = 'own' }", true);
        check("annotations = { a = 'other' }", false);
        check("name = 'web'\nannotations = { c = '' }", false);
    }
}
