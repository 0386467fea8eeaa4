//! A connection to `nrid`, without a C library: one request, and a look at its reply.
//!
//! If `nrid` replies to `start` or `delete` that the wrapper becomes the runtime, nothing else is
//! left to do. The reply stays in the socket until then: whatever else it says, the wrapper reads
//! it after the C library's start. The reply to `create` is always read there: the C library starts
//! while `nrid` works.

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

/// The reply with which the wrapper becomes the runtime, as `nri-control` encodes it: `proceed`
/// with `exec`.
pub const EXPECTED_REPLY: &str = concat!(
    r#"{"protocol":1,"version":""#,
    env!("CARGO_PKG_VERSION"),
    r#"","message":{"proceed":{"arguments":null,"stdin":null,"exec":true}}}"#
);

/// A request that was sent, and whose reply was not taken from the socket.
#[derive(Debug)]
pub struct Sent {
    /// The connection. `ManuallyDrop`, since the drop of a descriptor calls the C library.
    pub connection: ManuallyDrop<OwnedFd>,
    /// The bundle that was sent with it.
    pub bundle: Option<ManuallyDrop<OwnedFd>>,
}

/// Whether replies of a listening process may decide what a process of the user `own` executes: it
/// belongs to root or to that user. The socket of a user may be in `/tmp`, where any user could
/// create it.
pub fn is_trusted_peer(uid: u32, own: u32) -> bool {
    uid == 0 || uid == own
}

/// Sends a request, with its length before it, to the process that listens at this path, if it
/// belongs to root or to our user. Returns `None` if the request was not sent as a whole; the
/// connection is then closed, so that `nrid` drops it. `close` closes a descriptor.
pub(crate) fn send(
    path: &CStr,
    request: &[u8],
    fds: &[BorrowedFd<'_>],
    close: fn(RawFd),
) -> Option<ManuallyDrop<OwnedFd>> {
    let address = SocketAddrUnix::new(path).ok()?;
    let opened = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let Ok(socket) = opened.map(ManuallyDrop::new) else { return None };
    // Without another descriptor, the wrapper could not read the configuration later.
    let another = fcntl_dupfd_cloexec(&*socket, 0).map(ManuallyDrop::new);
    let is_another_free = another.map(|fd| close(fd.as_raw_fd())).is_ok();
    // Stdio that the caller has closed must not become the socket.
    if is_another_free
        && socket.as_raw_fd() > 2
        && is_connected(&socket, &address)
        && is_sent(&socket, request, fds)
    {
        return Some(socket);
    }
    close(socket.as_raw_fd());
    None
}

fn is_connected(socket: &OwnedFd, address: &SocketAddrUnix) -> bool {
    set_socket_timeout(socket, Timeout::Send, Some(SEND_TIMEOUT)).is_ok()
        && connect(socket, address).is_ok()
        && socket_peercred(socket)
            .is_ok_and(|peer| is_trusted_peer(peer.uid.as_raw(), geteuid().as_raw()))
}

/// Returns whether the request was sent as a whole.
fn is_sent(socket: &OwnedFd, request: &[u8], fds: &[BorrowedFd<'_>]) -> bool {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return false;
    }
    let message = [IoSlice::new(request)];
    sendmsg(socket, &message, &mut ancillary, SendFlags::NOSIGNAL) == Ok(request.len())
}

impl Sent {
    /// Waits for the reply, and returns whether it is the expected one.
    pub(crate) fn is_reply_expected(&self) -> bool {
        self.look().unwrap_or(false)
    }

    fn look(&self) -> Option<bool> {
        let socket = &*self.connection;
        poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&REPLY_TIMEOUT)).ok()?;
        let mut buffer = [0; REPLY_SIZE];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let (_, length) = recv(socket, &mut buffer[..], flags).ok()?;
        let (header, reply) = buffer.get(..length)?.split_first_chunk::<4>()?;
        let is_whole = u32::from_be_bytes(*header) as usize == reply.len();
        Some(is_whole && reply == EXPECTED_REPLY.as_bytes())
    }
}
