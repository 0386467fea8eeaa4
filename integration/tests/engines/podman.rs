//! Tests of Podman alone, with the wrapper as its runtime.

mod infra;
mod install;
mod names;
mod pods;
mod run;
