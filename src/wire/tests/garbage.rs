//! Sends random bytes at every layer, and checks that nothing panics and that other sessions are
//! not affected. tokio catches panics of tasks, so a panic hook counts them. Panics of another test
//! would be counted, too, so this file must have only one test.

#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use nri_wire::{RUNTIME_SERVICE, Trunk, encode};
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, TestRunner},
};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};
use ttrpc::{Request, proto::Codec};

/// Layer of the random data.
#[derive(Debug, Clone)]
enum Input {
    Bytes(Vec<u8>),
    Frames(Vec<(u32, Vec<u8>)>),
    Messages(Vec<(u32, u8, u32, Vec<u8>)>),
    Requests(Vec<(bool, Vec<u8>)>),
}

fn message(kind: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut all = (payload.len() as u32).to_be_bytes().to_vec();
    all.extend(stream.to_be_bytes());
    all.extend([kind, 0]);
    all.extend(payload);
    all
}

fn frames(frames: impl IntoIterator<Item = (u32, Vec<u8>)>) -> Vec<u8> {
    let mut all = bytes::BytesMut::new();
    frames.into_iter().for_each(|(conn, payload)| encode(id(conn), &payload, &mut all));
    all.to_vec()
}

impl Input {
    fn bytes(&self) -> Vec<u8> {
        match self.clone() {
            Self::Bytes(b) => b,
            Self::Frames(f) => frames(f),
            Self::Messages(m) => {
                frames(m.into_iter().map(|(c, kind, stream, p)| (c, message(kind, stream, &p))))
            }
            Self::Requests(r) => frames(r.into_iter().enumerate().map(|(n, (known, payload))| {
                let mut request = Request::new();
                request.service = RUNTIME_SERVICE.into();
                request.method = if known { "UpdateContainers" } else { "RegisterPlugin" }.into();
                request.payload = payload;
                (2, message(1, 2 * n as u32 + 1, &request.encode().unwrap()))
            })),
        }
    }
}

fn input() -> impl Strategy<Value = Input> {
    let small = || vec(any::<u8>(), 0..40);
    prop_oneof![
        small().prop_map(Input::Bytes),
        vec((1u32..5, vec(any::<u8>(), 1..40)), 0..8).prop_map(Input::Frames),
        vec((1u32..3, 0u8..5, 0u32..6, small()), 0..8).prop_map(Input::Messages),
        vec((any::<bool>(), small()), 0..8).prop_map(Input::Requests),
    ]
}

#[test]
fn random_bytes_at_any_layer_cause_no_panic() {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    std::panic::set_hook(Box::new(|info| {
        PANICS.fetch_add(1, SeqCst);
        eprintln!("{info}");
    }));
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let other = tokio.block_on(session());
    let mut runner =
        TestRunner::new(Config { failure_persistence: None, cases: 2000, ..Config::default() });
    let result = runner.run(&input(), |input| {
        tokio.block_on(async {
            let (a, mut b) = UnixStream::pair().unwrap();
            let trunk = Trunk::new(a);
            let runtime = nri_wire::RuntimeEnd::over(
                trunk.clone(),
                Arc::new(TestRuntime::default()),
                &nri_wire::CallLimits::default(),
            )
            .await
            .unwrap();
            b.write_all(&input.bytes()).await.ok();
            b.shutdown().await.ok();
            let reason = runtime.closed().await;
            assert!(!matches!(reason, nri_wire::Closed::Local), "not ended by the peer: {reason}");
            let mut rest = Vec::new();
            b.read_to_end(&mut rest).await.ok();
        });
        prop_assert_eq!(PANICS.load(SeqCst), 0);
        Ok(())
    });
    result.unwrap();
    tokio.block_on(other.runtime.plugin().create_container(None, &create("still here"))).unwrap();
    let failed = tokio.block_on(other.runtime.plugin().create_container(None, &create("panic")));
    assert!(
        failed.is_err() && PANICS.load(SeqCst) == 1,
        "the hook did not count the panic of a task"
    );
}
