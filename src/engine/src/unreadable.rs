//! Errors and size limits of parsing data that engines store outside the OCI config.

use serde::de::DeserializeOwned;

/// Data that cannot be used. Callers log the error; it must not fail a container.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The data exceeds the size limit.
    #[error("{what} has {size} bytes, more than {limit}")]
    TooLarge {
        /// Name of the data.
        what: &'static str,
        /// Size of the data in bytes.
        size: usize,
        /// The size limit.
        limit: usize,
    },
    /// The data is not JSON of the expected form.
    #[error("{what}")]
    Json {
        /// Name of the data.
        what: &'static str,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// The data has an unknown version.
    #[error("{what} has version {found:?}")]
    Version {
        /// Name of the data.
        what: &'static str,
        /// The version of the data.
        found: String,
    },
    /// The data belongs to another container.
    #[error("{what} belongs to container {found:?}")]
    Other {
        /// Name of the data.
        what: &'static str,
        /// Id of the other container.
        found: String,
    },
}

/// Size limit of JSON in an annotation. Kubernetes limits all annotations to 256 KiB; escaping of
/// quotes makes the JSON larger.
pub(crate) const MAX_ANNOTATION: usize = 1 << 20;
/// Size limit of a file or message of one container: labels and annotations of user and engine,
/// with a margin.
pub(crate) const MAX_CONTAINER: usize = 4 << 20;
/// Size limit of a list of all containers; some thousand entries fit.
pub(crate) const MAX_LIST: usize = 16 << 20;

/// Parses at most `limit` bytes. `serde_json` bounds the depth, and skipped fields use no memory.
pub(crate) fn parse<T: DeserializeOwned>(
    what: &'static str,
    bytes: &[u8],
    limit: usize,
) -> Result<T, Unreadable> {
    if bytes.len() > limit {
        return Err(Unreadable::TooLarge { what, size: bytes.len(), limit });
    }
    serde_json::from_slice(bytes).map_err(|source| Unreadable::Json { what, source })
}
