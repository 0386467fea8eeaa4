//! Runs a plugin with a configuration file of its own, which SIGHUP makes it read again.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::*;
use nix::sys::signal::{Signal, raise};
use nri_plugin::{Configured, Stub, StubError, prelude::*, proto::*};
use std::{fs, path::Path, time::Duration};
use tokio::{net::UnixListener, time::timeout};

/// A plugin that sets a variable to its configuration, which may be anything but `bad`.
#[derive(Default)]
struct Echo(Configured<String>);

impl Plugin for Echo {
    async fn configure(&self, _: &Session, config: &str) -> Reply<()> {
        if config == "bad" {
            return Err("this is bad".into());
        }
        self.0.set(config.to_owned());
        Ok(())
    }

    async fn create_container(&self, _: &Session, _: PodSandbox, _: Container) -> Reply<Creation> {
        let mut adjustment = Adjustment::new();
        adjustment.add_env("CONFIG", self.0.get().as_str());
        Ok(adjustment.into())
    }
}

/// Accepts a session, and configures the plugin with this text.
async fn session(listener: &UnixListener, config: &str) -> TestRuntimeEnd {
    let (stream, _) = timeout(TIMEOUT, listener.accept()).await.unwrap().unwrap();
    let mut runtime = serve_runtime(stream).await;
    timeout(TIMEOUT, runtime.registered.recv()).await.unwrap().unwrap();
    let request = ConfigureRequest { config: config.to_owned(), ..Default::default() };
    runtime.end.plugin().configure(TIMEOUT, &request).await.unwrap();
    runtime
}

/// Returns the configuration of the plugin.
async fn configuration(runtime: &TestRuntimeEnd) -> String {
    let request =
        CreateContainerRequest { container: Some(container("c")).into(), ..Default::default() };
    let reply = runtime.end.plugin().create_container(TIMEOUT, &request).await.unwrap();
    reply.adjust.env[0].value.clone()
}

/// Writes the file, sends SIGHUP to this process, and waits until the plugin has the configuration.
async fn reload(runtime: &TestRuntimeEnd, file: &Path, text: &str) {
    fs::write(file, text).unwrap();
    raise(Signal::SIGHUP).unwrap();
    let taken = async {
        while configuration(runtime).await != text {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(TIMEOUT, taken).await.unwrap();
}

#[tokio::test]
async fn sighup_loads_the_file_and_a_file_that_is_refused_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (socket, file) = (dir.path().join("nri.sock"), dir.path().join("echo.conf"));
    let builder = |file: &Path| {
        Stub::builder(Echo::default())
            .name("echo")
            .index("07")
            .socket_path(&socket)
            .config_file(file)
    };
    let error = builder(&file).run().await.unwrap_err();
    assert!(matches!(&error, StubError::ConfigFile { path, .. } if *path == file), "{error}");
    fs::write(&file, "bad").unwrap();
    let error = builder(&file).run().await.unwrap_err();
    assert_eq!(error.to_string(), format!("{}: this is bad", file.display()));

    fs::write(&file, "one").unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    let run = tokio::spawn(builder(&file).run());
    let runtime = session(&listener, "").await;
    assert_eq!(configuration(&runtime).await, "one");
    reload(&runtime, &file, "two").await;
    reload(&runtime, &file, "").await;
    reload(&runtime, &file, "three").await;
    fs::write(&file, "bad").unwrap();
    raise(Signal::SIGHUP).unwrap();
    // The plugin, its session and its configuration outlive the signal, and the next session.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(configuration(&runtime).await, "three");
    drop(runtime);
    let runtime = session(&listener, "").await;
    assert_eq!(configuration(&runtime).await, "three");
    drop(runtime);
    let runtime = session(&listener, "of the runtime").await;
    assert_eq!(configuration(&runtime).await, "of the runtime");
    reload(&runtime, &file, "four").await;
    assert!(!run.is_finished());
}
