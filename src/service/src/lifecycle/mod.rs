//! Life cycle of a container after plugins have agreed to its creation. A verb, our hook, the exit
//! watch, recovery, or the search for vanished containers detects a change of status.
//!
//! Start from [`transition`]: one function per change of status, called by whatever detects it.

pub mod audit;
mod container_manager;
pub mod creation;
pub mod exit_watch;
pub mod missed_start;
pub mod pod;
mod pod_process;
pub mod reconcile;
pub mod recovery;
pub mod request;
pub mod run_watch;
pub mod runtime_failure;
pub mod shadow;
pub mod transition;
pub mod update;
pub mod vanished;
