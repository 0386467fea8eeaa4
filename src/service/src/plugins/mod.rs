//! The plugins: their configuration, what they request for existing containers, and the plugins and
//! the socket that `nrid` shares with engines' own NRI. `nri-adaptation` calls them.

pub mod config;
mod description;
pub mod effects;
pub mod eviction;
pub mod launch;
pub mod requests;
pub mod shared;
pub mod shared_socket;
pub mod snapshot;
pub mod update;
pub mod without_effect;
