//! A container runtime with NRI, on top of runc: `BUNDLE ID PLUGINS CONFIGS SOCKET`.
//!
//! Creates and starts the container of a bundle, waits until it ends, deletes it, and exits with
//! its exit code. The plugins of the directory PLUGINS are launched with their configurations in
//! CONFIGS; others connect to SOCKET. The variable RUNC names the low-level runtime.

use async_trait::async_trait;
use nri_runtime::{ContainerInfo, HandlerResult, Nri, RuntimeConfig, RuntimeHandler, proto};
use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};
use serde_json::Value;
use std::process::{ExitCode, Stdio};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Runs runc with arguments, and `input` on its standard input.
async fn runc(arguments: &[&str], input: &[u8]) -> Result<()> {
    let program = std::env::var_os("RUNC").unwrap_or_else(|| "runc".into());
    let mut child = Command::new(program).args(arguments).stdin(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A runtime that does not read its input may have ended.
        let _ = stdin.write_all(input).await;
    }
    let status = child.wait().await?;
    let failed = format!("runc {}: {status}", arguments.join(" "));
    status.success().then_some(()).ok_or_else(|| failed.into())
}

/// Performs what plugins request of the container while it exists.
struct Handler;

#[async_trait]
impl RuntimeHandler for Handler {
    async fn update_container(&self, container: &str, resources: &Value) -> HandlerResult {
        runc(&["update", "--resources", "-", container], resources.to_string().as_bytes()).await
    }

    async fn evict_container(&self, container: &str, _reason: &str) -> HandlerResult {
        runc(&["kill", container, "KILL"], b"").await
    }
}

/// Runs the container from its creation to its end. Returns its exit code.
async fn run(nri: &Nri, bundle: &str, id: &str) -> Result<u8> {
    let (file, pid_file) = (format!("{bundle}/config.json"), format!("{bundle}/pid"));
    let [own_id, pod_sandbox_id, name] = [id; 3].map(str::to_owned);
    let info = ContainerInfo { id: own_id, pod_sandbox_id, name, ..ContainerInfo::default() };
    let adjusted = nri.create_container(&info, &std::fs::read(&file)?).await?;
    if adjusted.changed {
        std::fs::write(&file, &adjusted.config)?;
    }
    runc(&["create", "--bundle", bundle, "--pid-file", &pid_file, id], b"").await?;
    let pid: i32 = std::fs::read_to_string(pid_file)?.parse()?;
    nri.change_container(id, |container| container.pid = pid.unsigned_abs())?;
    nri.post_create_container(id)?;
    nri.start_container(id).await?;
    runc(&["start", id], b"").await?;
    nri.post_start_container(id)?;
    // The end of runc makes this process, a subreaper, the parent of the container.
    let wait = move || waitpid(Pid::from_raw(pid), WaitOptions::empty());
    let (_, status) = tokio::task::spawn_blocking(wait).await??.ok_or("no status")?;
    let code = status.exit_status().or(status.terminating_signal().map(|signal| 128 + signal));
    nri.change_container(id, |container| container.exit_code = code.unwrap_or_default())?;
    Ok(u8::try_from(code.unwrap_or_default())?)
}

/// Runs the container of the command line in a pod of its own, with NRI.
async fn run_pod() -> Result<u8> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [bundle, id, plugins, configs, socket] = &arguments[..] else {
        return Err("usage: minimal_runtime BUNDLE ID PLUGINS CONFIGS SOCKET".into());
    };
    set_child_subreaper(Some(getpid()))?;
    let mut config = RuntimeConfig::new("example", env!("CARGO_PKG_VERSION"));
    config.plugin_dir = plugins.into();
    config.plugin_config_dir = configs.into();
    config.socket = Some(socket.into());
    let nri = Nri::start(config, Handler, Default::default()).await?;
    let pod = proto::PodSandbox { id: id.clone(), name: id.clone(), ..Default::default() };
    nri.run_pod_sandbox(pod).await?;
    let ended = run(&nri, bundle, id).await;
    // Both are unknown if a plugin refused the creation.
    if nri.container(id).is_ok() {
        nri.stop_container(id).await?;
        runc(&["delete", "--force", id], b"").await?;
        nri.remove_container(id).await?;
    }
    nri.stop_pod_sandbox(id).await?;
    nri.remove_pod_sandbox(id).await?;
    nri.shutdown().await;
    ended
}

#[tokio::main]
async fn main() -> ExitCode {
    let ended = run_pod().await.inspect_err(|error| eprintln!("{error}"));
    ended.map_or(ExitCode::FAILURE, ExitCode::from)
}
