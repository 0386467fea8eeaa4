//! Reads sizes, see [`nri_values::parse_size`]. The letters `K`, `M`, `G` and `T` are those of
//! Kubernetes, powers of 1000.

use nri_values::{Letters, parse_size};
use serde::{
    Deserializer,
    de::{Error, Unexpected, Visitor},
};
use std::fmt;

/// Reads a number of bytes, or a size with a unit.
pub(crate) fn bytes<'de, D: Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
    struct Bytes;
    impl Visitor<'_> for Bytes {
        type Value = u64;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a size such as \"512MiB\", or a number of bytes")
        }
        fn visit_i64<E: Error>(self, n: i64) -> Result<u64, E> {
            u64::try_from(n).map_err(|_| E::invalid_value(Unexpected::Signed(n), &self))
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
            parse_size(text, Letters::Decimal).map_err(E::custom)
        }
    }
    d.deserialize_any(Bytes)
}

/// Reads a number of MiB, or a size with a unit that is one.
pub(crate) fn mebibytes<'de, D: Deserializer<'de>>(d: D) -> Result<u16, D::Error> {
    struct Mebibytes;
    impl Visitor<'_> for Mebibytes {
        type Value = u16;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let most = u16::MAX;
            write!(f, "a whole number of MiB up to {most}, such as 64 or \"64MiB\"")
        }
        fn visit_i64<E: Error>(self, n: i64) -> Result<u16, E> {
            u16::try_from(n).map_err(|_| E::invalid_value(Unexpected::Signed(n), &self))
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<u16, E> {
            let bytes = parse_size(text, Letters::Decimal).map_err(E::custom)?;
            let whole = (bytes % (1 << 20) == 0).then(|| u16::try_from(bytes >> 20).ok()).flatten();
            whole.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
        }
    }
    d.deserialize_any(Mebibytes)
}
