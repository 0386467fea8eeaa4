//! Why what an engine keeps elsewhere could not be used, and the bounds of what is read.

use serde::de::DeserializeOwned;

/// A source that was read and says nothing of the container. A reason to log, never one to fail.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// Larger than anything that an engine would write.
    #[error("{what} has {size} bytes, more than {limit}")]
    TooLarge {
        /// What was read.
        what: &'static str,
        /// Its size.
        size: usize,
        /// The largest that is parsed.
        limit: usize,
    },
    /// Not the JSON that it should be.
    #[error("{what}")]
    Json {
        /// What was read.
        what: &'static str,
        /// Why it is not.
        #[source]
        source: serde_json::Error,
    },
    /// Of a version that is not known.
    #[error("{what} has version {found:?}")]
    Version {
        /// What was read.
        what: &'static str,
        /// Its version.
        found: String,
    },
    /// About something else.
    #[error("{what} is that of container {found:?}")]
    Other {
        /// What was read.
        what: &'static str,
        /// Whose it is.
        found: String,
    },
}

/// Largest JSON in an annotation: Kubernetes' limit of all annotations is 256 KiB, and quotes are
/// escaped.
pub(crate) const ANNOTATION: usize = 1 << 20;
/// Largest file or message of one container: its labels and annotations and their engine's own,
/// with a margin.
pub(crate) const ONE: usize = 4 << 20;
/// Largest list of all containers.
pub(crate) const LIST: usize = 16 << 20;

/// Parses at most `limit` bytes. The depth is bounded by `serde_json`, and fields that are not
/// asked for take no memory.
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
