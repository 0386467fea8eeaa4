//! HTTP/1 of a scrape: one request, one response, and the connection is closed.

use httparse::{EMPTY_HEADER, Request, Status};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Maximum size of a request in bytes; a scraper sends a few hundred.
const MAX_REQUEST: usize = 8 << 10;

/// Maximum number of headers; a scraper sends five or so.
const MAX_HEADERS: usize = 64;

/// The only path.
const PATH: &str = "/metrics";

/// Media type of the text format.
const TEXT_FORMAT: &str = prometheus::TEXT_FORMAT;

/// Reads a request and writes the response. `metrics` is called for a request that is valid.
///
/// # Errors
/// The connection fails.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    metrics: impl FnOnce() -> Result<String, prometheus::Error>,
) -> io::Result<()> {
    let response = match read_request(stream).await? {
        None => return Ok(()),
        Some(Ok(wanted)) => match metrics() {
            Ok(text) => response("200 OK", TEXT_FORMAT, &text, wanted == Wanted::Head),
            Err(error) => {
                tracing::error!(%error, "metrics cannot be encoded");
                refusal("500 Internal Server Error")
            }
        },
        Some(Err(status)) => refusal(status),
    };
    stream.write_all(&response).await?;
    stream.shutdown().await
}

/// What a valid request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Headers and metrics.
    Get,
    /// Headers.
    Head,
}

/// Reads a request; the error is the status of the response. Returns `None` if the peer closes the
/// connection before the end of its request.
async fn read_request(
    stream: &mut (impl AsyncRead + Unpin),
) -> io::Result<Option<Result<Wanted, &'static str>>> {
    let mut bytes = Vec::with_capacity(1024);
    loop {
        if bytes.len() >= MAX_REQUEST {
            return Ok(Some(Err("431 Request Header Fields Too Large")));
        }
        let room = (MAX_REQUEST - bytes.len()) as u64;
        if stream.take(room).read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
        let mut headers = [EMPTY_HEADER; MAX_HEADERS];
        let mut request = Request::new(&mut headers);
        match request.parse(&bytes) {
            Ok(Status::Partial) => {}
            Ok(Status::Complete(_)) => return Ok(Some(judge(&request))),
            Err(httparse::Error::TooManyHeaders) => {
                return Ok(Some(Err("431 Request Header Fields Too Large")));
            }
            Err(_) => return Ok(Some(Err("400 Bad Request"))),
        }
    }
}

/// Returns what a request asks for, or the status of the refusal.
fn judge(request: &Request<'_, '_>) -> Result<Wanted, &'static str> {
    let path = request.path.unwrap_or_default();
    if path.split('?').next() != Some(PATH) {
        return Err("404 Not Found");
    }
    match request.method {
        Some("GET") => Ok(Wanted::Get),
        Some("HEAD") => Ok(Wanted::Head),
        _ => Err("405 Method Not Allowed"),
    }
}

fn refusal(status: &str) -> Vec<u8> {
    response(status, "text/plain; charset=utf-8", &format!("{status}; metrics: {PATH}\n"), false)
}

fn response(status: &str, media_type: &str, body: &str, without_body: bool) -> Vec<u8> {
    let length = body.len();
    let mut bytes = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    if !without_body {
        bytes.push_str(body);
    }
    bytes.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a request in pieces, and returns the response.
    async fn response_to(pieces: &[&str]) -> String {
        let (mut client, mut server) = tokio::io::duplex(64 << 10);
        let serving =
            tokio::spawn(async move { serve(&mut server, || Ok("nri_pods 1\n".to_owned())).await });
        for piece in pieces {
            client.write_all(piece.as_bytes()).await.unwrap();
            tokio::task::yield_now().await;
        }
        client.shutdown().await.unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        serving.await.unwrap().unwrap();
        text
    }

    #[tokio::test]
    async fn a_scrape_gets_the_metrics_and_the_end_of_the_connection() {
        let expected = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n\
                        Content-Length: 11\r\nConnection: close\r\n\r\nnri_pods 1\n";
        let get = response_to(&["GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"]).await;
        assert_eq!(get, expected);
        let pieces = ["GET /met", "rics?a=b HTTP/1.0\r", "\nAccept: */*\r\n", "\r\n"];
        assert_eq!(response_to(&pieces).await, expected);
        let head = response_to(&["HEAD /metrics HTTP/1.1\r\n\r\n"]).await;
        assert_eq!(head, expected.strip_suffix("nri_pods 1\n").unwrap());
    }

    #[tokio::test]
    async fn other_requests_are_refused_with_a_status() {
        let long = format!("GET /metrics HTTP/1.1\r\nA: {}", "x".repeat(MAX_REQUEST));
        let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(MAX_HEADERS + 1));
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "404 "),
            ("GET /metrics/x HTTP/1.1\r\n\r\n", "404 "),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405 "),
            ("\u{1}\u{2}\r\n\r\n", "400 "),
            ("GET /metrics HTTP/9\r\n\r\n", "400 "),
            (&*long, "431 "),
            (&*many, "431 "),
        ] {
            let found = response_to(&[request]).await;
            assert!(found.starts_with(&format!("HTTP/1.1 {status}")), "{request:.40}: {found}");
            assert!(found.contains("\r\nConnection: close\r\n") && !found.contains("nri_pods"));
        }
        assert_eq!(response_to(&["GET /metrics"]).await, "", "the request has no end");
    }
}
