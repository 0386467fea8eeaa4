//! The process `nrid`: its start and end, the next one, what it inherits, records that cannot be
//! written, many requests at once.

mod flood;
mod host;
mod next_nrid;
mod nrid_process;
mod sandboxes;
mod surroundings;
mod units;
mod unwritable_records;
