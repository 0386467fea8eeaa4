//! The floor of the plugin path: the same request to the same plugins, as bytes made before, over a
//! blocking socket. Nothing is encoded, decoded or merged, so no adaptation can take less time.

use crate::reply::Reply;
use async_trait::async_trait;
use nri_api::proto::{
    ConfigureRequest, CreateContainerRequest, Empty, RegisterPluginRequest, SynchronizeRequest,
};
use nri_wire::{Context, FRAME_HEADER, Runtime, RuntimeEnd, ttrpc};
use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    io::AsyncReadExt,
    net::UnixListener,
    sync::mpsc::{UnboundedSender, unbounded_channel},
};

const TIMEOUT: Duration = Duration::from_secs(5);

/// Size of the header of a ttrpc message.
const MESSAGE_HEADER: usize = 10;

/// Stream id of the first request, above those of the handshake. Ids must be odd and grow.
const FIRST_STREAM: u32 = 101;

/// Runtime service that only registers plugins.
struct Registration(UnboundedSender<()>);

#[async_trait]
impl Runtime for Registration {
    async fn register_plugin(&self, _: &Context, _: RegisterPluginRequest) -> ttrpc::Result<Empty> {
        let _ = self.0.send(());
        Ok(Empty::new())
    }
}

/// The plugins, and the request that they get.
pub(crate) struct Floor {
    listener: UnixListener,
    request: CreateContainerRequest,
    plugins: Vec<Plugin>,
}

struct Plugin {
    /// Keeps the session open. Its reader does not run while the other handle is used.
    _session: RuntimeEnd,
    socket: UnixStream,
    request: Vec<u8>,
    stream: u32,
    reply: Vec<u8>,
}

impl Floor {
    pub(crate) fn new(listener: UnixListener, request: CreateContainerRequest) -> Self {
        Self { listener, request, plugins: Vec::new() }
    }

    /// Accepts plugins until there are `count`.
    pub(crate) async fn accept(&mut self, count: usize) {
        let encoded = encode(&self.request).await;
        while self.plugins.len() < count {
            let (stream, _) = self.listener.accept().await.expect("the socket is open");
            let stream = stream.into_std().expect("the stream is not used");
            let socket = stream.try_clone().expect("the descriptor can be duplicated");
            let stream = tokio::net::UnixStream::from_std(stream).expect("a runtime runs");
            let (sender, mut registered) = unbounded_channel();
            let service = Arc::new(Registration(sender));
            let session = RuntimeEnd::new(stream, service).await.expect("the plugin is connected");
            registered.recv().await.expect("the plugin registers");
            let plugin = session.plugin();
            let configured = plugin.configure(TIMEOUT, &ConfigureRequest::default()).await;
            configured.expect("the plugin is configured");
            let synchronized = plugin.synchronize(TIMEOUT, &SynchronizeRequest::default()).await;
            synchronized.expect("the plugin is synchronized");
            let adjusted = plugin.create_container(TIMEOUT, &self.request).await;
            assert_eq!(adjusted.expect("the plugin replies").adjust.env.len(), 1);
            self.plugins.push(Plugin {
                _session: session,
                socket,
                request: encoded.clone(),
                stream: FIRST_STREAM,
                reply: vec![0; 64 << 10],
            });
        }
        // Also for the duplicate that the session has, which is not used from now on.
        for plugin in &self.plugins {
            plugin.socket.set_nonblocking(false).expect("the socket is open");
        }
    }

    /// Sends `count` requests, one after the other, to all plugins.
    pub(crate) fn create_all(&mut self, count: usize) -> Reply {
        Reply::measure(|took| {
            for _ in 0..count {
                let began = Instant::now();
                self.plugins.iter_mut().for_each(Plugin::call);
                took.push(began.elapsed());
            }
        })
    }
}

impl Plugin {
    fn call(&mut self) {
        let stream = FRAME_HEADER + 4..FRAME_HEADER + 8;
        self.request[stream].copy_from_slice(&self.stream.to_be_bytes());
        self.stream += 2;
        self.socket.write_all(&self.request).expect("the plugin runs");
        let mut received = 0;
        while !is_complete(&self.reply[..received]) {
            let read = self.socket.read(&mut self.reply[received..]).expect("the plugin runs");
            assert_ne!(read, 0, "the plugin closed the connection");
            received += read;
        }
    }
}

/// Whether `frames` hold a whole message, whatever their number.
fn is_complete(mut frames: &[u8]) -> bool {
    let number = |bytes: &[u8]| bytes.try_into().map(u32::from_be_bytes).map(|n| n as usize);
    let (mut message, mut payload) = (None, 0);
    while let Some((header, rest)) = frames.split_at_checked(FRAME_HEADER) {
        let Ok(length) = number(&header[4..]) else { return false };
        let Some((content, next)) = rest.split_at_checked(length) else { return false };
        message = message.or_else(|| number(content.get(..4)?).ok());
        payload += length;
        frames = next;
    }
    message.is_some_and(|length| payload == MESSAGE_HEADER + length)
}

/// Returns the frames of the request, as the adaptation sends them.
async fn encode(request: &CreateContainerRequest) -> Vec<u8> {
    let (here, mut there) = tokio::net::UnixStream::pair().expect("sockets can be made");
    let service = Arc::new(Registration(unbounded_channel().0));
    let end = RuntimeEnd::new(here, service).await.expect("the other end is open");
    let mut bytes = vec![0; 64 << 10];
    tokio::select! {
        biased;
        reply = end.plugin().create_container(TIMEOUT, request) => panic!("a reply: {reply:?}"),
        read = there.read(&mut bytes) => bytes.truncate(read.expect("both ends are open")),
    }
    assert!(is_complete(&bytes), "the request is written at once");
    bytes
}
