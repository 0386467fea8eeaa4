//! Settings: the configuration as `nrid` uses it, and the state directory.

mod last_good;
pub mod load;
pub mod state_dir;
