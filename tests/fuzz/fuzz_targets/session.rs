//! A session with a peer that writes arbitrary bytes: the session ends when the peer closes the
//! socket, each call returns a response or an error, and no task panics.
#![no_main]

use async_trait::async_trait;
use libfuzzer_sys::fuzz_target;
use nri_api::proto::*;
use nri_fuzz::{
    Input,
    frames::{Peer, frames},
};
use nri_wire::{Closed, Context, Plugin, PluginEnd, Runtime, RuntimeEnd, ttrpc};
use std::{sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    time::sleep,
};

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let mode = input.byte();
    let peer = if mode & 1 == 0 { Peer::Plugin } else { Peer::Runtime };
    let bytes =
        if mode & 2 == 0 { frames(peer, &mut input).to_vec() } else { input.rest().to_vec() };
    // The paused clock advances only while all tasks wait, so that timeouts do not depend on the
    // speed of the machine.
    let tokio =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    tokio.expect("a runtime").block_on(async {
        let (ours, theirs) = tokio::io::duplex(4096);
        let (session, ()) = tokio::join!(
            async {
                match peer {
                    Peer::Plugin => runtime_end(ours).await,
                    Peer::Runtime => plugin_end(ours).await,
                }
            },
            run_peer(theirs, &bytes)
        );
        assert!(!matches!(session, Closed::Local), "ended by us, not by the peer: {session:?}");
    });
});

/// Plays the peer: waits for the first byte of our call, so that `bytes` can contain a response to
/// it, then writes all bytes and reads to the end.
async fn run_peer(mut socket: DuplexStream, bytes: &[u8]) {
    let _ = socket.read_u8().await;
    let (mut read, mut write) = tokio::io::split(socket);
    let writing = async {
        let _ = write.write_all(bytes).await;
        let _ = write.shutdown().await;
    };
    let reading = async {
        let mut rest = Vec::new();
        let _ = read.read_to_end(&mut rest).await;
    };
    tokio::join!(writing, reading);
}

async fn runtime_end(socket: DuplexStream) -> Closed {
    let end = RuntimeEnd::new(socket, Arc::new(Served)).await.expect("a new session");
    let (create, configure) = Default::default();
    let _ = tokio::join!(
        end.plugin().create_container(None, &create),
        end.plugin().configure(Duration::from_secs(2), &configure)
    );
    end.closed().await
}

async fn plugin_end(socket: DuplexStream) -> Closed {
    let end = PluginEnd::new(socket, Arc::new(Served)).await.expect("a new session");
    let (register, update) = Default::default();
    let _ = tokio::join!(
        end.runtime().register_plugin(Duration::from_secs(5), &register),
        end.runtime().update_containers(None, &update)
    );
    end.closed().await
}

/// Service with methods that respond at once, respond late or fail. Other methods are not
/// implemented.
struct Served;

#[async_trait]
impl Runtime for Served {
    async fn register_plugin(
        &self,
        _: &Context,
        request: RegisterPluginRequest,
    ) -> ttrpc::Result<Empty> {
        if request.plugin_name.is_empty() {
            return Err(nri_wire::status(ttrpc::Code::INVALID_ARGUMENT, "no name"));
        }
        Ok(Empty::new())
    }

    async fn update_containers(
        &self,
        _: &Context,
        request: UpdateContainersRequest,
    ) -> ttrpc::Result<UpdateContainersResponse> {
        sleep(Duration::from_millis(request.evict.len() as u64)).await;
        Ok(UpdateContainersResponse { failed: request.update, ..Default::default() })
    }
}

#[async_trait]
impl Plugin for Served {
    async fn configure(
        &self,
        _: &Context,
        request: ConfigureRequest,
    ) -> ttrpc::Result<ConfigureResponse> {
        Ok(ConfigureResponse { events: request.config.len() as i32, ..Default::default() })
    }

    async fn create_container(
        &self,
        _: &Context,
        request: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        sleep(Duration::from_millis(request.container.env.len() as u64)).await;
        let adjust =
            ContainerAdjustment { args: request.container.args.clone(), ..Default::default() };
        Ok(CreateContainerResponse { adjust: Some(adjust).into(), ..Default::default() })
    }
}
