//! Resources: `linux.resources` of the OCI config (a file per controller), classes of block I/O and
//! RDT, and the resources objects that `update --resources` takes.

pub(crate) mod blockio;
pub(crate) mod blockio_classes;
pub(crate) mod class;
pub(crate) mod controller;
pub(crate) mod convert;
pub(crate) mod cpu;
pub(crate) mod device_rules;
pub(crate) mod diff;
pub(crate) mod hugepages;
pub(crate) mod idle;
pub(crate) mod memory;
pub(crate) mod pids;
pub(crate) mod rdt_class;
pub(crate) mod rdt_classes;
pub(crate) mod swap;
pub(crate) mod unified;
