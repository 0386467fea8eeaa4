//! Service code that `ttrpc-codegen` generates from the protocol (`tests/generated.rs`).

pub(crate) use nri_api::proto as nri;

#[allow(missing_docs, unreachable_pub, rust_2018_idioms, unsafe_code)]
#[allow(clippy::all, clippy::unwrap_used)]
#[rustfmt::skip]
pub(crate) mod nri_ttrpc;
