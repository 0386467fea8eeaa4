//! The server's end of a control connection: JSON frames with file descriptors, and the exchange of
//! messages for a verb.

use crate::host::process::{ProcessIdentity, ProcessStat};
use nri_control::{
    Finished, FrameError, MAX_FDS, MAX_FRAME, PROTOCOL, Reply, Request, Substitute, Versioned,
};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send};
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

/// Time that a peer has to send its first request, and the rest of any message after the first
/// byte. Peers are on the same host, so only a peer that hangs needs longer.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(30);

/// Size in bytes above which only [`LARGE_MESSAGES`] messages are read at once, to bound memory.
/// Messages of almost all containers are smaller.
const LARGE_MESSAGE: usize = 256 << 10;

/// Maximum number of large messages in memory at once; each has at most [`MAX_FRAME`] bytes.
const LARGE_MESSAGES: usize = 4;

/// Permits to read large messages, shared by all connections.
#[derive(Debug, Clone)]
pub struct LargeMessages(Arc<Semaphore>);

impl Default for LargeMessages {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LARGE_MESSAGES)))
    }
}

/// A connection.
#[derive(Debug)]
pub struct Channel {
    stream: UnixStream,
    large: LargeMessages,
    timeout: Duration,
}

impl Channel {
    /// Creates a channel over an accepted connection.
    pub fn new(stream: UnixStream, large: LargeMessages) -> Self {
        Self { stream, large, timeout: RECEIVE_TIMEOUT }
    }

    /// Returns the process id of the peer; 0 if the peer is in a pid namespace that `nrid` cannot
    /// see.
    pub fn peer_pid(&self) -> Option<i32> {
        self.stream.peer_cred().ok().and_then(|c| c.pid())
    }

    /// Returns the peer; `None` if it is in a pid namespace that `nrid` cannot see.
    ///
    /// # Errors
    /// The peer has ended, or its state cannot be read. Its verb must not be started, because the
    /// engine may have started the next verb of the container.
    pub fn peer(&self) -> Result<Option<ProcessIdentity>, FrameError> {
        let Some(pid) = self.peer_pid().filter(|pid| *pid > 0) else { return Ok(None) };
        match ProcessStat::of(pid)? {
            Some(stat) if !stat.has_ended => {
                Ok(Some(ProcessIdentity { pid, start_time: stat.start_time }))
            }
            _ => Err(FrameError::Closed),
        }
    }

    /// Sends the reply after which the wrapper calls the runtime, and waits for its report of the
    /// result. Returns `None` if the wrapper disconnects without a report.
    pub async fn proceed(&mut self, substitute: Substitute) -> Option<Finished> {
        self.send(&Reply::Proceed(substitute)).await.ok()?;
        match self.receive().await.ok()?.0.message {
            Request::Finished(finished) => Some(finished),
            _ => None,
        }
    }

    /// Receives the first request, with its descriptors.
    ///
    /// # Errors
    /// Those of [`Channel::receive`], or no request arrives in time.
    pub async fn receive_first(
        &mut self,
    ) -> Result<(Versioned<Request>, Vec<OwnedFd>), FrameError> {
        timeout(self.timeout, self.receive()).await.map_err(|_| FrameError::Timeout)?
    }

    /// Receives the next request, with its descriptors. The time until its first byte is not
    /// limited.
    ///
    /// # Errors
    /// The connection fails, or the peer speaks another protocol. After
    /// [`FrameError::OtherProtocol`] the caller must still send a reply.
    pub async fn receive(&mut self) -> Result<(Versioned<Request>, Vec<OwnedFd>), FrameError> {
        let (mut length, mut fds) = ([0u8; 4], Vec::new());
        let received = self.receive_part(&mut length, &mut fds).await?;
        let time_limit = self.timeout;
        let rest = self.receive_rest(length, received, &mut fds);
        let request = timeout(time_limit, rest).await.map_err(|_| FrameError::Timeout)??;
        Ok((request, fds))
    }

