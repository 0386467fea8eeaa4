//! Tests of creations that fail after plugins have updated other containers: these get back what
//! they had, unless a later update has changed it.

use crate::{
    containers::{Sleep, begin, perform},
    create::records,
    node::{Node, Nrid, wait_until},
    wire_plugin::{UpdatesAtCreation, connect, wait_until_active},
};
use nri_api::{opt, proto::*};
use nri_control::{Client, Exit, Finished, Reply, Request, Verb};
use nri_files::{AuditEvent, AuditLine};
use nri_wire::PluginEnd;
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt, path::Path, sync::Arc};
use tokio::task::spawn_blocking;

/// Updates the container `neighbor` when another one is created: its limit of pids, its shares, and
/// `memory.high`, of which the last had no value.
fn updates(id: &str) -> Vec<ContainerUpdate> {
    if id == "neighbor" {
        return Vec::new();
    }
    let mut updates = vec![update(|resources| {
        resources.pids.mut_or_insert_default().limit = 555;
        resources.cpu.mut_or_insert_default().shares = opt(Some(512));
        resources.unified.insert("memory.high".to_owned(), "9".to_owned());
    })];
    if id == "unwritable" {
        updates.push(ContainerUpdate { container_id: "none".into(), ..update(|_| ()) });
    }
    updates
}

/// Returns an update of the neighbor.
fn update(set: impl FnOnce(&mut LinuxResources)) -> ContainerUpdate {
    let mut resources = LinuxResources::new();
    set(&mut resources);
    let linux = LinuxContainerUpdate { resources: Some(resources).into(), ..Default::default() };
    ContainerUpdate {
        container_id: "neighbor".into(),
        linux: Some(linux).into(),
        ..Default::default()
    }
}

/// A node with a plugin, a runtime that accepts updates and stores the last one, and the neighbor.
struct Case {
    node: Node,
    nrid: Nrid,
    runtime: String,
    _process: Sleep,
}

/// Resources with which the neighbor is created.
fn resources() -> Value {
    json!({"cpu": {"shares": 100}, "pids": {"limit": 999}})
}

impl Case {
    /// Starts `nrid` without enforcement: the neighbor is in the cgroup of the test.
    fn new() -> Self {
        let node = Node::new("enforce = 'off'\n");
        let nrid = node.start();
        let (runtime, process) = (node.path("runtime"), Sleep::new());
        let script = format!(
            "#!/bin/sh\ncase \" $* \" in\n*' update '*) cat >{:?};;\n*' state '*) exit 1;;\nesac\n",
            node.path("updated")
        );
        fs::write(&runtime, script).unwrap();
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755)).unwrap();
        let runtime = runtime.to_str().unwrap().to_owned();
        Self { node, nrid, runtime, _process: process }
    }

    /// Connects the plugin.
    async fn plugin(&self) -> Arc<PluginEnd> {
        connect(&self.node, Arc::new(UpdatesAtCreation(updates))).await
    }

    fn create_neighbor(&self) {
        wait_until_active(&self.node);
        let bundle = self.node.path("bundles/neighbor");
        fs::create_dir_all(&bundle).unwrap();
        let config = json!({"ociVersion": "1.0.2", "linux": {"resources": resources()}});
        fs::write(bundle.join("config.json"), config.to_string()).unwrap();
        let pid = Some(self._process.pid());
        perform(&self.node, Verb::Create, "neighbor", &self.runtime, pid).unwrap();
        perform(&self.node, Verb::Start, "neighbor", &self.runtime, None).unwrap();
    }

    fn neighbor(&self) -> Value {
        let records = records(&self.node, r#""id":"neighbor""#);
        let is_container = |path: &&std::path::PathBuf| path.to_string_lossy().contains("/cont");
        let record = fs::read_to_string(records.iter().find(is_container).unwrap()).unwrap();
        serde_json::from_str(&record).unwrap()
    }

    /// Begins a creation, which updates the neighbor.
    fn begin(&self, id: &str) -> Client {
        let (reply, client) = begin(&self.node, Verb::Create, id, &self.runtime);
        assert!(matches!(reply, Reply::Proceed(_)), "{reply:?}");
        let neighbor = self.neighbor();
        let expected = json!({"cpu": {"shares": 512}, "pids": {"limit": 555},
            "unified": {"memory.high": "9"}});
        assert_eq!(neighbor["effective"], expected);
        client
    }

    /// Checks that the neighbor has these effective resources and no owners.
    fn check(&self, expected: &Value) {
        let neighbor = self.neighbor();
        assert_eq!(neighbor["effective"], *expected);
        let sent: Value =
            serde_json::from_slice(&fs::read(self.node.path("updated")).unwrap()).unwrap();
        assert_eq!(sent, *expected);
        let replaced = neighbor.get("replaced");
        assert!(replaced.is_none(), "{replaced:?}");
    }

    fn owners(&self) -> Value {
        self.neighbor()["owners"].clone()
    }

    /// Returns the updates of the neighbor in the audit log, as text.
    fn audited(&self) -> Vec<String> {
        let text = fs::read_to_string(self.node.state_dir().join("audit.log")).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<AuditLine>(line).unwrap());
        let is_update = |l: &AuditLine| l.event == AuditEvent::Update && l.container == "neighbor";
        let value = |v: &Option<Value>| v.as_ref().map_or("-".into(), Value::to_string);
        let describe = |line: AuditLine| {
            let change = |c: &nri_files::FieldChange| {
                format!("{} {} {}", c.field, value(&c.before), value(&c.after))
            };
            let changes: Vec<_> = line.changes.iter().map(change).collect();
            format!("{}: {} ({})", line.plugin, changes.join(", "), line.message)
        };
        lines.filter(is_update).map(describe).collect()
    }
}

