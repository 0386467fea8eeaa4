//! [`ApplyContext`]: facts about the host that adjustments depend on.

use crate::cdi::{edits::CdiEdits, error::CdiError};
use serde_json::Value;
use std::fmt;

/// Lookups on the host. The default finds nothing, so adjustments that depend on the host are
/// refused; its kernel limits swap.
#[derive(Clone, Copy)]
pub struct ApplyContext<'a> {
    /// Returns the `linux.resources.blockIO` object of a block I/O class; see
    /// [`BlockIoClasses`](crate::BlockIoClasses).
    pub blockio: &'a dyn Fn(&str) -> Option<Value>,
    /// Returns the `linux.intelRdt` object of an RDT class; see [`RdtClasses`](crate::RdtClasses).
    pub rdt: &'a dyn Fn(&str) -> Option<Value>,
    /// Finds the edits of CDI devices; see [`cdi::CdiRegistry`](crate::cdi::CdiRegistry).
    pub cdi: &'a dyn CdiResolver,
    /// Returns the device node at a path of the host, without following symbolic links. The node
    /// supplies the type, numbers and mode that CDI edits omit.
    pub device: &'a dyn Fn(&str) -> Option<HostDevice>,
    /// Returns the propagation of the mount that holds a path of the host.
    pub propagation: &'a dyn Fn(&str) -> Option<Propagation>,
    /// Returns whether the kernel limits swap.
    pub swap_accounting: &'a dyn Fn() -> bool,
}

impl Default for ApplyContext<'_> {
    fn default() -> Self {
        Self {
            blockio: &|_| None,
            rdt: &|_| None,
            cdi: &NoCdi,
            device: &|_| None,
            propagation: &|_| None,
            swap_accounting: &|| true,
        }
    }
}

impl fmt::Debug for ApplyContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApplyContext").finish_non_exhaustive()
    }
}

/// Finds CDI devices.
pub trait CdiResolver {
    /// Returns the edits of the devices with these fully qualified names, in the order in which
    /// they are applied.
    fn resolve(&self, names: &[&str]) -> Result<Vec<CdiEdits>, CdiError>;
}

struct NoCdi;

impl CdiResolver for NoCdi {
    fn resolve(&self, names: &[&str]) -> Result<Vec<CdiEdits>, CdiError> {
        Err(CdiError::Unresolvable { names: names.iter().map(|&n| n.to_owned()).collect() })
    }
}

/// A device node of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostDevice {
    /// Its kind.
    pub kind: HostDeviceKind,
    /// Major number; no meaning for a FIFO.
    pub major: i64,
    /// Minor number; no meaning for a FIFO.
    pub minor: i64,
    /// Permission bits.
    pub mode: u32,
}

/// Kind of a device node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostDeviceKind {
    /// Block device.
    Block,
    /// Character device.
    Char,
    /// Named pipe.
    Fifo,
}

/// Propagation of a mount, from the optional fields of `/proc/PID/mountinfo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// Neither `shared:` nor `master:`.
    Private,
    /// `shared:`, whether or not it is a slave as well.
    Shared,
    /// `master:` alone.
    Slave,
}

impl fmt::Display for Propagation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Private => "private",
            Self::Shared => "shared",
            Self::Slave => "slave",
        })
    }
}
