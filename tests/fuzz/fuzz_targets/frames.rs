//! The trunk's frame decoder and the follower of ttrpc messages: however bytes are cut, the same
//! comes out, and nothing is lost.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use nri_fuzz::Input;
use nri_wire::{Decoder, FRAME_HEADER, Frame, FrameError, Message, MessageError, Messages, encode};

/// So that the limit is within the reach of short inputs.
const LIMIT: usize = 300;

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let cut = usize::from(input.byte()) + 1;
    let bytes = input.rest();

    let whole = decode(bytes, bytes.len().max(1));
    assert_eq!(whole, decode(bytes, cut), "cut into pieces of {cut}");
    let (frames, error, pending) = whole;
    let mut again = BytesMut::new();
    for frame in &frames {
        assert!(frame.payload.len() <= LIMIT);
        let before = again.len();
        encode(frame.conn, &frame.payload, &mut again);
        if frame.payload.is_empty() {
            assert_eq!(again.len(), before, "no frame for no bytes");
            again.extend_from_slice(&bytes[before..before + FRAME_HEADER]);
        }
    }
    assert_eq!(again, bytes[..again.len()], "what was decoded is what was there");
    if error.is_none() {
        assert_eq!(again.len() + pending, bytes.len(), "no byte is lost");
    }

    let whole = follow(bytes, bytes.len().max(1));
    assert_eq!(whole, follow(bytes, cut), "cut into pieces of {cut}");
});

fn decode(bytes: &[u8], cut: usize) -> (Vec<Frame>, Option<FrameError>, usize) {
    let mut decoder = Decoder::with_limit(LIMIT);
    let mut frames = Vec::new();
    for piece in bytes.chunks(cut) {
        decoder.feed(piece);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => {
                    decoder.feed(b"more");
                    assert_eq!(decoder.next_frame(), Err(error.clone()), "errors are final");
                    assert_eq!(decoder.pending(), 0, "nothing is kept behind an error");
                    return (frames, Some(error), 0);
                }
            }
        }
        assert!(decoder.pending() < FRAME_HEADER + LIMIT, "memory is bounded");
    }
    (frames, None, decoder.pending())
}

fn follow(bytes: &[u8], cut: usize) -> (Vec<Message>, Option<MessageError>, Option<usize>) {
    let (mut messages, mut seen) = (Messages::new(), Vec::new());
    let fed = bytes.chunks(cut).try_for_each(|piece| {
        assert!(messages.want() > 0);
        messages.feed(piece, |message| {
            seen.push(message);
            Ok(())
        })
    });
    let wants = fed.is_ok().then(|| messages.want());
    (seen, fed.err(), wants)
}
