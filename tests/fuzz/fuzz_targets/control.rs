//! The control protocol: a client sends arbitrary bytes over a real socket. Each frame is received
//! as it was sent, and a message that is parsed, written and parsed again is equal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nri_control::{FrameError, Reply, Request, Versioned, receive};
use nri_files::{ExecMarker, OsText};
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt::Debug, io::Write, net::Shutdown, os::unix::net::UnixStream};

fuzz_target!(|data: &[u8]| {
    let mut rest = data;
    let (server, client) = UnixStream::pair().expect("a socket pair");
    // The write cannot block: an input is smaller than the buffer of a socket.
    (&client).write_all(data).expect("written");
    client.shutdown(Shutdown::Write).expect("shut down");
    loop {
        match (receive(&server), next_payload(&mut rest)) {
            (Ok((payload, fds)), Some(expected)) => {
                assert_eq!(payload, expected);
                assert!(fds.is_empty());
                check_messages(&payload);
            }
            (Err(FrameError::Closed | FrameError::TooLarge(_)), None) => break,
            (received, expected) => panic!("{received:?}, expected {expected:?}"),
        }
    }
    check_messages(data);
});

/// Takes the payload of the next frame. Returns `None` if the rest does not contain a whole frame.
fn next_payload<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, tail) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (payload, tail) = tail.split_at_checked(length)?;
    *rest = tail;
    Some(payload)
}

fn check_messages(payload: &[u8]) {
    check_round_trip::<Versioned<Request>>(payload);
    check_round_trip::<Versioned<Reply>>(payload);
    check_round_trip::<ExecMarker>(payload);
    check_round_trip::<OsText>(payload);
}

fn check_round_trip<T: Serialize + DeserializeOwned + PartialEq + Debug>(payload: &[u8]) {
    if let Ok(message) = serde_json::from_slice::<T>(payload) {
        let text = serde_json::to_string(&message).expect("a parsed message serializes");
        let again = serde_json::from_str::<T>(&text);
        assert!(again.as_ref().is_ok_and(|a| *a == message), "{message:?}\n{text}\n{again:?}");
    }
}
