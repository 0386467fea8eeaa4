//! `nrictl inspect`: all that `nrid` knows of a container or pod, as JSON, like the `inspect` of
//! engines. The environment is left out: it often has secrets.

use crate::{
    error::CtlError,
    nrid_location::NridLocation,
    output::output,
    views::{containers::ContainerEntry, freezer, pods::PodEntry, request::DescribeClient, text},
};
use clap::{Args, ValueEnum};
use nri_control::{
    CgroupPaths, ContainerDescription, Describe, Description, ObjectKind, PodDescription,
};
use nri_files::{MissedPlugin, OsText};
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{self, Write},
};

/// The command line of `nrictl inspect`.
#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// Id of a container or pod, else its name, else a prefix of its id.
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Show a container or a pod; without it, a container if both are named alike.
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<InspectedKind>,
    /// Print the JSON on one line.
    #[arg(long)]
    json: bool,
}

/// What `nrictl inspect` shows.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum InspectedKind {
    /// A container
    Container,
    /// A pod
    Pod,
}

/// A container. Its JSON is described in `docs/reference/nrictl.md`.
#[derive(Debug, Serialize)]
struct ContainerReport<'a> {
    r#type: &'static str,
    id: &'a str,
    plugin_id: &'a str,
    name: &'a str,
    engine: &'a str,
    pod: PodReference<'a>,
    state: &'a str,
    pid: Option<i32>,
    created: Option<String>,
    started: Option<String>,
    finished: Option<String>,
    exit: Option<ExitReport<'a>>,
    runtime: RuntimeReport,
    bundle: BundleReport<'a>,
    cgroups: CgroupReport,
    args: &'a [String],
    labels: &'a BTreeMap<String, String>,
    annotations: &'a BTreeMap<String, String>,
    hooks: Vec<HookReport<'a>>,
    resources: ResourceReport<'a>,
    owners: &'a BTreeMap<String, Vec<String>>,
    adjusted_by: &'a [String],
    missed: &'a [MissedPlugin],
    eviction: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct PodReference<'a> {
    id: &'a str,
    name: &'a str,
}

#[derive(Debug, Serialize)]
struct ExitReport<'a> {
    code: i32,
    reason: &'a str,
    message: &'a str,
}

#[derive(Debug, Serialize)]
struct RuntimeReport {
    path: String,
    root: String,
    options: Vec<String>,
}

#[derive(Debug, Serialize)]
struct BundleReport<'a> {
    path: String,
    config: &'a str,
    /// Whether the OCI config is not the one that the engine wrote.
    adjusted: bool,
    /// Whether the hook of `nrid` is in the OCI config.
    nrid_hook: bool,
}

#[derive(Debug, Serialize)]
struct CgroupReport {
    v1: BTreeMap<String, String>,
    v2: Option<String>,
}

#[derive(Debug, Serialize)]
struct HookReport<'a> {
    stage: &'a str,
    path: &'a str,
    args: &'a [String],
}

/// `linux.resources` of the OCI config.
#[derive(Debug, Serialize)]
struct ResourceReport<'a> {
    requested: &'a Value,
    effective: &'a Value,
    /// Those of an update in progress.
    pending: Option<&'a Value>,
}

/// A pod. Its JSON is described in `docs/reference/nrictl.md`.
#[derive(Debug, Serialize)]
struct PodReport<'a> {
    r#type: &'static str,
    /// What `nrictl pods` shows.
    #[serde(flatten)]
    entry: PodEntry<'a>,
    uid: &'a str,
    runtime_handler: &'a str,
    ips: &'a [String],
    labels: &'a BTreeMap<String, String>,
    annotations: &'a BTreeMap<String, String>,
    sandbox: Option<ContainerReport<'a>>,
    containers: Vec<ContainerEntry<'a>>,
}

