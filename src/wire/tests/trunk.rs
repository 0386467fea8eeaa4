//! The trunk: several streams over one socket, its limits and its end.

#![allow(clippy::unwrap_used)]

mod common;

use bytes::BytesMut;
use common::id;
use nri_wire::{Closed, Decoder, FrameError, Limits, MAX_PAYLOAD, Trunk, WireError, encode};
use std::io::ErrorKind;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

fn pair() -> (Trunk, Trunk) {
    let (a, b) = UnixStream::pair().unwrap();
    (Trunk::new(a), Trunk::new(b))
}

/// Returns bytes without a short period, which differ for each seed: swapped data is detected.
fn bytes(seed: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2654435761).wrapping_add(seed) >> 13) as u8).collect()
}

#[tokio::test]
async fn streams_in_both_directions_do_not_mix() {
    for pipe in [1, 7, 4096] {
        let (a, b) = tokio::io::duplex(pipe);
        let (a, b) = (Trunk::new(a), Trunk::new(b));
        let mut work = tokio::task::JoinSet::new();
        for conn in 1..=4 {
            for (trunk, seed) in [(a.clone(), conn), (b.clone(), 100 + conn)] {
                let (mut read, mut write) = tokio::io::split(trunk.open(id(conn)).unwrap());
                let len = 2000 * pipe + conn as usize;
                work.spawn(async move {
                    let data = bytes(seed, len);
                    let writing = async {
                        for part in data.chunks(1 + len / 10) {
                            write.write_all(part).await.unwrap();
                        }
                    };
                    let mut got = vec![0; len];
                    let (_, read) = tokio::join!(writing, read.read_exact(&mut got));
                    read.unwrap();
                    // The two ends of a connection have seeds that differ by 100.
                    let peer_seed = if seed > 100 { seed - 100 } else { seed + 100 };
                    assert!(got == bytes(peer_seed, len), "connection {conn}");
                });
            }
        }
        while let Some(done) = work.join_next().await {
            done.unwrap();
        }
    }
}

#[tokio::test]
async fn data_received_before_a_connection_is_opened_is_kept() {
    let (a, b) = pair();
    a.open(id(7)).unwrap().write_all(b"early").await.unwrap();
    let mut probe = a.open(id(8)).unwrap();
    probe.write_all(b"x").await.unwrap();
    // Frames arrive in order: when "x" has arrived, "early" has arrived, too.
    b.open(id(8)).unwrap().read_exact(&mut [0]).await.unwrap();
    let mut conn = b.open(id(7)).unwrap();
    let mut got = [0; 5];
    conn.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"early");
}

#[tokio::test]
async fn a_connection_is_opened_once_at_a_time() {
    let (a, _b) = pair();
    let conn = a.open(id(1)).unwrap();
    assert!(matches!(a.open(id(1)), Err(WireError::AlreadyOpen(c)) if c == id(1)));
    drop(conn);
    a.open(id(1)).unwrap();
    a.close();
    assert!(matches!(a.open(id(2)), Err(WireError::Closed(Closed::Local))));
}

