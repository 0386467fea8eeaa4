//! What is particular to Podman, with the wrapper as its runtime.

mod infra;
mod install;
mod names;
mod pods;
mod run;