impl Inspect {
    /// Requests and prints the container or pod.
    ///
    /// # Errors
    /// There is no such container or pod, or several; `nrid` does not reply; or standard output
    /// cannot be written to.
    pub(crate) fn run(&self, nrid: &NridLocation) -> Result<(), CtlError> {
        let kind = self.kind.map(|kind| match kind {
            InspectedKind::Container => ObjectKind::Container,
            InspectedKind::Pod => ObjectKind::Pod,
        });
        let question = Describe::Object { id: self.id.clone(), kind, recorded: false };
        let description = DescribeClient::connect(nrid)?.object(&question)?;
        Ok(print(&description, self.json, &mut output())?)
    }
}

fn print(description: &Description, one_line: bool, out: &mut impl Write) -> io::Result<()> {
    let value = match description {
        Description::Container(container) => serde_json::to_value(ContainerReport::new(container))?,
        Description::Pod(pod) => serde_json::to_value(PodReport::new(pod))?,
        // Not replies to this question.
        Description::Containers(_) | Description::Pods(_) => Value::Null,
    };
    if one_line { writeln!(out, "{value}") } else { writeln!(out, "{value:#}") }
}

fn path(text: &OsText) -> String {
    text.0.to_string_lossy().into_owned()
}

impl<'a> ContainerReport<'a> {
    fn new(container: &'a ContainerDescription) -> Self {
        let summary = &container.summary;
        Self {
            r#type: "container",
            id: &summary.id,
            plugin_id: &container.plugin_id,
            name: &summary.name,
            engine: &summary.engine,
            pod: PodReference { id: &summary.pod, name: &summary.pod_name },
            state: freezer::state(summary),
            pid: summary.pid,
            created: text::timestamp(summary.created),
            started: container.started.and_then(text::timestamp),
            finished: container.finished.and_then(text::timestamp),
            exit: container.exit.as_ref().map(|exit| ExitReport {
                code: exit.code,
                reason: &exit.reason,
                message: &exit.message,
            }),
            runtime: RuntimeReport {
                path: path(&summary.runtime),
                root: path(&container.root),
                options: container.runtime_options.iter().map(path).collect(),
            },
            bundle: BundleReport {
                path: path(&container.bundle),
                config: &container.config,
                adjusted: container.config_adjusted,
                nrid_hook: container.hooked,
            },
            cgroups: CgroupReport::new(&summary.cgroups),
            args: &container.args,
            labels: &container.labels,
            annotations: &container.annotations,
            hooks: container
                .hooks
                .iter()
                .map(|hook| HookReport { stage: &hook.stage, path: &hook.path, args: &hook.args })
                .collect(),
            resources: ResourceReport {
                requested: &container.requested,
                effective: &container.effective,
                pending: container.pending.as_ref(),
            },
            owners: &container.owners,
            adjusted_by: &summary.adjusted_by,
            missed: &summary.missed,
            eviction: container.eviction.as_deref(),
        }
    }
}

impl CgroupReport {
    fn new(cgroups: &CgroupPaths) -> Self {
        let v1 = cgroups.v1.iter().map(|(controller, dir)| (controller.clone(), path(dir)));
        Self { v1: v1.collect(), v2: cgroups.v2.as_ref().map(path) }
    }
}

