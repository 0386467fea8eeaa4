//! Tests of the configuration of a running `nrid`: reloads, and what outlives the file.

mod published;
mod reload;