fn failed() -> Request {
    Request::Finished(Finished { exit: Exit::Code(1), pid: None, error: Some("no".into()) })
}

#[tokio::test]
async fn a_failed_creation_puts_the_resources_of_other_containers_back() {
    let case = Case::new();
    let _plugin = case.plugin().await;
    let check = move || {
        case.create_neighbor();
        let client = case.begin("new");
        client.call(&failed(), &[]).unwrap();
        case.check(&resources());
        assert_eq!(case.owners(), json!({}));
        let undo = ": cpu.shares 512 100, pids.limit 555 999, unified[memory.high] \"9\" - \
                    (undo of an update by 10-test: creation of new failed)";
        wait_until("the audit log", || (case.audited().last()? == undo).then_some(()));
        assert_eq!(records(&case.node, "new"), Vec::<std::path::PathBuf>::new());
        case.node.stop();
        case.nrid.wait_for_exit();
    };
    spawn_blocking(check).await.unwrap();
}

#[tokio::test]
async fn a_failed_creation_leaves_what_another_update_has_set_since() {
    let case = Arc::new(Case::new());
    let plugin = case.plugin().await;
    let begun = case.clone();
    let begin = move || {
        begun.create_neighbor();
        begun.begin("new")
    };
    let client = spawn_blocking(begin).await.unwrap();
    // The same value again is another update, too.
    let set = |resources: &mut LinuxResources| {
        resources.cpu.mut_or_insert_default().shares = opt(Some(512));
    };
    let request = UpdateContainersRequest { update: vec![update(set)], ..Default::default() };
    let failed_updates = plugin.runtime().update_containers(None, &request).await.unwrap().failed;
    assert!(failed_updates.is_empty(), "{failed_updates:?}");
    let check = move || {
        client.call(&failed(), &[]).unwrap();
        case.check(&json!({"cpu": {"shares": 512}, "pids": {"limit": 999}}));
        assert_eq!(case.owners(), json!({"simple": {"16": "10-test"}}));
    };
    spawn_blocking(check).await.unwrap();
}

#[tokio::test]
async fn an_update_that_fails_undoes_those_before_it() {
    let case = Case::new();
    let _plugin = case.plugin().await;
    let check = move || {
        case.create_neighbor();
        let (reply, _client) = begin(&case.node, Verb::Create, "unwritable", &case.runtime);
        assert!(matches!(reply, Reply::Refused { .. }), "{reply:?}");
        case.check(&resources());
        assert_eq!(case.owners(), json!({}));
    };
    spawn_blocking(check).await.unwrap();
}

#[tokio::test]
async fn the_next_nrid_undoes_a_creation_whose_runtime_was_never_called() {
    let case = Case::new();
    let plugin = case.plugin().await;
    let check = move || {
        case.create_neighbor();
        let client = case.begin("new");
        let Case { node, nrid, runtime, _process } = case;
        // Kills it.
        drop(nrid);
        drop(client);
        // The wrapper is this process, which does not end before the next nrid starts.
        set_caller(&node, "new", 0x7fff_ffff);
        let nrid = node.start();
        let case = Case { node, nrid, runtime, _process };
        case.check(&resources());
        assert_eq!(case.owners(), json!({}));
        assert_eq!(records(&case.node, "new"), Vec::<std::path::PathBuf>::new());
    };
    spawn_blocking(check).await.unwrap();
    drop(plugin);
}

/// Replaces the process id of the wrapper in a record.
fn set_caller(node: &Node, id: &str, pid: i32) {
    for path in records(node, &format!(r#""id":"{id}""#)) {
        let mut record: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        if is_record(&path) && record["caller"].is_object() {
            record["caller"]["pid"] = pid.into();
            fs::write(path, record.to_string()).unwrap();
        }
    }
}

fn is_record(path: &Path) -> bool {
    path.parent().is_some_and(|dir| dir.ends_with("containers"))
}
