//! A connection to `nrid`, without a C library: one request, and a look at its reply.

use core::{
    ffi::CStr,
    mem::{ManuallyDrop, MaybeUninit},
    time::Duration,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd},
    io::{IoSlice, fcntl_dupfd_cloexec},
    net::{
        AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
        SocketAddrUnix, SocketFlags, SocketType, connect, recv, sendmsg, socket_with,
        sockopt::{Timeout, set_socket_timeout, socket_peercred},
    },
    process::geteuid,
};

/// Space for a request, more than engines need with their environment.
pub(crate) const MESSAGE_SIZE: usize = 16 << 10;

/// Space for a reply that is compared here.
const REPLY_SIZE: usize = 256;

/// Limit of `connect` and of `send`, which usually do not wait. The wrapper tries again after the C
/// library's start, with limits of its own.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// Limit of the wait for a reply; the wrapper goes on waiting after the C library's start, and
/// checks meanwhile whether `nrid` hangs.
const REPLY_TIMEOUT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// A connection on which a request was sent, and whose reply was not taken from the socket.
/// `ManuallyDrop`, since the drop of a descriptor calls the C library.
pub type Sent = ManuallyDrop<OwnedFd>;

/// What became of a request.
#[derive(Debug)]
pub(crate) enum EarlyReply {
    /// The reply is the expected one.
    Expected(Sent),
    /// There is another reply, or none yet.
    Unknown(Sent),
}

/// A connected socket.
#[derive(Debug)]
pub(crate) struct EarlyConnection {
    socket: Sent,
    close: fn(RawFd),
}

impl EarlyConnection {
    /// Connects to the process that listens at this path, if it belongs to root or to our user.
    pub(crate) fn open(path: &CStr, close: fn(RawFd)) -> Option<Self> {
        let address = SocketAddrUnix::new(path).ok()?;
        let flags = SocketFlags::CLOEXEC;
        let opened = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let Ok(socket) = opened.map(ManuallyDrop::new) else { return None };
        let this = Self { socket, close };
        if this.is_connected_to(&address) {
            return Some(this);
        }
        this.close();
        None
    }

    fn is_connected_to(&self, address: &SocketAddrUnix) -> bool {
        let socket = &*self.socket;
        // Stdio that the caller has closed must not become the socket.
        self.socket.as_raw_fd() > 2
            && self.is_another_free()
            && set_socket_timeout(socket, Timeout::Send, Some(SEND_TIMEOUT)).is_ok()
            && connect(socket, address).is_ok()
            && socket_peercred(socket).is_ok_and(|peer| peer.uid.is_root() || peer.uid == geteuid())
    }

    /// Whether this process may open another descriptor: without one, the wrapper could not read
    /// the configuration later.
    fn is_another_free(&self) -> bool {
        let opened = fcntl_dupfd_cloexec(&*self.socket, 0).map(ManuallyDrop::new);
        opened.map(|fd| (self.close)(fd.as_raw_fd())).is_ok()
    }

    /// Sends a request, with its length before it, and waits for its reply, which stays in the
    /// socket. Returns `None` if the request was not sent as a whole; the connection is then
    /// closed, so that `nrid` drops it.
    pub(crate) fn ask(self, request: &[u8], expected: &[u8]) -> Option<EarlyReply> {
        if !self.send(request, &[]) {
            self.close();
            return None;
        }
        let is_expected = self.replies(expected).unwrap_or(false);
        Some(if is_expected { EarlyReply::Expected } else { EarlyReply::Unknown }(self.socket))
    }

    /// As [`EarlyConnection::ask`], with a descriptor, and does not wait for the reply.
    pub(crate) fn send_with(self, request: &[u8], fd: BorrowedFd<'_>) -> Option<EarlyReply> {
        if self.send(request, &[fd]) {
            return Some(EarlyReply::Unknown(self.socket));
        }
        self.close();
        None
    }

    /// Returns whether the request was sent as a whole.
    fn send(&self, request: &[u8], fds: &[BorrowedFd<'_>]) -> bool {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
            return false;
        }
        let message = [IoSlice::new(request)];
        let sent = sendmsg(&*self.socket, &message, &mut ancillary, SendFlags::NOSIGNAL);
        sent == Ok(request.len())
    }

    /// Whether the reply is the expected one.
    fn replies(&self, expected: &[u8]) -> Option<bool> {
        let socket = &*self.socket;
        poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&REPLY_TIMEOUT)).ok()?;
        let mut buffer = [0; REPLY_SIZE];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let (_, length) = recv(socket, &mut buffer[..], flags).ok()?;
        let (header, reply) = buffer.get(..length)?.split_first_chunk::<4>()?;
        Some(u32::from_be_bytes(*header) as usize == reply.len() && reply == expected)
    }

    fn close(&self) {
        (self.close)(self.socket.as_raw_fd());
    }
}
