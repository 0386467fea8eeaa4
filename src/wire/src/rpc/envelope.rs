//! ttrpc messages as trunk frames: a request with its service and method, a response with its
//! status, each around the message of a call.
//!
//! This module writes and reads the envelopes itself. With the types of the ttrpc library, the
//! message of a call would be encoded, copied into an envelope, and encoded again with it.

use crate::error::CallError;
use crate::rpc::message::{HEADER, MessageKind};
use crate::rpc::size::{self, Payload};
use crate::rpc::trace::TraceContext;
use crate::trunk::frame::{ConnId, FRAME_HEADER};
use protobuf::{CodedInputStream, CodedOutputStream, Message};
use std::time::Duration;
use ttrpc::proto::Status;

/// Size of the buffer through which upstream's ttrpc reads a connection, in bytes. Upstream's trunk
/// fails if a frame is larger than what the connection's reader can take. The reader takes as much
/// as the buffer holds or, after the header of a message larger than the buffer, the whole payload.
const UPSTREAM_BUFFER: usize = 4096;

/// Tags of the fields of ttrpc's `Request` and `Response`: field number and wire type.
const SERVICE: u32 = 1 << 3 | 2;
const METHOD: u32 = 2 << 3 | 2;
const REQUEST_PAYLOAD: u32 = 3 << 3 | 2;
const TIMEOUT_NANO: u32 = 4 << 3;
const STATUS: u32 = 1 << 3 | 2;
const RESPONSE_PAYLOAD: u32 = 2 << 3 | 2;

/// The method of a service that is called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Method<'a> {
    pub(crate) service: &'static str,
    pub(crate) method: &'static str,
    pub(crate) timeout: Option<Duration>,
    pub(crate) trace: Option<&'a TraceContext>,
}

/// Returns the frames of a request whose envelope and payload have `size` bytes.
pub(crate) fn request(
    conn: ConnId,
    stream: u32,
    size: usize,
    method: Method<'_>,
    payload: &(impl Payload + ?Sized),
) -> Result<Vec<u8>, CallError> {
    frames(conn, MessageKind::Request, stream, size, |out| {
        let length = payload.size();
        let mut head = CodedOutputStream::vec(out);
        head.write_raw_varint32(SERVICE)?;
        head.write_string_no_tag(method.service)?;
        head.write_raw_varint32(METHOD)?;
        head.write_string_no_tag(method.method)?;
        if length > 0 {
            head.write_raw_varint32(REQUEST_PAYLOAD)?;
            head.write_raw_varint64(length as u64)?;
        }
        head.flush()?;
        drop(head);
        payload.write(out)?;
        if let Some(timeout) = method.timeout {
            let mut tail = CodedOutputStream::vec(out);
            tail.write_raw_varint32(TIMEOUT_NANO)?;
            tail.write_int64_no_tag(size::nanos(timeout))?;
            tail.flush()?;
        }
        if let Some(trace) = method.trace {
            let mut tail = CodedOutputStream::vec(out);
            trace.write(&mut tail)?;
            tail.flush()?;
        }
        Ok(())
    })
    .map_err(|e: protobuf::Error| CallError::Malformed(e.to_string()))
}

/// Returns the frames of a response.
pub(crate) fn response(conn: ConnId, stream: u32, response: &[u8]) -> Vec<u8> {
    let written: Result<_, std::convert::Infallible> =
        frames(conn, MessageKind::Response, stream, response.len(), |out| {
            out.extend_from_slice(response);
            Ok(())
        });
    match written {
        Ok(frames) => frames,
    }
}

