//! Simulated containers: each has a directory in the state of the runtime, and a process that
//! sleeps.

use crate::node::{Node, wait_until};
use nri_control::{Begin, Client, ClientError, Exit, Finished, Reply, Request, Verb};
use nri_files::OsText;
use serde_json::Value;
use std::{
    fs,
    os::fd::AsFd,
    path::Path,
    process::{Child, Command, Stdio},
};

/// A sleeping process that stands for a container's first process; killed when it is dropped.
pub(crate) struct Sleep(Child);

impl Sleep {
    pub(crate) fn new() -> Self {
        Self(Command::new("sleep").arg("100000").stdin(Stdio::null()).spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> i32 {
        self.0.id() as i32
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Sends the request with which a wrapper begins a verb. Returns the reply and the connection.
pub(crate) fn begin(node: &Node, verb: Verb, id: &str, runtime: &str) -> (Reply, Client) {
    let (reply, client) = try_begin(node, verb, id, runtime);
    (reply.unwrap(), client)
}

/// Sends the same request; `nrid` may close the connection.
pub(crate) fn try_begin(
    node: &Node,
    verb: Verb,
    id: &str,
    runtime: &str,
) -> (Result<Reply, ClientError>, Client) {
    let path = |path: &Path| OsText::from(path.as_os_str());
    let bundle = node.path("bundles").join(id);
    if !bundle.exists() {
        fs::create_dir_all(&bundle).unwrap();
        fs::write(bundle.join("config.json"), r#"{"ociVersion":"1.0.2"}"#).unwrap();
    }
    let begin = Begin {
        verb,
        id: id.into(),
        runtime: path(Path::new(runtime)),
        root: Some(path(&node.path("root"))),
        globals: Vec::new(),
        arguments: Vec::new(),
        bundle: Some(path(&bundle)),
        config: None,
        cwd: path(&bundle),
        environment: Vec::new(),
        resources: None,
        flag: false,
        hook: None,
        follow: false,
    };
    let client = Client::connect(&node.socket()).unwrap();
    let dir = fs::File::open(bundle).unwrap();
    let reply = client.call(&Request::Begin(Box::new(begin)), &[dir.as_fd()]);
    (reply, client)
}

/// Performs a whole verb as a wrapper does, without a runtime.
///
/// # Errors
/// The message of a refusal.
pub(crate) fn perform(
    node: &Node,
    verb: Verb,
    id: &str,
    runtime: &str,
    pid: Option<i32>,
) -> Result<(), String> {
    let (reply, client) = begin(node, verb, id, runtime);
    match reply {
        Reply::Proceed(_) => {}
        Reply::Refused { message } => return Err(message),
        other => panic!("{other:?}"),
    }
    let dir = node.path("root").join(id);
    match verb {
        Verb::Create => fs::create_dir_all(dir).unwrap(),
        Verb::Delete => fs::remove_dir(dir).unwrap(),
        _ => {}
    }
    let finished = Finished { exit: Exit::Code(0), pid, error: None };
    match client.call(&Request::Finished(finished), &[]).unwrap() {
        Reply::Done => Ok(()),
        other => panic!("{other:?}"),
    }
}

/// Creates and starts a container with this first process.
///
/// # Errors
/// The message of a refusal.
pub(crate) fn create_and_start(node: &Node, id: &str, process: &Sleep) -> Result<(), String> {
    perform(node, Verb::Create, id, "/bin/false", Some(process.pid()))?;
    perform(node, Verb::Start, id, "/bin/false", None)
}

/// Returns the ids of containers with this status in their records.
pub(crate) fn with_status(node: &Node, status: &str) -> Vec<String> {
    let dir = fs::read_dir(node.state_dir().join("containers")).unwrap();
    let records = dir.map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = records
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .filter_map(|path| serde_json::from_str::<Value>(&fs::read_to_string(path).ok()?).ok())
        .filter(|record| record["status"] == status)
        .map(|record| record["key"]["id"].as_str().unwrap().to_owned())
        .collect();
    found.sort();
    found
}

/// Waits until exactly these containers have the status.
pub(crate) fn wait_for_status(node: &Node, status: &str, ids: &[&str]) {
    wait_until(status, || (with_status(node, status) == ids).then_some(()));
}
