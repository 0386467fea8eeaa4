//! Life cycle of a container after plugins have agreed to its creation. A change is noticed by a
//! verb, our hook, the exit watch, recovery, or the search for vanished containers.
//!
//! Start from [`transition`]: one function per change of status, called from all of these.

pub mod config_restore;
pub mod exit_watch;
pub mod pod;
pub mod reconcile;
pub mod recovery;
pub mod request;
pub mod run_watch;
pub mod shadow;
pub mod transition;
pub mod update;
pub mod vanished;
