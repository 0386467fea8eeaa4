//! Unit tests of the example `adjust`, which are in its modules.

#[allow(dead_code, unreachable_pub)]
#[path = "../examples/adjust/main.rs"]
mod adjust;
