//! Frames: a 4-byte big-endian length, then that many bytes; descriptors are sent with the length.
//!
//! The codec of `nri-wire` is not used here: its frames have other headers (trunk, ttrpc), carry no
//! descriptors (`SCM_RIGHTS`), and need tokio. The wrapper links no async runtime, so control
//! frames are sent and received by blocking calls.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::{
    io::{self, IoSlice, IoSliceMut, Read, Write},
    mem::MaybeUninit,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
};

/// Size limit of a payload in bytes: enough for an environment and the file of
/// `update --resources`.
pub const MAX_FRAME: usize = 16 << 20;
/// Limit of descriptors of a frame: more than messages need, since they have at most one, the
/// descriptor of the bundle directory.
pub const MAX_FDS: usize = 8;

/// Error of a frame that could not be sent or received.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The peer has closed the connection.
    #[error("the peer closed the connection")]
    Closed,
    /// The message is larger than [`MAX_FRAME`].
    #[error("message of {0} bytes, more than the {MAX_FRAME} allowed")]
    TooLarge(usize),
    /// The socket's timeout passed.
    #[error("no reply in time")]
    Timeout,
    /// The frame is not a message of this protocol.
    #[error("not a control message: {0}")]
    Json(#[from] serde_json::Error),
    /// The message has another version of the protocol.
    #[error("message of protocol version {0}, which is not supported")]
    OtherProtocol(u32),
    /// The socket failed.
    #[error(transparent)]
    Io(io::Error),
}

impl From<io::Error> for FrameError {
    fn from(e: io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Timeout,
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset => Self::Closed,
            _ => Self::Io(e),
        }
    }
}

/// Sends one frame.
///
/// # Errors
/// The payload is too large, or the socket fails.
pub fn send(stream: &UnixStream, payload: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), FrameError> {
    if payload.len() > MAX_FRAME {
        return Err(FrameError::TooLarge(payload.len()));
    }
    let length = (payload.len() as u32).to_be_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(FrameError::Io(io::Error::new(
            io::ErrorKind::InvalidInput,
            "too many descriptors",
        )));
    }
    let sent = loop {
        match sendmsg(
            stream,
            &[IoSlice::new(&length), IoSlice::new(payload)],
            &mut ancillary,
            SendFlags::NOSIGNAL,
        ) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other.map_err(io::Error::from)?,
        }
    };
    // A blocking socket accepts the whole frame unless a signal interrupts the call. The
    // descriptors were sent with the first byte.
    let mut stream = stream;
    if sent < length.len() {
        stream.write_all(&length[sent..])?;
        stream.write_all(payload)?;
    } else {
        stream.write_all(&payload[sent - length.len()..])?;
    }
    Ok(())
}

/// Receives one frame and the descriptors that were sent with it (close-on-exec).
///
/// # Errors
/// The connection is closed, the frame is too large, the socket fails, or its timeout passes.
pub fn receive(stream: &UnixStream) -> Result<(Vec<u8>, Vec<OwnedFd>), FrameError> {
    let mut length = [0; 4];
    let mut fds = Vec::new();
    let received_bytes = {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            match recvmsg(
                stream,
                &mut [IoSliceMut::new(&mut length)],
                &mut ancillary,
                RecvFlags::CMSG_CLOEXEC,
            ) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other.map_err(io::Error::from)?,
            }
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                fds.extend(received);
            }
        }
        received.bytes
    };
    if received_bytes == 0 {
        return Err(FrameError::Closed);
    }
    let mut stream = stream;
    stream.read_exact(&mut length[received_bytes..])?;
    let length = u32::from_be_bytes(length) as usize;
    if length > MAX_FRAME {
        return Err(FrameError::TooLarge(length));
    }
    // The buffer grows with the received data, not with the announced length.
    let mut payload = Vec::with_capacity(length.min(64 << 10));
    stream.take(length as u64).read_to_end(&mut payload)?;
    if payload.len() < length {
        return Err(FrameError::Closed);
    }
    Ok((payload, fds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn payload_and_descriptors_arrive() {
        let (a, b) = UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        (&file).write_all(b"content").unwrap();
        // Larger than the buffer of a socket, so that it arrives in parts.
        let big = vec![7u8; 3 << 20];
        let sender = std::thread::spawn(move || {
            send(&a, b"one", &[file.as_fd(), file.as_fd()]).unwrap();
            send(&a, &big, &[]).unwrap();
            send(&a, b"", &[]).unwrap();
        });
        let (payload, fds) = receive(&b).unwrap();
        assert_eq!((payload.as_slice(), fds.len()), (&b"one"[..], 2));
        let mut buffer = [0; 7];
        rustix::io::pread(&fds[1], &mut buffer, 0).unwrap();
        assert_eq!(&buffer, b"content");
        assert_eq!(receive(&b).unwrap().0.len(), 3 << 20);
        assert_eq!(receive(&b).unwrap().0.len(), 0);
        sender.join().unwrap();
        assert!(matches!(receive(&b), Err(FrameError::Closed)));
    }

    #[test]
    fn frames_that_are_too_long_or_too_short_are_refused() {
        let (a, b) = UnixStream::pair().unwrap();
        (&a).write_all(&u32::MAX.to_be_bytes()).unwrap();
        assert!(matches!(receive(&b), Err(FrameError::TooLarge(_))));
        let (a, b) = UnixStream::pair().unwrap();
        // The length announces nine bytes, but two follow.
        (&a).write_all(&[0, 0, 0, 9, 1, 2]).unwrap();
        drop(a);
        assert!(matches!(receive(&b), Err(FrameError::Closed)));
    }
}
