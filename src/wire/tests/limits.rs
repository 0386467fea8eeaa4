//! Limits of the requests that an end handles at the same time.

#![allow(clippy::unwrap_used)] // test helpers may panic

mod common;

use common::raw;
use nri_api::proto::*;
use nri_wire::{
    CallLimits, ConnId, Context, PLUGIN_SERVICE, Plugin, PluginEnd, RUNTIME_SERVICE, Runtime,
    RuntimeEnd, Trunk,
};
use protobuf::Message;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};
use tokio::net::UnixStream;
use ttrpc::{
    Request,
    proto::{GenMessage, MESSAGE_TYPE_REQUEST},
};

/// Service whose handlers overlap if they may, because each yields many times.
#[derive(Default)]
struct Slow {
    /// Number of handlers that run now.
    running: AtomicUsize,
    /// Largest value of `running`.
    peak: AtomicUsize,
}

impl Slow {
    async fn handle(&self) -> ttrpc::Result<Empty> {
        self.peak.fetch_max(self.running.fetch_add(1, SeqCst) + 1, SeqCst);
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        self.running.fetch_sub(1, SeqCst);
        Ok(Empty::new())
    }
}

#[async_trait::async_trait]
impl Runtime for Slow {
    async fn register_plugin(&self, _: &Context, _: RegisterPluginRequest) -> ttrpc::Result<Empty> {
        self.handle().await
    }
}

#[async_trait::async_trait]
impl Plugin for Slow {
    async fn shutdown(&self, _: &Context, _: Empty) -> ttrpc::Result<Empty> {
        self.handle().await
    }
}

/// Sends `count` requests at once, and waits for all replies.
async fn call(peer: &Trunk, conn: ConnId, method: (&str, &str), payload: Vec<u8>, count: u32) {
    let (mut read, mut write) = tokio::io::split(peer.open(conn).unwrap());
    let mut request = Request::new();
    (request.service, request.method) = (method.0.into(), method.1.into());
    request.payload = payload;
    let bytes = request.write_to_bytes().unwrap();
    let requests = async {
        for n in 0..count {
            raw(MESSAGE_TYPE_REQUEST, 2 * n + 1, bytes.clone()).write_to(&mut write).await.unwrap();
        }
    };
    let replies = async {
        for _ in 0..count {
            GenMessage::read_from(&mut read).await.unwrap();
        }
    };
    tokio::join!(requests, replies);
}

const REGISTER: (&str, &str) = (RUNTIME_SERVICE, "RegisterPlugin");

/// A registration of about this size in bytes.
fn registration(size: usize) -> Vec<u8> {
    let name = "x".repeat(size);
    let request = RegisterPluginRequest { plugin_name: name, ..Default::default() };
    request.write_to_bytes().unwrap()
}

#[tokio::test]
async fn at_most_32_requests_of_a_peer_are_handled_at_a_time() {
    let (a, b) = UnixStream::pair().unwrap();
    let slow = Arc::new(Slow::default());
    let _plugin = PluginEnd::new(a, slow.clone()).await.unwrap();
    call(&Trunk::new(b), ConnId::PLUGIN, (PLUGIN_SERVICE, "Shutdown"), Vec::new(), 1000).await;
    let peak = slow.peak.load(SeqCst);
    assert!((2..=32).contains(&peak), "{peak} requests were handled at the same time");
}

#[tokio::test]
async fn requests_of_a_plugin_are_handled_one_at_a_time_and_those_of_others_meanwhile() {
    let slow = Arc::new(Slow::default());
    let mut peers = Vec::new();
    for _ in 0..3 {
        let (a, b) = UnixStream::pair().unwrap();
        peers.push((RuntimeEnd::new(a, slow.clone()).await.unwrap(), Trunk::new(b)));
    }
    let calls = |n: usize| call(&peers[n].1, ConnId::RUNTIME, REGISTER, Vec::new(), 100);
    calls(0).await;
    assert_eq!(slow.peak.load(SeqCst), 1);
    tokio::join!(calls(1), calls(2));
    assert_eq!(slow.peak.load(SeqCst), 2);
}

#[tokio::test]
async fn large_requests_of_all_plugins_wait_for_one_another_and_small_ones_do_not() {
    let limits = CallLimits::default();
    // A request of 100 kB is large: at most four are handled. Of the small requests, one of each of
    // the ten plugins is handled.
    for (size, expected) in [(100_000, 4), (1000, 10)] {
        let slow = Arc::new(Slow::default());
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..10 {
            let (a, b) = UnixStream::pair().unwrap();
            let end = RuntimeEnd::over(Trunk::new(a), slow.clone(), &limits).await.unwrap();
            calls.spawn(async move {
                call(&Trunk::new(b), ConnId::RUNTIME, REGISTER, registration(size), 50).await;
                drop(end);
            });
        }
        calls.join_all().await;
        assert_eq!(slow.peak.load(SeqCst), expected, "requests of {size} bytes");
    }
}

/// The total size of the requests of a plugin that wait for their replies is limited.
#[tokio::test]
async fn requests_that_wait_are_limited_in_bytes() {
    let (a, b) = UnixStream::pair().unwrap();
    let slow = Arc::new(Slow::default());
    let _plugin = PluginEnd::new(a, slow.clone()).await.unwrap();
    // 31 requests are fewer than the 32 that may be handled at a time. With 3 MiB each, the second
    // one exceeds the limit of 4 MiB, above which no other is read.
    let payload = registration(3 << 20);
    call(&Trunk::new(b), ConnId::PLUGIN, (PLUGIN_SERVICE, "Shutdown"), payload, 31).await;
    assert_eq!(slow.peak.load(SeqCst), 2);
}