#[tokio::test]
async fn either_end_can_close_the_trunk() {
    let (a, b) = pair();
    let (mut local, mut remote) = (a.open(id(1)).unwrap(), b.open(id(1)).unwrap());
    local.write_all(b"last data").await.unwrap();
    a.flush().await.unwrap();
    a.close();
    assert!(matches!(a.closed().await, Closed::Local));
    assert!(matches!(b.closed().await, Closed::Peer));
    let mut got = Vec::new();
    remote.read_to_end(&mut got).await.unwrap();
    assert_eq!(got, b"last data", "data received before the end was lost");
    assert_eq!(local.read(&mut [0]).await.unwrap(), 0);
    for conn in [&mut local, &mut remote] {
        assert_eq!(conn.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
    assert!(matches!(b.flush().await, Err(WireError::Closed(Closed::Peer))));
}

/// A peer that writes and closes the socket without reading: its data must not be lost.
#[tokio::test]
async fn data_sent_before_the_peer_closed_is_read() {
    for unread in [1, 10, 1_000_000] {
        let (a, mut b) = UnixStream::pair().unwrap();
        let a = Trunk::new(a);
        let (mut read, mut write) = tokio::io::split(a.open(id(1)).unwrap());
        write.write_all(&vec![0; unread]).await.unwrap();
        let mut last = BytesMut::new();
        encode(id(1), &bytes(0, 100_000), &mut last);
        b.read_u8().await.unwrap(); // the writer has started
        b.write_all(&last).await.unwrap();
        drop(b);
        while write.write_all(&[0]).await.is_ok() {
            tokio::task::yield_now().await;
        }
        assert!(matches!(a.closed().await, Closed::Peer));
        let mut got = Vec::new();
        read.read_to_end(&mut got).await.unwrap();
        assert!(got == bytes(0, 100_000), "{} bytes after {unread} unread", got.len());
    }
}

#[tokio::test]
async fn dropping_all_handles_closes_the_trunk() {
    let (a, b) = pair();
    let conn = a.open(id(1)).unwrap();
    drop(a);
    assert!(b.close_reason().is_none());
    drop(conn);
    assert!(matches!(b.closed().await, Closed::Peer));
}

#[tokio::test]
async fn the_end_of_the_trunk_wakes_readers_and_writers() {
    let (a, mut b) = tokio::io::duplex(1);
    let a = Trunk::new(a);
    let (mut read, mut write) = tokio::io::split(a.open(id(1)).unwrap());
    let reader = tokio::spawn(async move { read.read(&mut [0]).await });
    let writer = tokio::spawn(async move {
        loop {
            write.write_all(&[0; 1000]).await?;
        }
        #[allow(unreachable_code)]
        Ok::<(), std::io::Error>(())
    });
    b.read_u8().await.unwrap();
    a.close();
    assert_eq!(reader.await.unwrap().unwrap(), 0);
    assert_eq!(writer.await.unwrap().unwrap_err().kind(), ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn the_close_reason_names_the_violation_of_the_peer() {
    async fn check(input: &[u8], expect: impl Fn(&Closed) -> bool) {
        let (a, mut b) = UnixStream::pair().unwrap();
        let a = Trunk::new(a);
        let mut conn = a.open(id(1)).unwrap();
        b.write_all(input).await.unwrap();
        b.shutdown().await.unwrap();
        let reason = a.closed().await;
        assert!(expect(&reason), "{input:?}: {reason:?}");
        let read = conn.read(&mut [0]).await;
        assert_eq!(read.is_ok(), reason.is_clean(), "{input:?}: {read:?}");
        assert!(reason.is_clean() || reason.is_violation());
    }
    check(b"", |r| matches!(r, Closed::Peer)).await;
    check(b"\0\0\0\x01\0\0\0\0", |r| matches!(r, Closed::Peer)).await;
    check(b"\0\0\0\x01\0\0", |r| matches!(r, Closed::Truncated(6))).await;
    check(b"\0\0\0\x01\0\0\0\x05abc", |r| matches!(r, Closed::Truncated(11))).await;
    check(b"\0\0\0\0\0\0\0\x01a", |r| matches!(r, Closed::Frame(FrameError::ReservedConn))).await;
    // The bytes `GET ` are read as the connection, and `/ HT` as the size.
    check(b"GET / HTTP/1.1\r\n\r\n", |r| {
        matches!(
            r,
            Closed::Frame(FrameError::TooLarge {
                conn: 0x47455420,
                size: 0x2f204854,
                limit: MAX_PAYLOAD
            })
        )
    })
    .await;
    // The header of a payload of 4 MiB + 11 bytes, one more than `MAX_PAYLOAD`.
    let one_too_large = [0, 0, 0, 1, 0, 0x40, 0, 11];
    let is_too_large = |size: usize| size == MAX_PAYLOAD + 1;
    check(
        &one_too_large,
        |r| matches!(r, Closed::Frame(FrameError::TooLarge { size, .. }) if is_too_large(*size)),
    )
    .await;
    // The trunk keeps data for 16 unopened connections, 5 to 20; connection 21 is too many.
    let mut many = BytesMut::new();
    (5..50).for_each(|n| encode(id(n), b"x", &mut many));
    check(&many, |r| matches!(r, Closed::Unopened { conn, .. } if *conn == id(21))).await;
}

#[tokio::test]
async fn too_much_data_for_unopened_connections_ends_the_trunk() {
    let (a, b) = UnixStream::pair().unwrap();
    let a = Trunk::with_limits(a, Limits { unopened: 1000, ..Limits::default() });
    let b = Trunk::new(b);
    let mut conn = b.open(id(3)).unwrap();
    conn.write_all(&[0; 1000]).await.unwrap();
    conn.write_all(&[0]).await.unwrap();
    let reason = a.closed().await;
    assert!(
        matches!(reason, Closed::Unopened { conn, bytes: 1001 } if conn == id(3)),
        "{reason:?}"
    );
}

#[tokio::test]
async fn an_unread_connection_blocks_its_writer_instead_of_filling_memory() {
    const LIMIT: usize = 10_000;
    let limits = Limits { incoming: LIMIT, outgoing: LIMIT, unopened: 0 };
    let (a, b) = tokio::io::duplex(100);
    let (a, b) = (Trunk::with_limits(a, limits), Trunk::with_limits(b, limits));
    let (mut write, mut read) = (a.open(id(1)).unwrap(), b.open(id(1)).unwrap());
    let (mut ping, mut pong) = (a.open(id(2)).unwrap(), b.open(id(2)).unwrap());

    // Unread data below the limit does not block the other connection.
    write.write_all(&bytes(1, LIMIT - 1)).await.unwrap();
    ping.write_all(b"?").await.unwrap();
    pong.read_exact(&mut [0]).await.unwrap();

    let total = 50 * LIMIT;
    let writer = tokio::spawn(async move {
        for part in bytes(2, total).chunks(999) {
            write.write_all(part).await.unwrap();
        }
        ping.write_all(b"!").await.unwrap();
        (write, ping)
    });
    let mut got = vec![0; LIMIT - 1];
    read.read_exact(&mut got).await.unwrap();
    assert!(got == bytes(1, LIMIT - 1));
    let mut got = vec![0; total];
    for part in got.chunks_mut(333) {
        read.read_exact(part).await.unwrap();
    }
    assert!(got == bytes(2, total));
    pong.read_exact(&mut [0]).await.unwrap();
    writer.await.unwrap();
}

/// Upstream's multiplexer passes each frame to its reader as a whole, and fails if the reader's
/// buffer is smaller, so one write must be one frame.
#[tokio::test]
async fn one_write_is_one_frame() {
    let (a, mut b) = UnixStream::pair().unwrap();
    let a = Trunk::new(a);
    let mut conn = a.open(id(1)).unwrap();
    let writes = [1, 10, 4096, 5, 300_000, 300_000, 300_000, MAX_PAYLOAD, 1];
    let writer = tokio::spawn(async move {
        for n in writes {
            conn.write_all(&vec![1; n]).await.unwrap();
        }
        a.flush().await.unwrap();
    });
    let mut decoder = Decoder::new();
    let mut all = Vec::new();
    b.read_to_end(&mut all).await.unwrap();
    writer.await.unwrap();
    decoder.feed(&all);
    let frames = std::iter::from_fn(|| decoder.next_frame().unwrap()).map(|f| f.payload.len());
    assert_eq!(frames.collect::<Vec<_>>(), writes);
}
