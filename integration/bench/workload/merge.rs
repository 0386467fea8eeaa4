//! Work of a container's creation: the merge of the plugins' replies.

use nri_api::{PluginId, proto::*};
use nri_merge::{CreateMerge, CreateOutcome};

/// A container of the size that a service in Kubernetes has, and replies that each set an
/// annotation, a variable, a mount and a resource.
#[derive(Debug)]
pub struct Merge {
    request: CreateContainerRequest,
    replies: Vec<(PluginId, CreateContainerResponse)>,
}

impl Merge {
    /// Creates the replies of `plugins` plugins: at most 90, whose indices begin at 10.
    pub fn new(plugins: usize) -> Self {
        let replies = (0..plugins).map(|n| {
            let id = PluginId::new(&format!("{:02}", n + 10), "p").expect("a valid index");
            (id, reply(n))
        });
        Self { request: request(), replies: replies.collect() }
    }

    /// The request of the creation.
    pub fn request(&self) -> &CreateContainerRequest {
        &self.request
    }

    /// Merges all replies, and before each builds the request for its plugin, as the adaptation
    /// does.
    pub fn run(&self) -> CreateOutcome {
        let CreateContainerRequest { pod, container, .. } = self.request.clone();
        let mut merge = CreateMerge::new(pod.unwrap_or_default(), container.unwrap_or_default());
        for (plugin, reply) in &self.replies {
            std::hint::black_box(merge.request());
            merge.reply(plugin, reply.clone()).expect("the replies do not conflict");
        }
        merge.finish()
    }
}

fn request() -> CreateContainerRequest {
    let entries = |kind: &str, count: usize| {
        let entry = |n| (format!("{kind}.kubernetes.io/key-{n}"), format!("value-of-{kind}-{n}"));
        (0..count).map(entry).collect()
    };
    let pod = PodSandbox {
        id: "4b2e4e4c5f7f4a7d9c1f5b8a3e2d1c0b9a8f7e6d5c4b3a291807f6e5d4c3b2a1".into(),
        name: "web-7d9c8b6f5-x2x9z".into(),
        namespace: "default".into(),
        labels: entries("label", 8),
        annotations: entries("annotation", 6),
        ..Default::default()
    };
    let mount = |n| Mount {
        destination: format!("/etc/volume-{n}"),
        type_: "bind".into(),
        source: format!("/var/lib/kubelet/pods/web/volumes/kubernetes.io~configmap/volume-{n}"),
        options: ["rbind", "rprivate", "rw"].map(str::to_owned).to_vec(),
        ..Default::default()
    };
    let container = Container {
        id: "9a8f7e6d5c4b3a291807f6e5d4c3b2a14b2e4e4c5f7f4a7d9c1f5b8a3e2d1c0b".into(),
        pod_sandbox_id: pod.id.clone(),
        name: "web".into(),
        labels: entries("label", 6),
        annotations: entries("annotation", 8),
        args: ["/usr/bin/nginx", "-g", "daemon off;"].map(str::to_owned).to_vec(),
        env: (0..25).map(|n| format!("SERVICE_{n}_PORT_TCP_ADDR=10.96.0.{n}")).collect(),
        mounts: (0..14).map(mount).collect(),
        ..Default::default()
    };
    CreateContainerRequest {
        pod: Some(pod).into(),
        container: Some(container).into(),
        ..Default::default()
    }
}

/// Returns the reply of one plugin. Replies of different plugins do not conflict.
fn reply(plugin: usize) -> CreateContainerResponse {
    let mut adjust = ContainerAdjustment::default();
    adjust.annotations.insert(format!("bench.example/p{plugin}"), "value".into());
    adjust.env.push(KeyValue {
        key: format!("BENCH_{plugin}"),
        value: "value".into(),
        ..Default::default()
    });
    adjust.mounts.push(Mount {
        destination: format!("/run/bench/{plugin}"),
        type_: "bind".into(),
        source: "/tmp".into(),
        options: ["rbind", "ro"].map(str::to_owned).to_vec(),
        ..Default::default()
    });
    let resources = adjust.linux.mut_or_insert_default().resources.mut_or_insert_default();
    resources.unified.insert(format!("memory.bench{plugin}"), "1".into());
    CreateContainerResponse { adjust: Some(adjust).into(), ..Default::default() }
}
