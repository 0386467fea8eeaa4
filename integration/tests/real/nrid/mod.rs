//! Tests of the process `nrid`: its start and end, what it inherits from its caller, the next
//! `nrid` after it was killed, records that cannot be written, many concurrent requests, wrappers
//! that are stopped, facts about containers.

mod facts;
mod flood;
mod followed;
mod host;
mod next_nrid;
mod nrid_process;
mod sandboxes;
mod stopped_wrappers;
mod surroundings;
mod units;
mod unwritable_records;
mod usage;
