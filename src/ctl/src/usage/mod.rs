//! What containers use: `nrictl stats` and `top`. `nrid` only names the cgroups, whose files are
//! read here.

mod cgroup;
mod load;
mod pressure;
mod stats;
mod terminal;
mod top;

pub(crate) use stats::Stats;
pub(crate) use top::Top;
