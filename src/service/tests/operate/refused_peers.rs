//! Tests of processes that may not send requests, such as those of a pod that has the state
//! directory mounted: they cost `nrid` neither descriptors nor log lines.

use crate::node::{Node, TIMEOUT};
use nri_control::{Reply, Request};
use rustix::net::{
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, send, sendmsg,
    sockopt::set_socket_timeout,
};
use std::{
    fs::{self, File},
    io::{IoSlice, Read},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    process::{Command, Stdio},
};

/// Environment variable for [`refused_process`]: path of the control socket.
const CONNECT_TO: &str = "NRID_TEST_REFUSED_AT";

/// Number of connections, and of descriptors that are sent on each: together as many as an `nrid`
/// may have open.
const CONNECTIONS: usize = 80;
const DESCRIPTORS: usize = 250;

/// Sends the length of a message, with descriptors, one byte at a time. Never sends the message.
fn send_descriptors(stream: &UnixStream, file: &File) {
    let fds: Vec<BorrowedFd<'_>> = vec![file.as_fd(); DESCRIPTORS];
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    for byte in 4_u32.to_be_bytes() {
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
        // Fails once nrid has closed the connection.
        let flags = SendFlags::NOSIGNAL;
        if sendmsg(stream, &[IoSlice::new(&[byte])], &mut ancillary, flags).is_err() {
            return;
        }
    }
    let _ = send(stream, b"{", SendFlags::NOSIGNAL);
}

/// The process that the test starts in a pid namespace of its own. Does nothing in a usual run of
/// the tests.
#[test]
fn refused_process() {
    let Some(path) = std::env::var_os(CONNECT_TO) else { return };
    let file = File::open("/dev/null").unwrap();
    let connect = |_| {
        let stream = UnixStream::connect(&path).unwrap();
        set_socket_timeout(&stream, rustix::net::sockopt::Timeout::Recv, Some(TIMEOUT)).unwrap();
        send_descriptors(&stream, &file);
        stream
    };
    let streams: Vec<_> = (0..CONNECTIONS).map(connect).collect();
    for mut stream in streams {
        let mut reply = Vec::new();
        // Reset by the peer, which has not read what was sent; the reply was received before.
        let _ = stream.read_to_end(&mut reply);
        let reply = String::from_utf8_lossy(&reply).into_owned();
        assert!(reply.contains("another pid namespace"), "{reply}");
    }
}

fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

#[test]
fn a_refused_peer_is_answered_and_closed_before_anything_is_read() {
    let probe = Command::new("unshare").args(["--pid", "--fork", "true"]).status().unwrap();
    if !probe.success() {
        println!("skipped: no pid namespaces");
        return;
    }
    let node = Node::new("");
    let nrid = node.start();
    node.call(&Request::Ping);
    let before = descriptors(nrid.id());
    let mut tenant = Command::new("unshare");
    tenant.args(["--pid", "--fork", "--kill-child"]).arg(std::env::current_exe().unwrap());
    tenant.args(["--exact", "refused_peers::refused_process"]);
    tenant.env(CONNECT_TO, node.socket()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = tenant.stderr(Stdio::piped()).spawn().unwrap();
    let mut most = before;
    while child.try_wait().unwrap().is_none() {
        most = most.max(descriptors(nrid.id()));
        assert_eq!(node.call(&Request::Ping), Reply::Done);
    }
    // Some connections at a time are accepted and not closed yet; the requests of this test, too.
    assert!(most < before + 20, "{before} descriptors became {most}");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let log = nrid.output();
    let lines = log.matches("control connection refused").count();
    assert!((1..CONNECTIONS / 4).contains(&lines), "{lines} lines");
    node.stop();
    nrid.wait_for_exit();
}
