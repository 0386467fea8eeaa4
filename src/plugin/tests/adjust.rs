//! Runs the tests of the example `adjust`, which are beside what they test.

#[allow(dead_code, unreachable_pub)]
#[path = "../examples/adjust/main.rs"]
mod adjust;
