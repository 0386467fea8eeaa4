//! Sends the events of one container to plugins: `host PLUGIN_DIR [SOCKET]`.
//!
//! Launches the plugins of the directory. With a socket, the program then waits until an external
//! plugin is active. Updates and evictions that plugins request are printed, not performed.

use async_trait::async_trait;
use nri_adaptation::{
    Adaptation, AdaptationConfig, ContainerManager, PluginOrigin, PluginState, PluginStatus,
    RequestContext, Snapshot,
};
use nri_api::PluginId;
use nri_api::proto::*;
use std::error::Error;
use std::io::Write;
use std::sync::Arc;
use tokio::net::UnixListener;
use tokio::sync::Notify;

/// Manager of one pod with one container; notifies `connected` when an external plugin is active.
#[derive(Default)]
struct Printer {
    connected: Notify,
}

fn print(what: impl std::fmt::Display) {
    // A closed standard output must not make the requests of plugins fail.
    let _ = writeln!(std::io::stdout(), "{what}");
}

#[async_trait]
impl ContainerManager for Printer {
    async fn snapshot(&self) -> Snapshot {
        Snapshot { pods: vec![pod()], containers: vec![container("c0")] }
    }
    async fn update_containers(
        &self,
        plugin: &PluginId,
        updates: Vec<ContainerUpdate>,
        evictions: Vec<ContainerEviction>,
    ) -> Vec<ContainerUpdate> {
        print(format_args!("{plugin} requests {updates:?} {evictions:?}"));
        Vec::new()
    }
    fn plugin_changed(&self, status: &PluginStatus) {
        print(format_args!("{status:?}"));
        if status.state == PluginState::Active && status.origin == PluginOrigin::External {
            self.connected.notify_one();
        }
    }
}

fn pod() -> PodSandbox {
    PodSandbox {
        id: "p".into(),
        name: "pod".into(),
        namespace: "default".into(),
        ..Default::default()
    }
}

fn container(id: &str) -> Container {
    Container { id: id.into(), pod_sandbox_id: "p".into(), name: id.into(), ..Default::default() }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    let plugin_path = args.next().ok_or("usage: host PLUGIN_DIR [SOCKET]")?.into();
    let manager = Arc::new(Printer::default());
    let (nri, outcomes) = Adaptation::start(
        AdaptationConfig { plugin_path, ..AdaptationConfig::default() },
        manager.clone(),
    )
    .await?;
    for outcome in outcomes {
        print(format_args!("{}: {:?}", outcome.path.display(), outcome.result));
    }
    if let Some(socket) = args.next() {
        nri.serve(UnixListener::bind(socket)?)?;
        manager.connected.notified().await;
    }

    macro_rules! request {
        (pod $request:ident) => {
            $request { pod: Some(pod()).into(), ..Default::default() }
        };
        ($request:ident) => {
            $request {
                pod: Some(pod()).into(),
                container: Some(container("c1")).into(),
                ..Default::default()
            }
        };
    }
    nri.run_pod_sandbox(
        request!(pod RunPodSandboxRequest),
        &RequestContext::default(),
        async || (),
    )
    .await?;
    let created = nri
        .create_container(
            request!(CreateContainerRequest),
            &RequestContext::default(),
            async |o| o,
            async |o| o,
        )
        .await;
    match created {
        Ok(outcome) => {
            print(format_args!("c1 is adjusted: {}\nowners: {}", outcome.adjust, outcome.owners))
        }
        Err(e) => print(format_args!("c1 is not created: {e}")),
    }
    nri.post_create_container(request!(PostCreateContainerRequest));
    nri.start_container(request!(StartContainerRequest), &RequestContext::default(), async || ())
        .await?;
    nri.post_start_container(request!(PostStartContainerRequest));
    nri.stop_container(request!(StopContainerRequest), async |outcome| {
        print(format_args!("{outcome:?}"))
    })
    .await;
    nri.remove_container(request!(RemoveContainerRequest), async || ()).await;
    nri.stop_pod_sandbox(request!(pod StopPodSandboxRequest), async || ()).await;
    nri.remove_pod_sandbox(request!(pod RemovePodSandboxRequest), async || ()).await;
    nri.shutdown().await;
    Ok(())
}
