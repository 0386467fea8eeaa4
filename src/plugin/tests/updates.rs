//! Runs the example `adjust` with `--updates`: updates that are requested outside of events.

#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use nri_plugin::proto::*;
use std::{io::Write, process::Stdio};
use tokio::{net::UnixListener, process::Command, time::timeout};

/// The runtime reports each update as failed.
#[tokio::test]
async fn lines_on_stdin_request_updates_in_the_newest_session() {
    let dir = tempfile::tempdir().unwrap();
    let (socket, log) = (dir.path().join("nri.sock"), dir.path().join("log"));
    let listener = UnixListener::bind(&socket).unwrap();
    let tests = std::env::current_exe().unwrap();
    let example = tests.parent().unwrap().with_file_name("examples").join("adjust");
    let mut child = Command::new(example)
        .args(["--reconnect", "--updates"])
        .arg("--log")
        .arg(&log)
        .arg("--socket")
        .arg(&socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let stdin = child.stdin.take().unwrap().into_owned_fd().unwrap();
    let mut stdin = std::fs::File::from(stdin);
    let mut request = |line: &str| writeln!(stdin, "{line}").unwrap();
    for (id, memory) in [("one", 1_048_576), ("two", 2_097_152)] {
        let (stream, _) = timeout(TIMEOUT, listener.accept()).await.unwrap().unwrap();
        let mut runtime = serve_runtime(stream).await;
        timeout(TIMEOUT, runtime.registered.recv()).await.unwrap().unwrap();
        let plugin = runtime.end.plugin();
        plugin.configure(TIMEOUT, &ConfigureRequest::new()).await.unwrap();
        plugin.synchronize(TIMEOUT, &SynchronizeRequest::new()).await.unwrap();
        request(&format!("{{\"container\": \"{id}\", \"resources\": {{\"memory\": {memory}}}}}"));
        let requested = timeout(TIMEOUT, runtime.requested.recv()).await.unwrap().unwrap();
        let [update] = &requested.update[..] else { unreachable!("one update: {requested}") };
        assert_eq!(update.container_id, id);
        assert_eq!(update.linux.resources.memory.limit.value, memory);
    }
    // A line that cannot be read is logged, and ends nothing.
    request("{}");
    let text = async {
        loop {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            if text.contains("missing field `container`") {
                return text;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    let text = timeout(TIMEOUT, text).await.unwrap();
    let first = text.lines().find(|line| line.contains("UpdateContainers")).unwrap();
    let first: serde_json::Value = serde_json::from_str(first).unwrap();
    assert_eq!((&first["container"], &first["failed"]), (&"one".into(), &1.into()), "{text}");
    child.kill().await.unwrap();
}