    /// Receives the bytes that have arrived, with their descriptors; waits for the first byte.
    async fn receive_part(
        &self,
        buffer: &mut [u8],
        fds: &mut Vec<OwnedFd>,
    ) -> Result<usize, FrameError> {
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

    /// Receives the rest of a message, whose length prefix has `received` bytes so far.
    async fn receive_rest(
        &mut self,
        mut length: [u8; 4],
        mut received: usize,
        fds: &mut Vec<OwnedFd>,
    ) -> Result<Versioned<Request>, FrameError> {
        while received < length.len() {
            received += self.receive_part(&mut length[received..], fds).await?;
        }
        let length = u32::from_be_bytes(length) as usize;
        if length > MAX_FRAME {
            return Err(FrameError::TooLarge(length));
        }
        let permits = self.large.0.clone();
        let _permit = if length > LARGE_MESSAGE {
            // The semaphore is never closed.
            permits.acquire_owned().await.ok()
        } else {
            None
        };
        let mut payload = Vec::with_capacity(length.min(64 << 10));
        (&mut self.stream).take(length as u64).read_to_end(&mut payload).await?;
        if payload.len() < length {
            return Err(FrameError::Closed);
        }
        parse(&payload)
    }

    /// Sends a reply.
    ///
    /// # Errors
    /// The connection fails.
    pub async fn send(&mut self, reply: &Reply) -> Result<(), FrameError> {
        Ok(self.stream.write_all(&frame(reply)?).await?)
    }
}

/// Sends a reply to a peer that may not send requests, and closes the connection. Nothing is read:
/// the descriptors that the peer has sent are closed by the kernel, and none is opened here.
pub fn refuse(stream: UnixStream, message: String) {
    if let Ok(frame) = frame(&Reply::Refused { message }) {
        // The buffer of a new connection has room for it; a peer that left needs no reply.
        let _ = send(stream.as_fd(), &frame, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
}

fn frame(reply: &Reply) -> Result<Vec<u8>, FrameError> {
    let payload = serde_json::to_vec(&Versioned::ours(reply))?;
    let mut frame = Vec::with_capacity(payload.len() + 4);
    frame.extend_from_slice(&(payload.len() as u32).to_be_bytes());
    frame.extend_from_slice(&payload);
    Ok(frame)
}

/// Parses a request. The protocol number is parsed first, so that a peer of another release gets a
/// reply that it understands.
fn parse(payload: &[u8]) -> Result<Versioned<Request>, FrameError> {
    #[derive(serde::Deserialize)]
    struct AnyRequest {
        protocol: u32,
    }
    let AnyRequest { protocol } = serde_json::from_slice(payload)?;
    let request: Result<Versioned<Request>, _> = serde_json::from_slice(payload);
    match request {
        // These requests are the same in all versions of the protocol.
        Ok(request) if matches!(request.message, Request::Stop | Request::Restart { .. }) => {
            Ok(request)
        }
        _ if protocol != PROTOCOL => Err(FrameError::OtherProtocol(protocol)),
        request => Ok(request?),
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

    fn pair(large: &LargeMessages) -> (UnixStream, Channel) {
        let (peer, own) = UnixStream::pair().unwrap();
        (peer, Channel::new(own, large.clone()))
    }

    #[tokio::test]
    async fn a_peer_that_sends_no_complete_request_times_out() {
        let pair = || {
            let (peer, channel) = super::tests::pair(&LargeMessages::default());
            (peer, Channel { timeout: Duration::from_millis(50), ..channel })
        };
        let (_silent, mut channel) = pair();
        assert!(matches!(channel.receive_first().await, Err(FrameError::Timeout)));
        let (mut half, mut channel) = pair();
        half.write_all(&[0]).await.unwrap();
        assert!(matches!(channel.receive().await, Err(FrameError::Timeout)));
        let (mut half, mut channel) = pair();
        // One byte of a message that has nine.
        half.write_all(&[0, 0, 0, 9, b'{']).await.unwrap();
        assert!(matches!(channel.receive().await, Err(FrameError::Timeout)));
        // The time until the next message is not limited, because a verb may take long: here ten
        // times the limit within a message.
        let (_busy, mut channel) = pair();
        assert!(timeout(Duration::from_millis(500), channel.receive()).await.is_err());
    }

    #[tokio::test]
    async fn only_a_few_large_messages_are_in_memory_at_once() {
        let (large, length) = (LargeMessages::default(), 4 << 20);
        let mut messages = Vec::new();
        for _ in 0..LARGE_MESSAGES + 2 {
            let (mut peer, mut channel) = pair(&large);
            let reading = tokio::spawn(async move { channel.receive().await.map(drop) });
            let writing = tokio::spawn(async move {
                peer.write_all(&u32::try_from(length).unwrap().to_be_bytes()).await.unwrap();
                // All but the last byte.
                peer.write_all(&vec![b' '; length - 1]).await.unwrap();
                peer
            });
            messages.push((reading, writing));
        }
        let count_written = |messages: &[(_, JoinHandle<UnixStream>)]| {
            messages.iter().filter(|(_, writing)| writing.is_finished()).count()
        };
        while count_written(&messages) < LARGE_MESSAGES {
            tokio::task::yield_now().await;
        }
        // Enough rounds of the scheduler for a further message to be read by mistake.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(count_written(&messages), LARGE_MESSAGES, "too many messages were read at once");
        // The end of a message releases its permit, so the waiting messages are read.
        for (reading, writing) in messages {
            drop(writing.await.unwrap());
            assert!(matches!(reading.await.unwrap(), Err(FrameError::Closed)));
        }
    }
}
