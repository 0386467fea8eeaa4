//! The server's end of a control connection.

use nri_control::{FrameError, MAX_FDS, MAX_FRAME, PROTOCOL, Reply, Request, Versioned};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::{
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, Interest},
    net::UnixStream,
    sync::Semaphore,
    time::timeout,
};

/// How long a peer may take to send what it came for, and any message from its first byte on; it is
/// on this machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Larger messages are read a few at a time; those of almost all containers are smaller.
const LARGE: usize = 256 << 10;

/// Places of the large messages that are being read, of all connections.
#[derive(Debug, Clone)]
pub struct Large(Arc<Semaphore>);

impl Default for Large {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(4)))
    }
}

/// One connection.
#[derive(Debug)]
pub struct Channel {
    stream: UnixStream,
    large: Large,
    patience: Duration,
}

impl Channel {
    /// Over an accepted connection.
    pub fn new(stream: UnixStream, large: Large) -> Self {
        Self { stream, large, patience: PATIENCE }
    }

    /// Process id of the peer, as the kernel tells it.
    pub fn peer_pid(&self) -> Option<i32> {
        self.stream.peer_cred().ok().and_then(|c| c.pid())
    }

    /// The first request, with its descriptors.
    ///
    /// # Errors
    /// As [`Channel::receive`], and if it does not come.
    pub async fn receive_first(
        &mut self,
    ) -> Result<(Versioned<Request>, Vec<OwnedFd>), FrameError> {
        timeout(self.patience, self.receive()).await.map_err(|_| FrameError::Timeout)?
    }

    /// The next request, with its descriptors: whenever it begins.
    ///
    /// # Errors
    /// The peer is gone, or does not speak this protocol: [`FrameError::OtherProtocol`] is to be
    /// answered.
    pub async fn receive(&mut self) -> Result<(Versioned<Request>, Vec<OwnedFd>), FrameError> {
        let (mut length, mut fds) = ([0u8; 4], Vec::new());
        let got = self.some(&mut length, &mut fds).await?;
        let patience = self.patience;
        let rest = self.rest(length, got, &mut fds);
        let request = timeout(patience, rest).await.map_err(|_| FrameError::Timeout)??;
        Ok((request, fds))
    }

    /// The first part of what comes, and the descriptors that come with it.
    async fn some(&self, buffer: &mut [u8], fds: &mut Vec<OwnedFd>) -> Result<usize, FrameError> {
        loop {
            self.stream.readable().await?;
            match self.stream.try_io(Interest::READABLE, || receive_some(&self.stream, buffer, fds))
            {
                Ok(0) => return Err(FrameError::Closed),
                Ok(n) => return Ok(n),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// What follows the first part of a message's length.
    async fn rest(
        &mut self,
        mut length: [u8; 4],
        mut got: usize,
        fds: &mut Vec<OwnedFd>,
    ) -> Result<Versioned<Request>, FrameError> {
        while got < length.len() {
            got += self.some(&mut length[got..], fds).await?;
        }
        let length = u32::from_be_bytes(length) as usize;
        if length > MAX_FRAME {
            return Err(FrameError::TooLarge(length));
        }
        let places = self.large.0.clone();
        let _place = match length > LARGE {
            // It is never closed.
            true => places.acquire_owned().await.ok(),
            false => None,
        };
        let mut payload = Vec::with_capacity(length.min(64 << 10));
        (&mut self.stream).take(length as u64).read_to_end(&mut payload).await?;
        if payload.len() < length {
            return Err(FrameError::Closed);
        }
        // The version is read first, so that a request of another release gets an answer that it
        // understands.
        #[derive(serde::Deserialize)]
        struct Any {
            protocol: u32,
        }
        let any: Any = serde_json::from_slice(&payload)?;
        let request: Result<Versioned<Request>, _> = serde_json::from_slice(&payload);
        match request {
            // The same in all protocols.
            Ok(request) if matches!(request.message, Request::Stop | Request::Restart { .. }) => {
                Ok(request)
            }
            _ if any.protocol != PROTOCOL => Err(FrameError::OtherProtocol(any.protocol)),
            request => Ok(request?),
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

fn receive_some(
    stream: &UnixStream,
    buffer: &mut [u8],
    fds: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        stream.as_fd(),
        &mut [IoSliceMut::new(buffer)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    Ok(received.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::JoinHandle;

    fn pair(large: &Large) -> (UnixStream, Channel) {
        let (theirs, ours) = UnixStream::pair().unwrap();
        (theirs, Channel::new(ours, large.clone()))
    }

    #[tokio::test]
    async fn who_does_not_say_what_it_wants_is_left() {
        let pair = || {
            let (theirs, ours) = super::tests::pair(&Large::default());
            (theirs, Channel { patience: Duration::from_millis(50), ..ours })
        };
        let (_silent, mut channel) = pair();
        assert!(matches!(channel.receive_first().await, Err(FrameError::Timeout)));
        let (mut half, mut channel) = pair();
        half.write_all(&[0]).await.unwrap();
        assert!(matches!(channel.receive().await, Err(FrameError::Timeout)));
        let (mut half, mut channel) = pair();
        half.write_all(&[0, 0, 0, 9, b'{']).await.unwrap();
        assert!(matches!(channel.receive().await, Err(FrameError::Timeout)));
        // A verb takes as long as it takes.
        let (_busy, mut channel) = pair();
        assert!(timeout(Duration::from_millis(500), channel.receive()).await.is_err());
    }

    #[tokio::test]
    async fn of_many_large_messages_few_are_in_memory() {
        let (large, length) = (Large::default(), 4 << 20);
        let mut all = Vec::new();
        for _ in 0..6 {
            let (mut theirs, mut channel) = pair(&large);
            let reading = tokio::spawn(async move { channel.receive().await.map(drop) });
            let writing = tokio::spawn(async move {
                theirs.write_all(&u32::try_from(length).unwrap().to_be_bytes()).await.unwrap();
                // All but the last byte.
                theirs.write_all(&vec![b' '; length - 1]).await.unwrap();
                theirs
            });
            all.push((reading, writing));
        }
        let written = |all: &[(_, JoinHandle<UnixStream>)]| {
            all.iter().filter(|(_, w)| w.is_finished()).count()
        };
        while written(&all) < 4 {
            tokio::task::yield_now().await;
        }
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(written(&all), 4, "the sockets hold less than a message");
        // As they end, the others are read.
        for (reading, writing) in all {
            drop(writing.await.unwrap());
            assert!(matches!(reading.await.unwrap(), Err(FrameError::Closed)));
        }
    }
}
