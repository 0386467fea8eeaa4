//! Minimal runtime for one plugin: accepts its registration, configures and synchronizes it,
//! requests an adjustment of a container of a given size, and disconnects. Use it to try a plugin,
//! or this crate with upstream's stub.
//!
//! ```text
//! cargo run -p nri-wire --example runtime -- SOCKET [ENV_BYTES]
//! ```
//! `SOCKET` must not exist; the plugin connects to it. `ENV_BYTES` is the length of the container's
//! environment (default 100); a request larger than the message limit fails.
#![allow(clippy::print_stdout)] // the output of the program

use async_trait::async_trait;
use nri_api::{EventMask, NRI_VERSION, proto::*};
use nri_wire::{Context, Runtime, RuntimeEnd, ttrpc};
use std::{sync::Arc, time::Duration};
use tokio::{net::UnixListener, sync::mpsc};

const TIMEOUT: Duration = Duration::from_secs(2);

struct Example {
    registered: mpsc::UnboundedSender<RegisterPluginRequest>,
}

#[async_trait]
impl Runtime for Example {
    async fn register_plugin(
        &self,
        _: &Context,
        request: RegisterPluginRequest,
    ) -> ttrpc::Result<Empty> {
        self.registered.send(request).ok();
        Ok(Empty::new())
    }

    async fn update_containers(
        &self,
        _: &Context,
        request: UpdateContainersRequest,
    ) -> ttrpc::Result<UpdateContainersResponse> {
        println!("requested: {request}");
        Ok(UpdateContainersResponse { failed: request.update, ..Default::default() })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let socket = args.next().ok_or("usage: runtime SOCKET [ENV_BYTES]")?;
    let size = args.next().map_or(Ok(100), |n| n.parse())?;
    let listener = UnixListener::bind(&socket)?;
    println!("listening on {socket}");
    let (stream, _) = listener.accept().await?;
    std::fs::remove_file(&socket)?;

    let (registered, mut registrations) = mpsc::unbounded_channel();
    let end = RuntimeEnd::new(stream, Arc::new(Example { registered })).await?;
    let registration = tokio::select! {
        r = registrations.recv() => r.ok_or("no registration")?,
        reason = end.closed() => return Err(reason.into()),
    };
    println!("registered: {registration}");

    let plugin = end.plugin();
    let configure = ConfigureRequest {
        runtime_name: "example".into(),
        runtime_version: "0".into(),
        registration_timeout: 5000,
        request_timeout: TIMEOUT.as_millis() as i64,
        NRI_version: NRI_VERSION.into(),
        ..Default::default()
    };
    let configured = plugin.configure(TIMEOUT, &configure).await?;
    println!("subscribed: {:?}", EventMask::from_subscription(configured.events)?);

    let pod = PodSandbox { id: "pod0".into(), name: "pod".into(), ..Default::default() };
    // Three parts, as if the pods did not fit into one message.
    for more in [true, true, false] {
        let part = SynchronizeRequest { pods: vec![pod.clone()], more, ..Default::default() };
        println!("synchronized: {}", plugin.synchronize(TIMEOUT, &part).await?);
    }

    let container = Container {
        id: "ctr0".into(),
        name: "container".into(),
        pod_sandbox_id: pod.id.clone(),
        env: vec![format!("FILL={}", "x".repeat(size))],
        ..Default::default()
    };
    let mut create = CreateContainerRequest::new();
    create.pod = Some(pod.clone()).into();
    create.container = Some(container.clone()).into();
    match plugin.create_container(TIMEOUT, &create).await {
        Ok(reply) => println!("created: {}", shortened(&reply.to_string())),
        Err(e) => println!("not created: {e}"),
    }
    let mut run = RunPodSandboxRequest::new();
    run.pod = Some(pod).into();
    println!(
        "pod run: {:?}",
        plugin
            .run_pod_sandbox(TIMEOUT, &run)
            .await
            .map(|a| a.to_string())
            .map_err(|e| e.to_string())
    );
    println!(
        "shut down: {:?}",
        plugin
            .shutdown(TIMEOUT, &Empty::new())
            .await
            .map(|a| a.to_string())
            .map_err(|e| e.to_string())
    );
    println!("end: {:?}", tokio::time::timeout(TIMEOUT, end.closed()).await.map(|r| r.to_string()));
    Ok(())
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(300) {
        Some((at, _)) => format!("{}… ({} bytes)", &text[..at], text.len()),
        None => text.to_owned(),
    }
}
