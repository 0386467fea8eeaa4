//! A plugin that writes raw frames and injects a fault into its reply to a given call.

use nri_api::EventMask;
use nri_api::proto::*;
use nri_wire::ttrpc::proto::{MESSAGE_TYPE_REQUEST, MESSAGE_TYPE_RESPONSE, Request, Response};
use protobuf::Message;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// Fault of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The plugin closes the connection.
    Crash,
    /// No reply.
    Hang,
    /// A reply that ends within its header.
    HalfHeader,
    /// A reply that ends within its payload.
    HalfFrame,
    /// A reply to a call that was not made.
    WrongCall,
    /// A reply on a connection of the trunk that is not open.
    WrongConnection,
    /// A frame of 5 MiB.
    HugeFrame,
    /// A message of 5 MiB, in frames of valid size.
    HugeMessage,
    /// Thousands of requests for updates, and no reply.
    Flood,
    /// A reply that is not a message.
    Garbage,
    /// A reply with the message of another call.
    OtherMessage,
    /// A reply with the type of a request.
    Request,
    /// Arbitrary bytes.
    Noise,
}

impl Fault {
    pub(crate) const ALL: [Self; 13] = [
        Self::Crash,
        Self::Hang,
        Self::HalfHeader,
        Self::HalfFrame,
        Self::WrongCall,
        Self::WrongConnection,
        Self::HugeFrame,
        Self::HugeMessage,
        Self::Flood,
        Self::Garbage,
        Self::OtherMessage,
        Self::Request,
        Self::Noise,
    ];
}

/// Connection of the trunk for calls to the plugin.
const PLUGIN: u32 = 1;
/// Connection of the trunk for calls to the runtime.
const RUNTIME: u32 = 2;
/// Size in bytes of a message that exceeds the limit of 4 MiB.
const HUGE: usize = 5 << 20;

/// Encodes a frame of the trunk: connection, length, payload.
fn frame(connection: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = connection.to_be_bytes().to_vec();
    bytes.extend((payload.len() as u32).to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Encodes a ttrpc message: length, call, type, flags, payload.
fn message(kind: u8, call: u32, length: usize, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (length as u32).to_be_bytes().to_vec();
    bytes.extend(call.to_be_bytes());
    bytes.extend([kind, 0]);
    bytes.extend(payload);
    bytes
}

fn reply(call: u32, payload: Vec<u8>) -> Vec<u8> {
    let response = Response { payload, ..Default::default() }.write_to_bytes().unwrap();
    message(MESSAGE_TYPE_RESPONSE, call, response.len(), &response)
}

fn request_frame(call: u32, method: &str, request: &impl Message) -> Vec<u8> {
    let request = Request {
        service: "nri.pkg.api.v1alpha1.Runtime".into(),
        method: method.into(),
        payload: request.write_to_bytes().unwrap(),
        ..Default::default()
    };
    let request = request.write_to_bytes().unwrap();
    frame(RUNTIME, &message(MESSAGE_TYPE_REQUEST, call, request.len(), &request))
}

/// Registers as this plugin with these events, replies to every call with an empty message, and
/// injects the fault at the call `at`. Returns when the connection is closed.
pub(crate) async fn plugin(
    mut stream: UnixStream,
    name: &str,
    events: EventMask,
    at: &str,
    fault: Fault,
) -> io::Result<()> {
    let (index, name) = name.split_once('-').unwrap();
    let register = RegisterPluginRequest {
        plugin_name: name.into(),
        plugin_idx: index.into(),
        ..Default::default()
    };
    stream.write_all(&request_frame(1, "RegisterPlugin", &register)).await?;
    let mut is_silent = false;
    loop {
        let mut header = [0; 8];
        stream.read_exact(&mut header).await?;
        let connection = u32::from_be_bytes(header[..4].try_into().unwrap());
        let mut payload = vec![0; u32::from_be_bytes(header[4..].try_into().unwrap()) as usize];
        stream.read_exact(&mut payload).await?;
        if connection != PLUGIN || is_silent {
            continue;
        }
        assert_eq!(payload[8], MESSAGE_TYPE_REQUEST);
        let call = u32::from_be_bytes(payload[4..8].try_into().unwrap());
        let request = Request::parse_from_bytes(&payload[10..]).unwrap();
        if request.method != at {
            let configured = ConfigureResponse { events: events.bits(), ..Default::default() };
            let payload = match &*request.method {
                "Configure" => configured.write_to_bytes().unwrap(),
                _ => Vec::new(),
            };
            stream.write_all(&frame(PLUGIN, &reply(call, payload))).await?;
            continue;
        }
        if fault == Fault::Crash {
            return Ok(());
        }
        // After the fault the plugin sends nothing that could be a valid reply. At Configure this
        // includes OtherMessage, since a reply to Configure without known fields is valid.
        is_silent = fault != Fault::OtherMessage || at == "Configure";
        inject(&mut stream, call, fault).await?;
    }
}

async fn inject(stream: &mut UnixStream, call: u32, fault: Fault) -> io::Result<()> {
    let good = frame(PLUGIN, &reply(call, Vec::new()));
    match fault {
        Fault::Crash | Fault::Hang => Ok(()),
        Fault::HalfHeader => stream.write_all(&good[..5]).await,
        Fault::HalfFrame => stream.write_all(&good[..good.len() - 1]).await,
        Fault::WrongCall => stream.write_all(&frame(PLUGIN, &reply(call + 1000, Vec::new()))).await,
        Fault::WrongConnection => stream.write_all(&frame(7, &reply(call, Vec::new()))).await,
        Fault::HugeFrame => {
            let huge = message(MESSAGE_TYPE_RESPONSE, call, HUGE, &vec![0; HUGE]);
            stream.write_all(&frame(PLUGIN, &huge)).await
        }
        Fault::HugeMessage => {
            let huge = message(MESSAGE_TYPE_RESPONSE, call, HUGE, &vec![0; HUGE]);
            for piece in huge.chunks(1 << 20) {
                stream.write_all(&frame(PLUGIN, piece)).await?;
            }
            Ok(())
        }
        Fault::Flood => {
            let (read, mut write) = stream.split();
            let mut sink = tokio::io::BufReader::new(read);
            let flood = async {
                for i in 0..3000_u32 {
                    let update = super::harness::shares(&format!("other{i}"), 7);
                    let request =
                        UpdateContainersRequest { update: vec![update], ..Default::default() };
                    // Numbers of calls are odd; 1 was the registration.
                    write
                        .write_all(&request_frame(3 + 2 * i, "UpdateContainers", &request))
                        .await?;
                }
                Ok(())
            };
            // Replies are read meanwhile, so that neither end blocks.
            let drain = async { tokio::io::copy(&mut sink, &mut tokio::io::sink()).await };
            tokio::select! {
                done = flood => done,
                _ = drain => Ok(()),
            }
        }
        Fault::Garbage => stream.write_all(&frame(PLUGIN, &reply(call, vec![0xff; 64]))).await,
        Fault::OtherMessage => {
            // A string in field 1, which has another type in all replies with content.
            let other =
                RegisterPluginRequest { plugin_name: "\u{1}".repeat(9), ..Default::default() };
            stream.write_all(&frame(PLUGIN, &reply(call, other.write_to_bytes().unwrap()))).await
        }
        Fault::Request => {
            let mut payload = reply(call, Vec::new());
            payload[8] = MESSAGE_TYPE_REQUEST;
            stream.write_all(&frame(PLUGIN, &payload)).await
        }
        Fault::Noise => stream.write_all(&[0x55; 4096]).await,
    }
}
