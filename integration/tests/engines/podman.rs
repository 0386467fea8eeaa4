//! Tests of features that only Podman has, with the wrapper as its runtime.

mod checkpoint;
mod infra;
mod install;
mod names;
mod pods;
mod run;
