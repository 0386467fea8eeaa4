//! Asks a running Docker for its runtimes. Docker reads its file at its start and when it reloads,
//! so that the file alone does not say which runtime a container gets.
//!
//! One `GET /info`, on the unix socket of a Docker of root: an environment variable such as
//! `DOCKER_HOST` names the Docker of a client, which may be another one.

use super::{
    finding::DoctorReport,
    kinds::{ENGINE_FILE_UNREAD, ENGINE_SILENT},
};
use crate::install::ConfiguredEngine;
use nri_control::{check_peer_user, connect_to};
use nri_host::DockerApi;
use rustix::process::geteuid;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    io::{self, ErrorKind, Read, Write},
    path::Path,
    time::{Duration, Instant},
};

/// Time limit of the connection, and of the reply: Docker replies in milliseconds.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Limit of the reply in bytes: it has a few KB, more with many registries and warnings.
const MAX_REPLY: usize = 1 << 20;
/// Limit of the header's lines: Docker sends ten.
const MAX_HEADERS: usize = 64;
/// The version of HTTP in which the end of the connection is the end of the reply.
const REQUEST: &[u8] = b"GET /info HTTP/1.0\r\nHost: docker\r\n\r\n";

/// Why there is no usable reply.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error("no answer within {TIMEOUT:?}")]
    TimedOut,
    #[error(transparent)]
    Io(io::Error),
    #[error("the reply has more than {MAX_REPLY} bytes")]
    TooLarge,
    #[error("invalid reply: {0}")]
    Http(#[from] httparse::Error),
    #[error("the header of the reply is incomplete")]
    Incomplete,
    #[error("status {0}")]
    Status(u16),
    #[error("invalid reply: {0}")]
    Json(#[from] serde_json::Error),
}

impl From<io::Error> for AskError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Self::TimedOut,
            _ => Self::Io(error),
        }
    }
}

/// The part of Docker's reply about runtimes.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerInfo {
    runtimes: BTreeMap<String, DockerRuntime>,
    default_runtime: String,
}

#[derive(Debug, Deserialize)]
struct DockerRuntime {
    /// Empty for a runtime that is a shim of containerd.
    #[serde(default)]
    path: String,
}

/// Compares the runtimes of a Docker with those in its file, and reports a difference. Returns
/// whether they are the same; `false` as well if Docker cannot be asked.
pub(super) fn has_read_its_file(
    report: &mut DoctorReport,
    shown: &str,
    pid: i32,
    configured: &ConfiguredEngine,
) -> bool {
    // Other users may not ask, and root asks none that another user may have started.
    if !geteuid().is_root() {
        return false;
    }
    let api = DockerApi::of(pid);
    let info = match ask(&api.socket) {
        Ok(info) => info,
        Err(error) => {
            let socket = api.socket.display();
            report.add(ENGINE_SILENT, format!("{shown}: does not answer on {socket}: {error}"));
            report.advise("Whether it has read its file is not known. `docker info` shows it.");
            return false;
        }
    };
    let Some(difference) = difference(&info, &api, configured) else { return true };
    let files = configured.runtimes.first().map(|runtime| runtime.file.display().to_string());
    let (text, command) = match difference {
        Difference::Unread(text) => (text, "reload"),
        // A reload keeps what the file does not have.
        Difference::Kept(text) => (text, "restart"),
    };
    let file = files.unwrap_or_default();
    report.add(ENGINE_FILE_UNREAD, format!("{shown}: has not read {file} as it is now: {text}"));
    report.advise(format!("`systemctl {command} docker` makes it read the file."));
    false
}

/// A difference, described.
#[derive(Debug, PartialEq, Eq)]
enum Difference {
    /// A value of the file, which Docker does not have.
    Unread(String),
    /// A value that Docker has, and the file has not.
    Kept(String),
}

fn difference(
    info: &DockerInfo,
    api: &DockerApi,
    configured: &ConfiguredEngine,
) -> Option<Difference> {
    let of_runtime = configured.runtimes.iter().find_map(|runtime| {
        let (name, path) = (&runtime.name, runtime.binary.0.as_path());
        match info.runtimes.get(name) {
            None => Some(format!("it has no runtime {name}")),
            Some(has) if Path::new(&has.path) != path => {
                Some(format!("its runtime {name} calls {}", has.path))
            }
            Some(_) => None,
        }
    });
    let has = &info.default_runtime;
    let is_ours = || configured.runtimes.iter().any(|runtime| runtime.name == *has);
    match (of_runtime, &configured.default, &api.default_runtime) {
        (Some(text), ..) => Some(Difference::Unread(text)),
        (None, Some(wanted), _) if wanted != has => {
            Some(Difference::Unread(format!("its default runtime is {has}, not {wanted}")))
        }
        (None, None, None) if is_ours() => {
            Some(Difference::Kept(format!("its default runtime is {has}")))
        }
        _ => None,
    }
}

fn ask(socket: &Path) -> Result<DockerInfo, AskError> {
    let deadline = Instant::now() + TIMEOUT;
    let mut connection = connect_to(socket, TIMEOUT)?;
    check_peer_user(&connection, 0)?;
    connection.write_all(REQUEST)?;
    let (mut reply, mut buffer) = (Vec::new(), [0; 8192]);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(AskError::TimedOut);
        }
        connection.set_read_timeout(Some(left))?;
        match connection.read(&mut buffer) {
            Ok(0) => return parse(&reply),
            Ok(n) => reply.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        if reply.len() > MAX_REPLY {
            return Err(AskError::TooLarge);
        }
    }
}

fn parse(reply: &[u8]) -> Result<DockerInfo, AskError> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(length) = response.parse(reply)? else {
        return Err(AskError::Incomplete);
    };
    match response.code {
        Some(200) => Ok(serde_json::from_slice(&reply[length..])?),
        code => Err(AskError::Status(code.unwrap_or_default())),
    }
}
