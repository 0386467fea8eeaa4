//! `nrid --dry-run`: what plugins would change in the `config.json` of a container, for
//! `nrictl dry-run`.
//!
//! A process of its own beside the `nrid` that runs, so that the latter is neither slowed down nor
//! changed. It reads the configuration and the records from their files, launches instances of the
//! plugins whose policy has `dry_run`, without privileges, and ends them. Start from
//! [`run::dry_run`]. What a dry run has in common with a creation is in
//! [`crate::verb::creation::dry_run`].

mod children;
mod manager;
pub mod run;
mod selection;
pub mod subject;
