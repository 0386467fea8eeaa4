//! What happens to a container after its creation was agreed on, whoever notices it.

pub mod events;
pub mod exit_watch;
pub mod oom;
pub mod recovery;
pub mod vanished;
