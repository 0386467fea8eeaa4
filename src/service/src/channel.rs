//! The server's end of a control connection.

use nri_control::{FrameError, MAX_FDS, MAX_FRAME, PROTOCOL, Reply, Request, Versioned};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::{
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, Interest},
    net::UnixStream,
};

/// One connection.
#[derive(Debug)]
pub struct Channel {
    stream: UnixStream,
}

impl Channel {
    /// Over an accepted connection.
    pub fn new(stream: UnixStream) -> Self {
        Self { stream }
    }

    /// Process id of the peer, as the kernel tells it.
    pub fn peer_pid(&self) -> Option<i32> {
        self.stream.peer_cred().ok().and_then(|c| c.pid())
    }

    /// The next request, with its descriptors.
    ///
    /// # Errors
    /// The peer is gone, or does not speak this protocol: [`FrameError::OtherProtocol`] is to be answered.
    pub async fn receive(&mut self) -> Result<(Versioned<Request>, Vec<OwnedFd>), FrameError> {
        let (mut length, mut fds) = ([0u8; 4], Vec::new());
        let mut got = 0;
        while got < length.len() {
            self.stream.readable().await?;
            let rest = &mut length[got..];
            let received =
                self.stream.try_io(Interest::READABLE, || receive_some(&self.stream, rest, &mut fds));
            match received {
                Ok(0) => return Err(FrameError::Closed),
                Ok(n) => got += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e.into()),
            }
        }
        let length = u32::from_be_bytes(length) as usize;
        if length > MAX_FRAME {
            return Err(FrameError::TooLarge(length));
        }
        let mut payload = Vec::with_capacity(length.min(64 << 10));
        (&mut self.stream).take(length as u64).read_to_end(&mut payload).await?;
        if payload.len() < length {
            return Err(FrameError::Closed);
        }
        // The version is read first, so that a request of another release gets an answer that it understands.
        #[derive(serde::Deserialize)]
        struct Any {
            protocol: u32,
        }
        let any: Any = serde_json::from_slice(&payload)?;
        let request: Result<Versioned<Request>, _> = serde_json::from_slice(&payload);
        match request {
            // The same in all protocols.
            Ok(request) if matches!(request.message, Request::Stop | Request::Restart { .. }) => {
                Ok((request, fds))
            }
            _ if any.protocol != PROTOCOL => Err(FrameError::OtherProtocol(any.protocol)),
            request => Ok((request?, fds)),
        }
    }

    /// Answers.
    ///
    /// # Errors
    /// The peer is gone.
    pub async fn send(&mut self, reply: &Reply) -> Result<(), FrameError> {
        let payload = serde_json::to_vec(&Versioned::ours(reply))?;
        let mut frame = Vec::with_capacity(payload.len() + 4);
        frame.extend_from_slice(&(payload.len() as u32).to_be_bytes());
        frame.extend_from_slice(&payload);
        Ok(self.stream.write_all(&frame).await?)
    }
}

fn receive_some(stream: &UnixStream, buffer: &mut [u8], fds: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(stream.as_fd(), &mut [IoSliceMut::new(buffer)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    Ok(received.bytes)
}