/// Returns a ttrpc message of `size` bytes as frames that upstream's multiplexer can read: one
/// frame, or one for the header and one for the rest.
fn frames<E>(
    conn: ConnId,
    kind: MessageKind,
    stream: u32,
    size: usize,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<Vec<u8>, E> {
    let mut out = Vec::with_capacity(2 * FRAME_HEADER + HEADER + size);
    let frame = |out: &mut Vec<u8>, length: usize| {
        out.extend(conn.get().to_be_bytes());
        out.extend((length as u32).to_be_bytes()); // at most MAX_PAYLOAD
    };
    let is_one = HEADER + size <= UPSTREAM_BUFFER;
    frame(&mut out, if is_one { HEADER + size } else { HEADER });
    out.extend((size as u32).to_be_bytes()); // at most MAX_MESSAGE
    out.extend(stream.to_be_bytes());
    out.extend([kind as u8, 0]);
    if !is_one {
        frame(&mut out, size);
    }
    let start = out.len();
    write(&mut out)?;
    debug_assert_eq!(out.len() - start, size, "the size was computed for other content");
    Ok(out)
}

/// Returns the payload of a response.
///
/// # Errors
/// The status if it is an error, and [`CallError::Malformed`].
pub(crate) fn payload(response: &[u8]) -> Result<&[u8], CallError> {
    let malformed = |e: protobuf::Error| CallError::Malformed(e.to_string());
    let mut input = CodedInputStream::from_bytes(response);
    let mut status = Status::new();
    let mut payload = 0..0;
    while let Some(tag) = input.read_raw_tag_or_eof().map_err(malformed)? {
        match tag {
            STATUS => {
                let bytes = input.read_bytes().map_err(malformed)?;
                status.merge_from_bytes(&bytes).map_err(malformed)?;
            }
            RESPONSE_PAYLOAD => {
                let length = input.read_raw_varint32().map_err(malformed)?;
                let start = input.pos() as usize;
                input.skip_raw_bytes(length).map_err(malformed)?;
                payload = start..input.pos() as usize;
            }
            other => protobuf::rt::skip_field_for_tag(other, &mut input).map_err(malformed)?,
        }
    }
    // `value` also returns codes that the library does not know.
    match status.code.value() {
        0 => Ok(response.get(payload).unwrap_or_default()),
        code => Err(CallError::from_status(code, &status.message)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::size::{PLUGIN_SERVICE, request_size};
    use ttrpc::proto::{Request, Response};

    #[test]
    fn requests_are_read_by_the_library_and_fit_upstreams_buffer() {
        for timeout in [None, Some(Duration::from_secs(2)), Some(Duration::MAX)] {
            for length in [0, 1, 127, 128, 4000, 4010, 4020, 4096, 5000, 20000] {
                let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
                let trace = TraceContext::new(parent, Some("a=1")).filter(|_| length % 2 == 0);
                let trace = trace.as_ref();
                let method =
                    Method { service: PLUGIN_SERVICE, method: "Configure", timeout, trace };
                let payload = vec![7_u8; length];
                let size = request_size(PLUGIN_SERVICE, "Configure", timeout, length);
                let size = size + trace.map_or(0, TraceContext::size);
                let parts = [&payload[..length / 2], &payload[length / 2..]];
                let bytes = request(ConnId::PLUGIN, 5, size, method, &parts[..]).unwrap();
                let mut decoder = crate::Decoder::new();
                decoder.feed(&bytes);
                let mut all = Vec::new();
                for n in 0.. {
                    let Some(frame) = decoder.next_frame().unwrap() else { break };
                    // At most two frames, of which the first fits the buffer.
                    assert!(n < 2 && (n > 0 || frame.payload.len() <= UPSTREAM_BUFFER));
                    all.extend_from_slice(&frame.payload);
                }
                assert_eq!(all[..4], (size as u32).to_be_bytes());
                assert_eq!(all[4..10], [0, 0, 0, 5, 1, 0]);
                let read = Request::parse_from_bytes(&all[10..]).unwrap();
                assert_eq!((&*read.service, &*read.method), (PLUGIN_SERVICE, "Configure"));
                assert_eq!(read.timeout_nano, timeout.map_or(0, size::nanos));
                assert_eq!(read.payload, payload);
                let metadata = ttrpc::context::from_pb(&read.metadata);
                assert_eq!(TraceContext::of_metadata(&metadata).as_ref(), trace);
            }
        }
    }

    #[test]
    fn responses_of_the_library_are_read() {
        let mut response = Response::new();
        assert_eq!(payload(&response.write_to_bytes().unwrap()).unwrap(), b"");
        response.payload = b"reply".to_vec();
        let mut bytes = response.write_to_bytes().unwrap();
        bytes.extend([0x78, 1]); // field 15, of a later version
        assert_eq!(payload(&bytes).unwrap(), b"reply");
        assert!(matches!(payload(&bytes[..5]), Err(CallError::Malformed(_))));
        response.mut_status().code = protobuf::EnumOrUnknown::from_i32(99);
        response.mut_status().message = "odd".into();
        let error = payload(&response.write_to_bytes().unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "odd");
    }
}
