//! Descriptions of containers and pods, from their records, for `nrictl containers`, `pods`,
//! `inspect`, `stats` and `top`. No cgroup is read: `nrictl` does that.
//!
//! Lists are sent in pages, so that no reply is large, and no other request waits for a list. A
//! container or pod that is created or removed between two pages may be missing.

use crate::{
    control::{
        names::pod_name,
        page::{PAGE_ENTRIES, page},
    },
    resources::owners,
    service::Service,
    state::{
        container::Container,
        pod::{PodKind, PodRecord, PodStatus},
        record::Record,
        registry::{Registry, distinct_ids},
        status::ContainerStatus,
    },
};
use nri_api::proto;
use nri_cgroup::{CgroupDirs, Controller};
use nri_control::{
    Ambiguous, CgroupPaths, ContainerDescription, ContainerExit, ContainerHook, ContainerSummary,
    Describe, Description, EncodedDescription, MAX_FRAME, Match, ObjectKind, PodDescription,
    PodSummary, Reply,
};
use nri_files::{MissedPlugin, OsText};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

/// Reason why a description cannot be sent.
#[derive(Debug, thiserror::Error)]
enum DescribeError {
    #[error("no such {kind}: {wanted}")]
    Unknown {
        /// `container` or `pod`.
        kind: &'static str,
        /// The id or name of the request.
        wanted: String,
    },
    #[error(transparent)]
    Ambiguous(#[from] Ambiguous),
    #[error("the description has {0} bytes, and a message at most {MAX_FRAME}")]
    TooLarge(usize),
    #[error("the description cannot be encoded: {0}")]
    Json(#[from] serde_json::Error),
}

impl Service {
    /// Answers a question about containers and pods.
    pub async fn describe(&self, question: &Describe) -> Reply {
        match self.encoded_description(question).await {
            Ok(description) => Reply::Description(description),
            Err(error) => Reply::Refused { message: error.to_string() },
        }
    }

    async fn encoded_description(
        &self,
        question: &Describe,
    ) -> Result<EncodedDescription, DescribeError> {
        let is_next_page = matches!(
            question,
            Describe::Containers { after: Some(_) } | Describe::Pods { after: Some(_) }
        );
        if !is_next_page {
            self.refresh_names().await;
        }
        let mut description = describe(&self.registry, question)?;
        if let (Describe::Object { recorded: true, .. }, Description::Container(found)) =
            (question, &mut description)
            && let Some(container) = self.registry.by_nri_id(&found.plugin_id)
        {
            let without = encode(&description);
            let Description::Container(found) = &mut description else { return without };
            found.recorded = self.recorded(container.record()).await;
            // Long values of the creation have no room beside those of the container.
            return encode(&description).or(without);
        }
        encode(&description)
    }
}

fn encode(description: &Description) -> Result<EncodedDescription, DescribeError> {
    let encoded = EncodedDescription::new(description)?;
    // The rest of the reply is shorter than this.
    let length = encoded.encoded_len() + 1024;
    if length > MAX_FRAME { Err(DescribeError::TooLarge(length)) } else { Ok(encoded) }
}

fn describe(registry: &Registry, question: &Describe) -> Result<Description, DescribeError> {
    match question {
        Describe::Containers { after } => {
            let found = registry.page(after.as_deref(), PAGE_ENTRIES);
            let exists = |c: &Arc<Container>| !c.is_sandbox() && !c.is_deleted();
            let entries = found.into_iter().map(|container| {
                let record = container.record();
                let summary = exists(&container).then(|| summary(registry, &record));
                (record.nri_id().to_owned(), summary)
            });
            Ok(Description::Containers(page(entries)?))
        }
        Describe::Pods { after } => {
            let found = registry.pods.page(after.as_deref(), PAGE_ENTRIES);
            let entries = found.into_iter().map(|pod| {
                let members = members(registry, &pod);
                // The pod of a deleted container, which plugins are not notified of yet.
                let is_gone = members.is_empty() && !registry.of_pod(pod.id()).is_empty();
                let summary = (!is_gone).then(|| pod_summary(registry, &pod, &members));
                (pod.id().to_owned(), summary)
            });
            Ok(Description::Pods(page(entries)?))
        }
        Describe::Object { id, kind, .. } => match find(registry, id, *kind)? {
            Found::Container(record) => {
                Ok(Description::Container(Box::new(container(registry, &record))))
            }
            Found::Pod(pod) => Ok(Description::Pod(Box::new(pod_description(registry, &pod)))),
        },
    }
}

/// The container or pod that a person means.
#[derive(Debug)]
enum Found {
    Container(Arc<Record>),
    Pod(PodRecord),
}

/// Finds the container or pod that `wanted` means. If a container and a pod have the same id or
/// name, the container is meant.
fn find(
    registry: &Registry,
    wanted: &str,
    kind: Option<ObjectKind>,
) -> Result<Found, DescribeError> {
    let (of_containers, containers) = match kind {
        Some(ObjectKind::Pod) => (None, Vec::new()),
        _ => registry.meant(wanted, |container| !container.is_sandbox()),
    };
    let (of_pods, mut pods) = match kind {
        Some(ObjectKind::Container) => (None, Vec::new()),
        _ => Match::best(registry.pods.all().into_iter().filter_map(|pod| {
            Some((Match::of(wanted, &[pod.id()], &pod_name(registry, &pod))?, pod))
        })),
    };
    let mut ids = Vec::new();
    let of_pod = |pod: &PodRecord| pod.id().to_owned();
    if of_containers.is_some() && (of_pods.is_none() || of_containers <= of_pods) {
        ids.extend(distinct_ids(&containers));
        // A pod that was made for a container has the container's id.
        pods.retain(|pod| pod.kind != PodKind::SingleContainer);
        if of_pods == Some(Match::Prefix) && of_containers == of_pods {
            ids.extend(pods.iter().map(of_pod));
        }
        if let ([container], 1) = (containers.as_slice(), ids.len()) {
            return Ok(Found::Container(container.record()));
        }
    } else {
        if let [pod] = pods.as_slice() {
            return Ok(Found::Pod(pod.clone()));
        }
        ids.extend(pods.iter().map(of_pod));
    }
    let (one, several) = match kind {
        Some(ObjectKind::Container) => ("container", "containers"),
        Some(ObjectKind::Pod) => ("pod", "pods"),
        None => ("container or pod", "containers or pods"),
    };
    if ids.is_empty() {
        return Err(DescribeError::Unknown { kind: one, wanted: wanted.to_owned() });
    }
    Err(Ambiguous::new(several, wanted, &ids).into())
}

fn summary(registry: &Registry, record: &Record) -> ContainerSummary {
    let pod = registry.pods.get(&record.pod_id);
    let pod = pod.filter(|pod| pod.kind != PodKind::SingleContainer);
    ContainerSummary {
        id: record.key.id.clone(),
        name: record.container.text(&["name"]).to_owned(),
        pod: record.pod_id.clone(),
        pod_name: pod.map_or_else(String::new, |pod| pod.sandbox.text(&["name"]).to_owned()),
        engine: record.engine.name.clone(),
        state: record.status.name().to_owned(),
        pid: record.pid,
        runtime: record.runtime.path().into(),
        created: record.created_at(),
        adjusted_by: owners::plugins(&record.owners).into_iter().collect(),
        missed: record.missed.clone(),
        cgroups: record.cgroup().as_ref().map(cgroup_paths).unwrap_or_default(),
    }
}

fn cgroup_paths(dirs: &CgroupDirs) -> CgroupPaths {
    let v1 = |controller: Controller| {
        Some((controller.name().to_owned(), OsText::from(dirs.v1(controller)?)))
    };
    let v1: BTreeMap<_, _> = Controller::ALL.into_iter().filter_map(v1).collect();
    let v2 = Controller::ALL.into_iter().find_map(|controller| dirs.v2(controller));
    CgroupPaths { v1, v2: v2.map(OsText::from) }
}

fn container(registry: &Registry, record: &Record) -> ContainerDescription {
    let message = record.container.get();
    let time = |nanoseconds: i64| Some(nanoseconds).filter(|time| *time > 0);
    let has_ended = record.status == ContainerStatus::Stopped;
    ContainerDescription {
        summary: summary(registry, record),
        plugin_id: record.nri_id().to_owned(),
        started: time(message.started_at),
        finished: time(message.finished_at),
        exit: has_ended.then(|| ContainerExit {
            code: message.exit_code,
            reason: message.status_reason.clone(),
            message: message.status_message.clone(),
        }),
        root: record.key.root.as_os_str().into(),
        runtime_options: record.runtime.global_options().to_vec(),
        bundle: record.bundle.dir.as_os_str().into(),
        config: record.bundle.name.clone(),
        config_adjusted: record.bundle.own.is_some(),
        hooked: record.hooked,
        hooks: message.hooks.as_ref().map(hooks).unwrap_or_default(),
        args: message.args,
        labels: sorted(message.labels),
        annotations: sorted(message.annotations),
        requested: Value::clone(&record.requested),
        effective: Value::clone(&record.effective),
        pending: record.pending_update.as_ref().map(|update| update.effective.resources.clone()),
        owners: owners::by_field(&record.owners),
        eviction: record.eviction.as_ref().map(|eviction| eviction.reason.clone()),
        recorded: Vec::new(),
    }
}

fn sorted(map: HashMap<String, String>) -> BTreeMap<String, String> {
    map.into_iter().collect()
}

fn hooks(hooks: &proto::Hooks) -> Vec<ContainerHook> {
    let stages = [
        ("prestart", &hooks.prestart),
        ("createRuntime", &hooks.create_runtime),
        ("createContainer", &hooks.create_container),
        ("startContainer", &hooks.start_container),
        ("poststart", &hooks.poststart),
        ("poststop", &hooks.poststop),
    ];
    let hook = |stage: &str, hook: &proto::Hook| ContainerHook {
        stage: stage.to_owned(),
        path: hook.path.clone(),
        args: hook.args.clone(),
    };
    stages.iter().flat_map(|(stage, list)| list.iter().map(|h| hook(stage, h))).collect()
}

/// Returns the containers of a pod that are not deleted, its sandbox container included, oldest
/// first.
fn members(registry: &Registry, pod: &PodRecord) -> Vec<Arc<Record>> {
    let mut members = registry.of_pod(pod.id());
    members.retain(|container| !container.is_deleted());
    members.iter().map(|container| container.record()).collect()
}

fn pod_summary(registry: &Registry, pod: &PodRecord, members: &[Arc<Record>]) -> PodSummary {
    let sandbox = members.iter().find(|member| member.sandbox);
    // Plugins do not adjust sandbox containers, so these miss none.
    let mut missed: Vec<MissedPlugin> = Vec::new();
    for plugin in members.iter().flat_map(|member| &member.missed) {
        if !missed.iter().any(|known| known.plugin == plugin.plugin) {
            missed.push(plugin.clone());
        }
    }
    let plugins: BTreeSet<String> =
        members.iter().flat_map(|member| owners::plugins(&member.owners)).collect();
    PodSummary {
        id: pod.id().to_owned(),
        name: pod_name(registry, pod),
        namespace: pod.sandbox.text(&["namespace"]).to_owned(),
        engine: members.first().map_or_else(String::new, |member| member.engine.name.clone()),
        state: match pod.status {
            PodStatus::New => "new",
            PodStatus::Running => "running",
            PodStatus::Stopped => "stopped",
        }
        .to_owned(),
        kind: match pod.kind {
            PodKind::Sandbox => "sandbox",
            PodKind::SingleContainer => "container",
            PodKind::Shared => "shared",
        }
        .to_owned(),
        pid: sandbox.and_then(|sandbox| sandbox.pid),
        runtime: members.first().map(|member| member.runtime.path().into()),
        created: members.iter().map(|member| member.created_at()).min(),
        containers: members.iter().filter(|member| !member.sandbox).count(),
        adjusted_by: plugins.into_iter().collect(),
        missed,
    }
}

fn pod_description(registry: &Registry, pod: &PodRecord) -> PodDescription {
    let members = members(registry, pod);
    let message = pod.sandbox.get();
    let sandbox = members.iter().find(|member| member.sandbox);
    let others = members.iter().filter(|member| !member.sandbox);
    PodDescription {
        summary: pod_summary(registry, pod, &members),
        uid: message.uid,
        runtime_handler: message.runtime_handler,
        ips: message.ips,
        labels: sorted(message.labels),
        annotations: sorted(message.annotations),
        sandbox: sandbox.map(|sandbox| Box::new(container(registry, sandbox))),
        containers: others.map(|member| summary(registry, member)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{key::ContainerKey, record::EXAMPLE, store::Store};
    use nri_api::Packed;

    fn registry(dir: &std::path::Path) -> Registry {
        Registry::load(Store::open(dir).unwrap()).0
    }

    fn add(registry: &Registry, id: &str, name: &str, pod: &str, kind: PodKind) {
        let mut record: Record = serde_json::from_str(EXAMPLE).unwrap();
        record.key = ContainerKey { root: "/r".into(), id: id.to_owned() };
        record.container.change(|container| {
            (container.id, container.name) = (id.to_owned(), name.to_owned());
        });
        record.pod_id = pod.to_owned();
        record.sandbox = kind == PodKind::Sandbox && id == pod;
        registry.insert(record).unwrap();
        let sandbox = proto::PodSandbox {
            id: pod.to_owned(),
            name: format!("pod-of-{pod}"),
            ..proto::PodSandbox::default()
        };
        let sandbox = Packed::new(&sandbox);
        let (status, origin) = (PodStatus::Running, Default::default());
        registry.pods.set(PodRecord { sandbox, kind, status, origin });
    }

    fn found(registry: &Registry, wanted: &str, kind: Option<ObjectKind>) -> String {
        match find(registry, wanted, kind) {
            Ok(Found::Container(record)) => format!("container {}", record.key.id),
            Ok(Found::Pod(pod)) => format!("pod {}", pod.id()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn an_id_a_name_or_a_prefix_finds_a_container_or_a_pod() {
        let dir = tempfile::tempdir().unwrap();
        let registry = registry(dir.path());
        add(&registry, "aa1", "web", "aa1", PodKind::SingleContainer);
        add(&registry, "bb1", "POD", "bb1", PodKind::Sandbox);
        add(&registry, "bb2", "app", "bb1", PodKind::Sandbox);
        add(&registry, "cc1", "app", "bb1", PodKind::Sandbox);
        let (container, pod) = (Some(ObjectKind::Container), Some(ObjectKind::Pod));
        for (wanted, kind, expected) in [
            ("aa1", None, "container aa1"),
            ("aa1", pod, "pod aa1"),
            ("aa", None, "container aa1"),
            ("web", None, "container aa1"),
            ("bb1", None, "pod bb1"),
            ("bb1", container, "no such container: bb1"),
            ("pod-of-bb1", None, "pod bb1"),
            ("bb", None, "several containers or pods are meant by bb, use an id: bb2, bb1"),
            ("bb", container, "container bb2"),
            ("app", None, "several containers or pods are meant by app, use an id: bb2, cc1"),
            ("app", pod, "no such pod: app"),
            ("x", None, "no such container or pod: x"),
            ("", None, "no such container or pod: "),
        ] {
            assert_eq!(found(&registry, wanted, kind), expected, "{wanted} {kind:?}");
        }
    }

    #[test]
    fn pages_have_each_container_and_pod_once() {
        let dir = tempfile::tempdir().unwrap();
        let registry = registry(dir.path());
        const COUNT: usize = 2 * PAGE_ENTRIES;
        for n in 0..COUNT {
            let id = format!("c{n:04}");
            add(&registry, &id, "web", &id, PodKind::SingleContainer);
        }
        let (mut ids, mut after, mut pages) = (Vec::new(), None, 0);
        while pages == 0 || after.is_some() {
            let question = Describe::Containers { after };
            let Description::Containers(page) = describe(&registry, &question).unwrap() else {
                panic!("{question:?}");
            };
            ids.extend(page.entries.into_iter().map(|summary| summary.id));
            (after, pages) = (page.next, pages + 1);
        }
        let expected: Vec<_> = (0..COUNT).map(|n| format!("c{n:04}")).collect();
        assert_eq!((ids, pages), (expected.clone(), 3));
        let (mut ids, mut after, mut pages) = (Vec::new(), None, 0);
        while pages == 0 || after.is_some() {
            let question = Describe::Pods { after };
            let Description::Pods(page) = describe(&registry, &question).unwrap() else {
                panic!("{question:?}");
            };
            ids.extend(page.entries.into_iter().map(|summary| summary.id));
            (after, pages) = (page.next, pages + 1);
        }
        assert_eq!((ids, pages), (expected, 3));
    }

    #[test]
    fn the_owners_of_fields_are_plugins_that_adjusted_the_container() {
        let dir = tempfile::tempdir().unwrap();
        let registry = registry(dir.path());
        add(&registry, "c1", "web", "p1", PodKind::Shared);
        let Ok(Found::Container(record)) = find(&registry, "c1", None) else { panic!() };
        let described = container(&registry, &record);
        assert_eq!(described.summary.adjusted_by, ["10-a"]);
        assert_eq!(described.owners["memory.limit"], ["10-a"]);
        assert_eq!(described.summary.pod_name, "pod-of-p1");
        assert_eq!(described.summary.state, "running");
        assert_eq!(described.effective["memory"]["limit"], 2);
        assert_eq!(described.pending.unwrap()["memory"]["limit"], 3);
    }
}
