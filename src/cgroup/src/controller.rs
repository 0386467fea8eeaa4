//! The controllers that resources of a container need.

/// A controller, by its name in version 1; `io` of version 2 is [`Controller::Blkio`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the names say it
pub enum Controller {
    Cpu,
    Cpuset,
    Memory,
    Pids,
    Hugetlb,
    Blkio,
    Devices,
    Freezer,
}

impl Controller {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Cpu,
        Self::Cpuset,
        Self::Memory,
        Self::Pids,
        Self::Hugetlb,
        Self::Blkio,
        Self::Devices,
        Self::Freezer,
    ];

    /// Its name among the mount options of version 1.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cpuset => "cpuset",
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Hugetlb => "hugetlb",
            Self::Blkio => "blkio",
            Self::Devices => "devices",
            Self::Freezer => "freezer",
        }
    }
}
