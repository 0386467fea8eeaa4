//! Tests of what whole files of rules do to containers.

mod both_ways;
mod random;
