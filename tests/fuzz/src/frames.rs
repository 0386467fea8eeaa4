//! Builds trunk frames, ttrpc messages and requests of a peer from arbitrary bytes.

use crate::{Input, write};
use bytes::BytesMut;
use nri_wire::{ConnId, PLUGIN_SERVICE, RUNTIME_SERVICE, encode};
use ttrpc::{
    Request, Response,
    proto::{Codec, MESSAGE_TYPE_REQUEST, MESSAGE_TYPE_RESPONSE},
};

/// First byte of a frame in the input. Each kind lists the values that follow it.
pub mod kind {
    /// No more frames.
    pub const END: u8 = 0;
    /// One frame: connection, payload.
    pub const FRAME: u8 = 1;
    /// One ttrpc message: connection, type, stream, payload.
    pub const MESSAGE: u8 = 2;
    /// A request on the connection on which the peer calls: stream, timeout in nanoseconds, method,
    /// encoded message.
    pub const REQUEST: u8 = 3;
    /// A response on the connection on which the peer serves: stream, status, encoded message.
    pub const RESPONSE: u8 = 4;
}

/// Sender of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// A plugin, which serves on connection 1 and calls on 2.
    Plugin,
    /// A runtime, which serves on connection 2 and calls on 1.
    Runtime,
}

impl Peer {
    /// Returns the connection on which the peer sends requests, and the service that it calls.
    fn calls(self) -> (ConnId, &'static str) {
        match self {
            Self::Plugin => (ConnId::RUNTIME, RUNTIME_SERVICE),
            Self::Runtime => (ConnId::PLUGIN, PLUGIN_SERVICE),
        }
    }

    /// Returns the connection on which the peer sends responses.
    fn serves(self) -> ConnId {
        match self {
            Self::Plugin => ConnId::PLUGIN,
            Self::Runtime => ConnId::RUNTIME,
        }
    }
}

/// Returns the bytes of all frames that the input describes.
pub fn frames(peer: Peer, input: &mut Input<'_>) -> BytesMut {
    let mut out = BytesMut::new();
    while !input.is_empty() {
        match input.byte() {
            kind::FRAME => {
                let conn = conn(input);
                encode(conn, input.part(), &mut out);
            }
            kind::MESSAGE => {
                let (conn, kind, stream) = (conn(input), input.byte(), input.number() as u32);
                encode(conn, &message(kind, stream, input.part()), &mut out);
            }
            kind::REQUEST => {
                let (conn, service) = peer.calls();
                let (stream, timeout_nano) = (input.number() as u32, input.number());
                let (service, method) = (service.to_owned(), input.text().into_owned());
                let payload = input.part().to_vec();
                let request =
                    Request { service, method, timeout_nano, payload, ..Default::default() };
                encode(conn, &message(MESSAGE_TYPE_REQUEST, stream, &encoded(&request)), &mut out);
            }
            kind::RESPONSE => {
                let (stream, code) = (input.number() as u32, input.number() as i32);
                let mut response =
                    Response { payload: input.part().to_vec(), ..Default::default() };
                if code != 0 {
                    response.mut_status().code = protobuf::EnumOrUnknown::from_i32(code);
                }
                encode(
                    peer.serves(),
                    &message(MESSAGE_TYPE_RESPONSE, stream, &encoded(&response)),
                    &mut out,
                );
            }
            _ => break,
        }
    }
    out
}

/// Appends the input from which [`frames`] builds this request.
pub fn write_request(stream: u8, timeout: i64, method: &str, payload: &[u8], out: &mut Vec<u8>) {
    out.extend([kind::REQUEST, stream]);
    write::number(timeout, out);
    write::part(method.as_bytes(), out);
    write::part(payload, out);
}

/// Appends the input from which [`frames`] builds this response.
pub fn write_response(stream: u8, code: u8, payload: &[u8], out: &mut Vec<u8>) {
    out.extend([kind::RESPONSE, stream, code]);
    write::part(payload, out);
}

/// Encodes a ttrpc message.
pub fn message(kind: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut all = (payload.len() as u32).to_be_bytes().to_vec();
    all.extend(stream.to_be_bytes());
    all.extend([kind, 0]);
    all.extend(payload);
    all
}

fn encoded<T: Codec<E: std::fmt::Debug>>(message: &T) -> Vec<u8> {
    message.encode().expect("plain messages encode")
}

fn conn(input: &mut Input<'_>) -> ConnId {
    ConnId::new(input.number() as u32).unwrap_or(ConnId::RUNTIME)
}
