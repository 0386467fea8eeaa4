//! The decoder of trunk frames and the parser of ttrpc messages: the result does not depend on how
//! the bytes are split into reads, and no byte is lost.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use nri_fuzz::Input;
use nri_wire::{Decoder, FRAME_HEADER, Frame, FrameError, Message, MessageError, Messages, encode};

/// Limit of a frame's payload. It is small, so that short inputs exceed it.
const LIMIT: usize = 300;

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let size = usize::from(input.byte()) + 1;
    let bytes = input.rest();

    let at_once = decode(bytes, bytes.len().max(1));
    assert_eq!(at_once, decode(bytes, size), "in pieces of {size} bytes");
    let (frames, error, pending) = at_once;
    let mut again = BytesMut::new();
    for frame in &frames {
        assert!(frame.payload.len() <= LIMIT);
        let before = again.len();
        encode(frame.conn, &frame.payload, &mut again);
        if frame.payload.is_empty() {
            assert_eq!(again.len(), before, "an empty payload is encoded as no frame");
            again.extend_from_slice(&bytes[before..before + FRAME_HEADER]);
        }
    }
    assert_eq!(again, bytes[..again.len()], "decoded frames encode to the input");
    if error.is_none() {
        assert_eq!(again.len() + pending, bytes.len(), "all bytes are decoded or pending");
    }

    let at_once = parse(bytes, bytes.len().max(1));
    assert_eq!(at_once, parse(bytes, size), "in pieces of {size} bytes");
});

/// Decodes frames in pieces of `size` bytes. Returns the frames, the error, and the number of bytes
/// that are pending.
fn decode(bytes: &[u8], size: usize) -> (Vec<Frame>, Option<FrameError>, usize) {
    let mut decoder = Decoder::with_limit(LIMIT);
    let mut frames = Vec::new();
    for piece in bytes.chunks(size) {
        decoder.feed(piece);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => {
                    decoder.feed(b"more");
                    assert_eq!(decoder.next_frame(), Err(error.clone()), "errors are final");
                    assert_eq!(decoder.pending(), 0, "no byte is kept after an error");
                    return (frames, Some(error), 0);
                }
            }
        }
        assert!(decoder.pending() < FRAME_HEADER + LIMIT, "pending bytes are bounded");
    }
    (frames, None, decoder.pending())
}

/// Parses ttrpc messages in pieces of `size` bytes. Returns the messages with their payloads, the
/// error, and the number of bytes that the parser needs next.
fn parse(bytes: &[u8], size: usize) -> (Vec<Parsed>, Option<MessageError>, Option<usize>) {
    let (mut messages, mut parsed) = (Messages::new(), Vec::new());
    let fed = bytes.chunks(size).try_for_each(|mut piece| {
        while let Some((message, payload)) = messages.next(&mut piece, |_| Ok(()))? {
            assert_eq!(message.size, payload.len());
            parsed.push((message, payload.to_vec()));
        }
        assert!(piece.is_empty(), "bytes were left although no message is complete");
        assert!(messages.remaining() > 0);
        Ok(())
    });
    let want = fed.is_ok().then(|| messages.remaining());
    (parsed, fed.err(), want)
}

/// A message and its payload.
type Parsed = (Message, Vec<u8>);
