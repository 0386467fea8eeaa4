//! `nrictl install` and `uninstall` on images: directories with the configuration files of
//! real-world machines.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests, which clippy takes for ordinary code; a skipped test says why"
)]

mod absent;
mod containerd;
mod containerd_mixed;
mod crio;
mod defaults;
mod docker;
mod docker_uninstall;
mod earlier;
mod image;
mod plugin_policy;
mod podman;
mod real_containerd;
mod special_files;
mod uninstall;
mod user;
