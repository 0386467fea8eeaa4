//! A plugin that speaks in bare frames, and breaks whatever rule a test wants broken at whatever
//! call.

use nri_api::EventMask;
use nri_api::proto::*;
use nri_wire::ttrpc::proto::{MESSAGE_TYPE_REQUEST, MESSAGE_TYPE_RESPONSE, Request, Response};
use protobuf::Message;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection ends.
    Crash,
    /// No answer comes.
    Hang,
    /// An answer begins and does not end, in its header.
    HalfHeader,
    /// An answer begins and does not end, in its payload.
    HalfFrame,
    /// The answer is for a call that was not made.
    WrongCall,
    /// The answer is on a connection of the trunk that is not open.
    WrongConnection,
    /// A frame of 5 MiB.
    HugeFrame,
    /// A message of 5 MiB, in frames that are small enough.
    HugeMessage,
    /// Thousands of requests for updates, and no answer.
    Flood,
    /// The answer is no message at all.
    Garbage,
    /// The answer is another message than the call's.
    OtherMessage,
    /// The answer says that it is a request.
    Request,
    /// Bytes without any form.
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

const PLUGIN: u32 = 1;
const RUNTIME: u32 = 2;
const HUGE: usize = 5 << 20;

fn frame(connection: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = connection.to_be_bytes().to_vec();
    bytes.extend((payload.len() as u32).to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn message(kind: u8, call: u32, length: usize, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (length as u32).to_be_bytes().to_vec();
    bytes.extend(call.to_be_bytes());
    bytes.extend([kind, 0]);
    bytes.extend(payload);
    bytes
}

fn answer(call: u32, payload: Vec<u8>) -> Vec<u8> {
    let response = Response { payload, ..Default::default() }.write_to_bytes().unwrap();
    message(MESSAGE_TYPE_RESPONSE, call, response.len(), &response)
}

fn ask(call: u32, method: &str, request: &impl Message) -> Vec<u8> {
    let request = Request {
        service: "nri.pkg.api.v1alpha1.Runtime".into(),
        method: method.into(),
        payload: request.write_to_bytes().unwrap(),
        ..Default::default()
    };
    let request = request.write_to_bytes().unwrap();
    frame(RUNTIME, &message(MESSAGE_TYPE_REQUEST, call, request.len(), &request))
}

/// Registers as this plugin with these events, answers every call with an empty message, and
/// commits the fault at the call of this name. Returns when the connection has ended.
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
    stream.write_all(&ask(1, "RegisterPlugin", &register)).await?;
    let mut silent = false;
    loop {
        let mut header = [0; 8];
        stream.read_exact(&mut header).await?;
        let connection = u32::from_be_bytes(header[..4].try_into().unwrap());
        let mut payload = vec![0; u32::from_be_bytes(header[4..].try_into().unwrap()) as usize];
        stream.read_exact(&mut payload).await?;
        if connection != PLUGIN || silent {
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
            stream.write_all(&frame(PLUGIN, &answer(call, payload))).await?;
            continue;
        }
        if fault == Fault::Crash {
            return Ok(());
        }
        // Nothing else of it can be taken for an answer, so whoever called waits or gives up. An
        // answer to Configure without a field that is known is one.
        silent = fault != Fault::OtherMessage || at == "Configure";
        commit(&mut stream, call, fault).await?;
    }
}

async fn commit(stream: &mut UnixStream, call: u32, fault: Fault) -> io::Result<()> {
    let good = frame(PLUGIN, &answer(call, Vec::new()));
    match fault {
        Fault::Crash | Fault::Hang => Ok(()),
        Fault::HalfHeader => stream.write_all(&good[..5]).await,
        Fault::HalfFrame => stream.write_all(&good[..good.len() - 1]).await,
        Fault::WrongCall => {
            stream.write_all(&frame(PLUGIN, &answer(call + 1000, Vec::new()))).await
        }
        Fault::WrongConnection => stream.write_all(&frame(7, &answer(call, Vec::new()))).await,
        Fault::HugeFrame => {
            let whole = message(MESSAGE_TYPE_RESPONSE, call, HUGE, &vec![0; HUGE]);
            stream.write_all(&frame(PLUGIN, &whole)).await
        }
        Fault::HugeMessage => {
            let whole = message(MESSAGE_TYPE_RESPONSE, call, HUGE, &vec![0; HUGE]);
            for piece in whole.chunks(1 << 20) {
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
                    write.write_all(&ask(3 + 2 * i, "UpdateContainers", &request)).await?;
                }
                Ok(())
            };
            // Answers are taken as they come, or nobody would get anywhere.
            let drain = async { tokio::io::copy(&mut sink, &mut tokio::io::sink()).await };
            tokio::select! {
                done = flood => done,
                _ = drain => Ok(()),
            }
        }
        Fault::Garbage => stream.write_all(&frame(PLUGIN, &answer(call, vec![0xff; 64]))).await,
        Fault::OtherMessage => {
            // A string where all answers with content have a message, or nothing.
            let other =
                RegisterPluginRequest { plugin_name: "\u{1}".repeat(9), ..Default::default() };
            stream.write_all(&frame(PLUGIN, &answer(call, other.write_to_bytes().unwrap()))).await
        }
        Fault::Request => {
            let mut payload = answer(call, Vec::new());
            payload[8] = MESSAGE_TYPE_REQUEST;
            stream.write_all(&frame(PLUGIN, &payload)).await
        }
        Fault::Noise => stream.write_all(&[0x55; 4096]).await,
    }
}
