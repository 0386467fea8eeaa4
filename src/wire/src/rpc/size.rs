//! Content of a call, and its size on the wire, computed before it is sent.
//!
//! ttrpc wraps a message into a request (service, method, timeout) or a response (status), which as
//! a whole must not exceed [`MAX_MESSAGE`].

use nri_api::MAX_MESSAGE;
use protobuf::{CodedOutputStream, Message};
use std::time::Duration;

/// Full name of the service of plugins.
pub const PLUGIN_SERVICE: &str = "nri.pkg.api.v1alpha1.Plugin";
/// Full name of the service of runtimes.
pub const RUNTIME_SERVICE: &str = "nri.pkg.api.v1alpha1.Runtime";

/// Message of a call: a message of the protocol, or parts of its encoding.
pub trait Payload: Sync {
    /// Returns the encoded size in bytes. Called before [`write`](Self::write).
    fn size(&self) -> usize;

    /// Appends the encoding.
    ///
    /// # Errors
    /// If the message cannot be encoded.
    fn write(&self, out: &mut Vec<u8>) -> protobuf::Result<()>;
}

impl<M: Message> Payload for M {
    fn size(&self) -> usize {
        message_size(self)
    }

    fn write(&self, out: &mut Vec<u8>) -> protobuf::Result<()> {
        let mut out = CodedOutputStream::vec(out);
        self.write_to_with_cached_sizes(&mut out)?;
        out.flush()
    }
}

impl Payload for [&[u8]] {
    fn size(&self) -> usize {
        self.iter().map(|part| part.len()).sum()
    }

    fn write(&self, out: &mut Vec<u8>) -> protobuf::Result<()> {
        self.iter().for_each(|part| out.extend_from_slice(part));
        Ok(())
    }
}

/// Returns the encoded size of a message in bytes, without the envelope.
pub fn message_size(message: &impl Message) -> usize {
    usize::try_from(message.compute_size()).unwrap_or(usize::MAX)
}

/// Returns the size of the ttrpc request that carries a message of `message` bytes.
pub fn request_size(
    service: &str,
    method: &str,
    timeout: Option<Duration>,
    message: usize,
) -> usize {
    envelope_size(service, method, timeout) + field_size(message)
}

/// Whether the ttrpc request that carries this message is small enough to be sent.
pub fn fits(
    service: &str,
    method: &str,
    timeout: Option<Duration>,
    message: &impl Message,
) -> bool {
    request_size(service, method, timeout, message_size(message)) <= MAX_MESSAGE
}

/// Returns the size of the largest message that a call of this method can carry.
pub fn max_message(service: &str, method: &str, timeout: Option<Duration>) -> usize {
    let max_field = MAX_MESSAGE.saturating_sub(envelope_size(service, method, timeout));
    // The length of the prefix depends on the size that is sought, so sizes are tried downwards.
    // There are at most as many steps as the tag and the prefix have bytes.
    let mut size = max_field.saturating_sub(1);
    while size > 0 && field_size(size) > max_field {
        size -= 1;
    }
    size
}

/// Returns a timeout in nanoseconds, at least 1, since 0 means no timeout in ttrpc.
pub(crate) fn nanos(timeout: Duration) -> i64 {
    i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX).max(1)
}

/// Size of the fields of ttrpc's `Request` other than the payload.
fn envelope_size(service: &str, method: &str, timeout: Option<Duration>) -> usize {
    // `nanos` is never negative.
    let timeout = timeout.map_or(0, |timeout| 1 + varint_size(nanos(timeout) as u64));
    field_size(service.len()) + field_size(method.len()) + timeout
}

/// Size of a bytes field: tag, length, bytes; 0 if it is empty.
pub(crate) fn field_size(bytes: usize) -> usize {
    if bytes == 0 {
        return 0;
    }
    1 + varint_size(bytes as u64) + bytes
}

/// Size of a number other than 0.
fn varint_size(number: u64) -> usize {
    (u64::BITS - number.leading_zeros()).div_ceil(7) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttrpc::proto::Request;

    fn request(service: &str, method: &str, timeout: Option<Duration>) -> Request {
        let mut request = Request::new();
        (request.service, request.method) = (service.to_owned(), method.to_owned());
        request.timeout_nano = timeout.map_or(0, nanos);
        request
    }

    #[test]
    fn computed_sizes_equal_the_encoded_sizes() {
        for timeout in
            [None, Some(Duration::from_secs(2)), Some(Duration::ZERO), Some(Duration::MAX)]
        {
            for payload in [0, 1, 127, 128, 16383, 16384, 2097151, 2097152, MAX_MESSAGE] {
                let mut encoded = request(PLUGIN_SERVICE, "Synchronize", timeout);
                encoded.payload = vec![0; payload];
                let size = request_size(PLUGIN_SERVICE, "Synchronize", timeout, payload);
                assert_eq!(size as u64, encoded.compute_size(), "{payload} {timeout:?}");
            }
            let max = max_message(PLUGIN_SERVICE, "Synchronize", timeout);
            assert_eq!(request_size(PLUGIN_SERVICE, "Synchronize", timeout, max), MAX_MESSAGE);
            assert!(request_size(PLUGIN_SERVICE, "Synchronize", timeout, max + 1) > MAX_MESSAGE);
        }
    }
}
