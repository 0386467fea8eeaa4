//! Container metadata that containerd has and the OCI config lacks: labels, image, and the
//! configuration from CRI.
//!
//! `nrid` calls containerd's API while containerd waits for the runtime. This cannot deadlock:
//! `Containers.Get` reads the database and takes no lock of the task that is being created
//! (`containerd: plugins/services/containers`). After a timeout `nrid` continues without metadata.

use crate::engine::grpc::{self, GrpcError};
use nri_engine::containerd::Metadata;
use protobuf::{CodedInputStream, CodedOutputStream, rt::WireType};
use std::{path::Path, time::Duration};

/// Timeout of a call, during which the creation of a container waits.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Method that returns containerd's version.
const GET_VERSION: &str = "/containerd.services.version.v1.Version/Version";
/// Method that returns a container's metadata.
const GET_CONTAINER: &str = "/containerd.services.containers.v1.Containers/Get";

/// Error of a call to containerd.
#[derive(Debug, thiserror::Error)]
pub enum ContainerdError {
    /// The call failed.
    #[error("call to containerd: {0}")]
    Call(#[from] GrpcError),
    /// The reply cannot be decoded.
    #[error("containerd's reply: {0}")]
    Message(#[from] protobuf::Error),
}

/// Returns containerd's metadata of a container.
///
/// # Errors
/// See [`ContainerdError`].
pub async fn container(
    socket: &Path,
    namespace: &str,
    id: &str,
) -> Result<Metadata, ContainerdError> {
    let headers = [("containerd-namespace", namespace)];
    let reply = grpc::call(socket, GET_CONTAINER, &headers, &with_text(1, id)?, TIMEOUT).await?;
    Ok(metadata(&reply)?)
}

/// Returns containerd's version, such as `v2.1.9`, or `1.7.24~ds1` of a distribution's package.
///
/// # Errors
/// See [`ContainerdError`].
pub async fn version(socket: &Path) -> Result<String, ContainerdError> {
    let reply = grpc::call(socket, GET_VERSION, &[], &[], TIMEOUT).await?;
    let mut version = String::new();
    fields(&reply, |field, value| {
        if field == 1 {
            version = text(&value);
        }
        Ok(())
    })?;
    Ok(version)
}

/// Encodes a message with one string field.
fn with_text(field: u32, text: &str) -> Result<Vec<u8>, protobuf::Error> {
    let mut message = Vec::new();
    let mut out = CodedOutputStream::vec(&mut message);
    out.write_string(field, text)?;
    out.flush()?;
    drop(out);
    Ok(message)
}

/// Decodes `GetContainerResponse`. The fields used here are the same since containerd 1.0
/// (`containerd: api/services/containers/v1`).
fn metadata(reply: &[u8]) -> Result<Metadata, protobuf::Error> {
    let mut metadata = Metadata::default();
    fields(reply, |field, container| {
        if field != 1 {
            return Ok(());
        }
        fields(&container, |field, value| {
            match field {
                2 => {
                    let (name, label) = entry(&value)?;
                    metadata.labels.insert(name, text(&label));
                }
                3 => metadata.image = text(&value),
                4 => {
                    fields(&value, |field, name| {
                        if field == 1 {
                            metadata.runtime = text(&name);
                        }
                        Ok(())
                    })?;
                }
                10 => {
                    let (name, any) = entry(&value)?;
                    fields(&any, |field, extension| {
                        if field == 2 {
                            metadata.extensions.insert(name.clone(), extension);
                        }
                        Ok(())
                    })?;
                }
                _ => {}
            }
            Ok(())
        })
    })?;
    Ok(metadata)
}

/// Decodes an entry of a map.
fn entry(bytes: &[u8]) -> Result<(String, Vec<u8>), protobuf::Error> {
    let (mut name, mut value) = (String::new(), Vec::new());
    fields(bytes, |field, found| {
        match field {
            1 => name = text(&found),
            2 => value = found,
            _ => {}
        }
        Ok(())
    })?;
    Ok((name, value))
}

/// Calls `each` for the length-delimited fields of a message, and skips other fields.
fn fields(
    message: &[u8],
    mut each: impl FnMut(u32, Vec<u8>) -> Result<(), protobuf::Error>,
) -> Result<(), protobuf::Error> {
    let mut input = CodedInputStream::from_bytes(message);
    while !input.eof()? {
        let tag = input.read_raw_tag_or_eof()?.unwrap_or_default();
        let (field, kind) = (tag >> 3, WireType::new(tag & 7));
        match kind {
            Some(WireType::LengthDelimited) => each(field, input.read_bytes()?)?,
            Some(kind) => input.skip_field(kind)?,
            None => break,
        }
    }
    Ok(())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a length-delimited field.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
        out.extend_from_slice(bytes);
        out
    }

    fn pair(name: &[u8], value: &[u8]) -> Vec<u8> {
        [field(1, name), field(2, value)].concat()
    }

    #[test]
    fn fields_are_found_and_others_skipped() {
        let any = [field(1, b"type"), field(2, b"{}")].concat();
        let container = [
            field(1, b"c1"),
            field(2, &pair(b"app", b"web")),
            field(3, b"busybox"),
            field(4, &[field(1, b"io.containerd.runc.v2"), field(2, b"\x0a\x01x")].concat()),
            // An unknown varint field, as a later version may add.
            vec![12 << 3, 7],
            field(10, &pair(b"ext", &any)),
        ]
        .concat();
        let found = metadata(&field(1, &container)).unwrap();
        assert_eq!(found.labels, [("app".to_owned(), "web".to_owned())].into());
        assert_eq!(found.image, "busybox");
        assert_eq!(found.runtime, "io.containerd.runc.v2");
        assert_eq!(found.extensions, [("ext".to_owned(), b"{}".to_vec())].into());
    }

    #[test]
    fn a_truncated_message_is_an_error() {
        assert!(metadata(b"\x0a\xff\xff\xff\xff\x0f").is_err());
    }
}
