//! Drivers: how containers of the runtime under test are created, started, updated, stopped and
//! removed. A driver knows an engine's command line, but nothing of NRI.

mod call;
mod cri;
mod docker;
mod oci;
mod script;
mod verbs;

pub use cri::Cri;
pub use docker::Docker;
pub use oci::Oci;
pub use script::Script;
pub use verbs::{Driver, Failure, Wanted};