impl<'a> PodReport<'a> {
    fn new(pod: &'a PodDescription) -> Self {
        Self {
            r#type: "pod",
            entry: PodEntry::from(&pod.summary),
            uid: &pod.uid,
            runtime_handler: &pod.runtime_handler,
            ips: &pod.ips,
            labels: &pod.labels,
            annotations: &pod.annotations,
            sandbox: pod.sandbox.as_deref().map(ContainerReport::new),
            containers: pod.containers.iter().map(ContainerEntry::from).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_control::{ContainerExit, ContainerHook, ContainerSummary, PodSummary};
    use serde_json::json;

    fn container() -> ContainerDescription {
        let text = |text: &str| text.to_owned();
        let summary = ContainerSummary {
            id: text("c1"),
            name: text("web"),
            pod: text("p1"),
            pod_name: text("shop"),
            engine: text("docker"),
            state: text("stopped"),
            runtime: OsText::from("/usr/bin/runc"),
            created: 1_000_000_000,
            adjusted_by: vec![text("10-a")],
            missed: vec![MissedPlugin { plugin: text("20-b"), why: text("it hangs") }],
            cgroups: CgroupPaths {
                v1: [(text("cpu"), OsText::from("/cpu/c1"))].into(),
                v2: Some(OsText::from("/unified/c1")),
            },
            ..ContainerSummary::default()
        };
        ContainerDescription {
            summary,
            plugin_id: text("c1-1234"),
            started: Some(2_000_000_000),
            finished: Some(3_000_000_000),
            exit: Some(ContainerExit { code: 3, reason: text("Error"), message: text("") }),
            root: OsText::from("/run/runc"),
            runtime_options: vec![OsText::from("--systemd-cgroup")],
            bundle: OsText::from("/b"),
            config: text("config.json"),
            config_adjusted: true,
            hooked: false,
            args: vec![text("sh")],
            labels: [(text("l"), text("1"))].into(),
            annotations: [(text("a"), text("2"))].into(),
            hooks: vec![ContainerHook {
                stage: text("poststop"),
                path: text("/bin/hook"),
                args: vec![text("hook")],
            }],
            requested: json!({}),
            effective: json!({"memory": {"limit": 7}}),
            pending: None,
            owners: [(text("memory.limit"), vec![text("10-a")])].into(),
            eviction: None,
            recorded: Vec::new(),
        }
    }

    fn printed(description: &Description, one_line: bool) -> Value {
        let mut out = Vec::new();
        print(description, one_line, &mut out).unwrap();
        assert_eq!(String::from_utf8_lossy(&out).lines().count() == 1, one_line);
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn the_json_of_a_container_has_the_documented_names() {
        let value = printed(&Description::Container(Box::new(container())), false);
        assert_eq!(
            value,
            json!({
                "type": "container", "id": "c1", "plugin_id": "c1-1234", "name": "web",
                "engine": "docker", "pod": {"id": "p1", "name": "shop"}, "state": "stopped",
                "pid": null, "created": "1970-01-01T00:00:01.000000000Z",
                "started": "1970-01-01T00:00:02.000000000Z",
                "finished": "1970-01-01T00:00:03.000000000Z",
                "exit": {"code": 3, "reason": "Error", "message": ""},
                "runtime": {
                    "path": "/usr/bin/runc", "root": "/run/runc", "options": ["--systemd-cgroup"]
                },
                "bundle": {
                    "path": "/b", "config": "config.json", "adjusted": true, "nrid_hook": false
                },
                "cgroups": {"v1": {"cpu": "/cpu/c1"}, "v2": "/unified/c1"},
                "args": ["sh"], "labels": {"l": "1"}, "annotations": {"a": "2"},
                "hooks": [{"stage": "poststop", "path": "/bin/hook", "args": ["hook"]}],
                "resources": {
                    "requested": {}, "effective": {"memory": {"limit": 7}}, "pending": null
                },
                "owners": {"memory.limit": ["10-a"]}, "adjusted_by": ["10-a"],
                "missed": [{"plugin": "20-b", "why": "it hangs"}], "eviction": null
            })
        );
    }

    #[test]
    fn the_json_of_a_pod_has_its_containers_and_its_sandbox_container() {
        let container = container();
        let summary = PodSummary { id: "p1".to_owned(), containers: 1, ..PodSummary::default() };
        let pod = PodDescription {
            summary,
            uid: "u1".to_owned(),
            containers: vec![container.summary.clone()],
            sandbox: Some(Box::new(container)),
            ..PodDescription::default()
        };
        let value = printed(&Description::Pod(Box::new(pod)), true);
        assert_eq!(value["type"], "pod");
        assert_eq!((&value["id"], &value["uid"]), (&json!("p1"), &json!("u1")));
        assert_eq!(value["container_count"], 1);
        assert_eq!(value["containers"][0]["id"], "c1");
        assert_eq!(value["sandbox"]["runtime"]["root"], "/run/runc");
        let members: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            members,
            [
                "type",
                "id",
                "name",
                "namespace",
                "engine",
                "state",
                "kind",
                "pid",
                "runtime",
                "created",
                "container_count",
                "adjusted_by",
                "missed",
                "uid",
                "runtime_handler",
                "ips",
                "labels",
                "annotations",
                "sandbox",
                "containers"
            ]
        );
    }
}
