//! A client for unary gRPC calls over a unix socket, used for containerd. It implements neither TCP
//! nor TLS, which a service that runs as root should not link without need.
//!
//! `h2` implements HTTP/2; for a unary call gRPC adds a prefix of five bytes and two headers.

use bytes::{BufMut, Bytes, BytesMut};
use h2::client;
use http::{HeaderValue, Method, Request, Version, header};
use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{net::UnixStream, time::timeout};

/// Maximum size of a reply in bytes; the description of a container has some kilobytes.
const MAX_REPLY: usize = 4 << 20;

/// Error of a call.
#[derive(Debug, thiserror::Error)]
pub enum GrpcError {
    /// The connection failed.
    #[error("{socket}: {source}")]
    Connect {
        /// Path of the socket.
        socket: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// The peer does not speak HTTP/2, or closed the stream.
    #[error("{socket}: {source}")]
    Http2 {
        /// Path of the socket.
        socket: PathBuf,
        /// Cause of the failure.
        source: h2::Error,
    },
    /// The request cannot be built from the method and the headers.
    #[error("cannot build the request: {0}")]
    Request(#[from] http::Error),
    /// The peer returned an error status.
    #[error(
        "{method}: {}",
        if message.is_empty() { format!("gRPC status {status}") } else { message.clone() }
    )]
    Status {
        /// The called method.
        method: &'static str,
        /// The gRPC status code.
        status: String,
        /// The message of the peer.
        message: String,
    },
    /// The reply is not a gRPC message, or too large.
    #[error("{method}: the reply is not a gRPC message, or too large")]
    InvalidReply {
        /// The called method.
        method: &'static str,
    },
    /// The peer did not reply within the timeout.
    #[error("{socket}: no reply within {limit:?}")]
    DeadlineExceeded {
        /// Path of the socket.
        socket: PathBuf,
        /// The timeout.
        limit: Duration,
    },
}

/// Calls `method`, such as `/package.Service/Method`, with additional `headers`, and returns the
/// message of the reply.
///
/// # Errors
/// See [`GrpcError`].
pub async fn call(
    socket: &Path,
    method: &'static str,
    headers: &[(&'static str, &str)],
    message: &[u8],
    time_limit: Duration,
) -> Result<Bytes, GrpcError> {
    let result = timeout(time_limit, exchange(socket, method, headers, message)).await;
    result.unwrap_or_else(|_| {
        Err(GrpcError::DeadlineExceeded { socket: socket.to_owned(), limit: time_limit })
    })
}

async fn exchange(
    socket: &Path,
    method: &'static str,
    headers: &[(&'static str, &str)],
    message: &[u8],
) -> Result<Bytes, GrpcError> {
    let http2 = |source| GrpcError::Http2 { socket: socket.to_owned(), source };
    let stream = UnixStream::connect(socket)
        .await
        .map_err(|source| GrpcError::Connect { socket: socket.to_owned(), source })?;
    let (sender, connection) = client::handshake(stream).await.map_err(http2)?;
    let exchange = async {
        let mut sender = sender.ready().await.map_err(http2)?;
        let (response, mut body) =
            sender.send_request(request(method, headers)?, false).map_err(http2)?;
        body.send_data(framed(message), true).map_err(http2)?;
        let (head, body) = response.await.map_err(http2)?.into_parts();
        // A reply without a message has the status in the first headers, not in trailers.
        if head.headers.contains_key("grpc-status") {
            check(method, Some(&head.headers))?;
        }
        read(method, body, http2).await
    };
    tokio::select! {
        reply = exchange => reply,
        // The connection future ends on an error, or after the exchange.
        ended = connection => Err(match ended {
            Err(e) => http2(e),
            Ok(()) => GrpcError::InvalidReply { method },
        }),
    }
}

fn request(method: &str, headers: &[(&'static str, &str)]) -> Result<Request<()>, GrpcError> {
    let mut request = Request::builder()
        .method(Method::POST)
        .version(Version::HTTP_2)
        // The authority has no meaning for a unix socket.
        .uri(format!("http://localhost{method}"))
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers");
    for (name, value) in headers {
        request = request.header(*name, HeaderValue::from_str(value).map_err(http::Error::from)?);
    }
    Ok(request.body(())?)
}

/// Prefixes a message with the flag "not compressed" and its length.
fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(message.len() + 5);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put_slice(message);
    frame.freeze()
}

/// Reads the reply's message and status.
async fn read(
    method: &'static str,
    mut body: h2::RecvStream,
    http2: impl Fn(h2::Error) -> GrpcError,
) -> Result<Bytes, GrpcError> {
    let mut reply = BytesMut::new();
    while let Some(part) = body.data().await {
        let part = part.map_err(&http2)?;
        body.flow_control().release_capacity(part.len()).map_err(&http2)?;
        reply.put_slice(&part);
        if reply.len() > MAX_REPLY {
            return Err(GrpcError::InvalidReply { method });
        }
    }
    check(method, body.trailers().await.map_err(&http2)?.as_ref())?;
    match reply.first_chunk::<5>() {
        Some([0, length @ ..]) if u32::from_be_bytes(*length) as usize == reply.len() - 5 => {
            Ok(reply.split_off(5).freeze())
        }
        _ => Err(GrpcError::InvalidReply { method }),
    }
}

/// Checks the status in the trailers of a reply.
fn check(method: &'static str, trailers: Option<&http::HeaderMap>) -> Result<(), GrpcError> {
    let text =
        |name| trailers.and_then(|t| t.get(name)).map(|v| String::from_utf8_lossy(v.as_bytes()));
    match text("grpc-status") {
        Some(status) if status == "0" => Ok(()),
        Some(status) => Err(GrpcError::Status {
            method,
            status: status.into_owned(),
            message: text("grpc-message").unwrap_or_default().into_owned(),
        }),
        None => Err(GrpcError::InvalidReply { method }),
    }
}
