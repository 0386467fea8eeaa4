//! Plans of file changes: decided first (`plan`, `edit`, `uninstall`), then performed (`apply`),
//! all or nothing.

pub(super) mod apply;
mod edit;
mod known_runtimes;
pub(super) mod manifest;
pub(super) mod new_file;
pub(super) mod own_values;
pub(super) mod plan;
mod recognize;
pub(super) mod report;
pub(super) mod uninstall;
