//! What is combined: services, neighbours, and ways to keep them apart.

/// A value that the command line and the raw figures have by its name.
pub(crate) trait Named: Copy + PartialEq + 'static {
    /// All values, in the order of the report.
    const ALL: &'static [Self];

    fn name(self) -> String;

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|value| value.name() == name)
    }
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    /// A request every 2 ms that takes 13 % of a CPU (`c/service.c`).
    Light,
    /// The same with 50 %.
    Heavy,
    /// redis-server with redis-benchmark.
    Redis,
}

impl Service {
    /// CPU time of a request in milliseconds; `None` for redis.
    pub(crate) fn request(self) -> Option<f64> {
        match self {
            Self::Light => Some(0.26),
            Self::Heavy => Some(1.0),
            Self::Redis => None,
        }
    }
}

impl Named for Service {
    const ALL: &'static [Self] = &[Self::Light, Self::Heavy, Self::Redis];

    fn name(self) -> String {
        match self {
            Self::Light => "light",
            Self::Heavy => "heavy",
            Self::Redis => "redis",
        }
        .to_owned()
    }
}

/// The work of neighbours (`c/neighbour.c`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Compute,
    Memory,
    Disk,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
            Self::Disk => "disk",
        }
    }
}

/// Containers beside the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Neighbour {
    pub(crate) kind: Kind,
    pub(crate) is_heavy: bool,
}

impl Neighbour {
    pub(crate) fn containers(self) -> usize {
        if self.is_heavy { 8 } else { 1 }
    }

    /// Threads of each container.
    pub(crate) fn threads(self) -> usize {
        if self.is_heavy { 2 } else { 4 }
    }
}

impl Named for Neighbour {
    const ALL: &'static [Self] = &[
        Self { kind: Kind::Compute, is_heavy: false },
        Self { kind: Kind::Compute, is_heavy: true },
        Self { kind: Kind::Memory, is_heavy: false },
        Self { kind: Kind::Memory, is_heavy: true },
        Self { kind: Kind::Disk, is_heavy: false },
        Self { kind: Kind::Disk, is_heavy: true },
    ];

    fn name(self) -> String {
        format!("{}-{}", self.kind.name(), if self.is_heavy { "heavy" } else { "light" })
    }
}

/// What keeps the service and its neighbours apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// No neighbours.
    Alone,
    /// Containers without options.
    Nothing,
    /// `--cpus` of the neighbours leaves the service a CPU.
    Cpus,
    /// `--cpu-shares` 10240 and 2.
    CpuShares,
    /// `--cpuset-cpus`: a CPU for the service, the others for its neighbours.
    CpusetCpus,
    /// The same, and [`Way::Parent`].
    CpusetParent,
    /// The service in a parent cgroup of its own, at the root and with the largest weight.
    Parent,
    /// [`Way::Parent`], and the neighbours in a parent of their own with `cpu.idle`.
    ParentIdle,
    /// The same, and the service has a CPU of its own, which its neighbours use, too.
    CpusetIdle,
    /// The plugin `topology`: neighbours of an idle class.
    TopologyIdle,
    /// The same, and an exclusive CPU for the service.
    Topology,
    /// The plugin `rules`: the weights of [`Way::CpuShares`] by label.
    Rules,
    /// The same processes on the CPUs of [`Way::CpusetCpus`] without containers.
    Floor,
    /// The same again: how much the floor itself varies.
    FloorAgain,
}

impl Way {
    /// Ways that others are compared with, and that are measured always.
    pub(crate) const BASES: [Self; 3] = [Self::Nothing, Self::Floor, Self::FloorAgain];

    /// Whether the way is measured if nothing is selected.
    pub(crate) fn is_default(self) -> bool {
        !self.has_parent()
    }

    /// Whether the service has a parent cgroup of its own.
    pub(crate) fn has_parent(self) -> bool {
        matches!(self, Self::CpusetParent | Self::Parent | Self::ParentIdle | Self::CpusetIdle)
    }

    /// Whether the neighbours have a parent cgroup of their own that is idle.
    pub(crate) fn is_idle(self) -> bool {
        matches!(self, Self::ParentIdle | Self::CpusetIdle)
    }

    pub(crate) fn is_pinned(self) -> bool {
        matches!(self, Self::Floor | Self::FloorAgain)
    }

    /// Name in the report.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Nothing => "nothing done",
            Self::Cpus => "`--cpus`",
            Self::CpuShares => "`--cpu-shares`",
            Self::CpusetCpus => "`--cpuset-cpus`",
            Self::CpusetParent => "`--cpuset-cpus`, own parent",
            Self::Parent => "own parent",
            Self::ParentIdle => "own parent, neighbours idle",
            Self::CpusetIdle => "the same, `--cpuset-cpus` of the service",
            Self::TopologyIdle => "`topology`, idle class",
            Self::Topology => "`topology`, idle class and exclusive CPU",
            Self::Rules => "`rules`",
            Self::Floor => "floor: `taskset`",
            Self::FloorAgain => "floor again",
        }
    }
}

impl Named for Way {
    const ALL: &'static [Self] = &[
        Self::Alone,
        Self::Nothing,
        Self::Cpus,
        Self::CpuShares,
        Self::CpusetCpus,
        Self::CpusetParent,
        Self::Parent,
        Self::ParentIdle,
        Self::CpusetIdle,
        Self::TopologyIdle,
        Self::Topology,
        Self::Rules,
        Self::Floor,
        Self::FloorAgain,
    ];

    fn name(self) -> String {
        match self {
            Self::Alone => "alone",
            Self::Nothing => "nothing",
            Self::Cpus => "cpus",
            Self::CpuShares => "cpu-shares",
            Self::CpusetCpus => "cpuset-cpus",
            Self::CpusetParent => "cpuset-parent",
            Self::Parent => "parent",
            Self::ParentIdle => "parent-idle",
            Self::CpusetIdle => "cpuset-idle",
            Self::TopologyIdle => "topology-idle",
            Self::Topology => "topology",
            Self::Rules => "rules",
            Self::Floor => "floor",
            Self::FloorAgain => "floor-again",
        }
        .to_owned()
    }
}

/// A service beside neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) service: Service,
    pub(crate) neighbour: Neighbour,
}
