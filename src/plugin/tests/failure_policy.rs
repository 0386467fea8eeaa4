//! The handling of failures that a plugin requests because of its configuration.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::*;
use nri_plugin::{Plugin, Reply, Session, Stub, proto::*};
use std::sync::Mutex;
use tokio::net::UnixStream;

/// A plugin whose configuration decides whether requests fail without it.
#[derive(Default)]
struct Strict(Mutex<bool>);

impl Plugin for Strict {
    async fn configure(&self, _: &Session, config: &str) -> Reply<()> {
        *self.0.lock().unwrap() = config == "strict";
        Ok(())
    }

    fn failure_policy(&self) -> Option<FailurePolicy> {
        let fail = FailurePolicy { fail_request: true, ..Default::default() };
        Some(fail).filter(|_| *self.0.lock().unwrap())
    }
}

#[tokio::test]
async fn the_failure_policy_may_depend_on_the_configuration() {
    for (config, expected) in [("strict", Some(true)), ("", None)] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let runtime = serve_runtime(ours).await;
        let builder = Stub::builder(Strict::default()).name("a").index("00").stream(theirs);
        let _stub = builder.connect().await.unwrap();
        let request = ConfigureRequest { config: config.to_owned(), ..Default::default() };
        let reply = runtime.end.plugin().configure(TIMEOUT, &request).await.unwrap();
        let policy = reply.failure_policy.into_option();
        assert_eq!(policy.map(|policy| policy.fail_request), expected);
    }
}
