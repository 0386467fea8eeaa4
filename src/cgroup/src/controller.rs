//! Cgroup controllers.

/// A controller, named as in cgroup v1; `io` of cgroup v2 is [`Controller::Blkio`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // variants are the kernel's controller names
pub enum Controller {
    Cpu,
    /// Usage only; it has no fields. cgroup v2 has it in `cpu`.
    Cpuacct,
    Cpuset,
    Memory,
    Pids,
    Hugetlb,
    Blkio,
    Devices,
    Freezer,
}

impl Controller {
    /// All controllers.
    pub const ALL: [Self; 9] = [
        Self::Cpu,
        Self::Cpuacct,
        Self::Cpuset,
        Self::Memory,
        Self::Pids,
        Self::Hugetlb,
        Self::Blkio,
        Self::Devices,
        Self::Freezer,
    ];

    /// Name of the controller among the mount options of cgroup v1.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cpuacct => "cpuacct",
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
