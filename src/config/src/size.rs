//! Sizes of files in bytes.

use serde::{Deserialize, Deserializer, de::Error};

/// Error message about a size of 0, by which [`is_no_size`] finds it.
const NO_SIZE: &str = "0 is not a size: no line would be kept";

/// Reads a number of bytes, which is not 0.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
    match u64::deserialize(d)? {
        0 => Err(D::Error::custom(NO_SIZE)),
        size => Ok(size),
    }
}

/// Whether `message` is the error of [`deserialize`] about 0. The text is compared, since errors
/// that pass through serde have no type.
pub(crate) fn is_no_size(message: &str) -> bool {
    message == NO_SIZE
}
