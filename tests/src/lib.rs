//! Helpers of the tests that need several crates. The tests are in `tests/tests`, their data in
//! `tests/cases`.

#![deny(unsafe_code)]

pub mod fake_runtime;
pub mod random;
pub mod upstream;
pub mod vectors;
