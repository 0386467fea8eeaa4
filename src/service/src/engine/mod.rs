//! The container engine: its built-in NRI, and the names and pods that only its API or files have.

pub mod containerd;
pub mod docker_names;
pub mod engines;
pub mod grpc;
pub mod libpod;
pub mod names;
pub mod own_nri;
