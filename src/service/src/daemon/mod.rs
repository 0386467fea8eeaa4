//! The start and the end of `nrid`: by systemd or in the background, in the namespaces of the host,
//! and as the successor of another program.

pub mod attributes;
pub mod background;
pub mod handover;
pub mod idle;
pub mod life;
pub mod lock;
pub mod namespaces;
pub mod presence;
pub mod ready;
pub mod start;
pub mod systemd;
pub mod validate;
