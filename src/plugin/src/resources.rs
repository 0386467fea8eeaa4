//! Setters of resources, for adjustments and updates. The names of the setters follow the protocol.

use crate::written::WrittenFields;
use nri_api::{opt, proto::*};

/// What has resources: an adjustment or an update.
pub trait HasResources {
    /// Returns the resources, which are added if they are missing, and what was written.
    fn parts(&mut self) -> (&mut LinuxResources, &mut WrittenFields);
}

/// Setters of [`LinuxResources`]. They return `&mut Self` and can be chained. Each field and each
/// key is set once; a second time is a [`Mistake`](crate::Mistake).
///
/// The protocol has no override of resources: what an earlier plugin has set, another plugin cannot
/// set.
///
/// The trait is implemented by [`Adjustment`](crate::Adjustment) and [`Update`](crate::Update), and
/// cannot be implemented by others.
pub trait SetResources: HasResources {
    /// Sets the memory limit in bytes; -1 means unlimited. The limit of memory and swap together
    /// gets the same value, unless [`set_memory_swap`](Self::set_memory_swap) sets it.
    fn set_memory_limit(&mut self, bytes: i64) -> &mut Self {
        memory(self, Field::MemLimit).limit = opt(Some(bytes));
        self
    }

    /// Sets the memory reservation (soft limit) in bytes.
    fn set_memory_reservation(&mut self, bytes: i64) -> &mut Self {
        memory(self, Field::MemReservation).reservation = opt(Some(bytes));
        self
    }

    /// Sets the limit of memory and swap together in bytes; -1 means unlimited.
    fn set_memory_swap(&mut self, bytes: i64) -> &mut Self {
        memory(self, Field::MemSwapLimit).swap = opt(Some(bytes));
        self
    }

    /// Sets the limit of kernel memory in bytes (cgroup v1).
    fn set_memory_kernel(&mut self, bytes: i64) -> &mut Self {
        memory(self, Field::MemKernelLimit).kernel = opt(Some(bytes));
        self
    }

    /// Sets the limit of kernel TCP memory in bytes (cgroup v1).
    fn set_memory_kernel_tcp(&mut self, bytes: i64) -> &mut Self {
        memory(self, Field::MemTCPLimit).kernel_tcp = opt(Some(bytes));
        self
    }

    /// Sets the swappiness, 0 to 100 (cgroup v1).
    fn set_memory_swappiness(&mut self, swappiness: u64) -> &mut Self {
        memory(self, Field::MemSwappiness).swappiness = opt(Some(swappiness));
        self
    }

    /// Sets whether the OOM killer is disabled: processes wait for memory instead (cgroup v1).
    fn set_memory_disable_oom_killer(&mut self, disable: bool) -> &mut Self {
        memory(self, Field::MemDisableOomKiller).disable_oom_killer = opt(Some(disable));
        self
    }

    /// Sets whether memory is accounted hierarchically (cgroup v1).
    fn set_memory_use_hierarchy(&mut self, hierarchy: bool) -> &mut Self {
        memory(self, Field::MemUseHierarchy).use_hierarchy = opt(Some(hierarchy));
        self
    }

    /// Sets the CPU shares, 2 to 262144; the default is 1024.
    fn set_cpu_shares(&mut self, shares: u64) -> &mut Self {
        cpu(self, Field::CPUShares).shares = opt(Some(shares));
        self
    }

    /// Sets the CPU time per period in microseconds; -1 means unlimited.
    fn set_cpu_quota(&mut self, quota: i64) -> &mut Self {
        cpu(self, Field::CPUQuota).quota = opt(Some(quota));
        self
    }

    /// Sets the period of the CPU quota in microseconds.
    fn set_cpu_period(&mut self, period: u64) -> &mut Self {
        cpu(self, Field::CPUPeriod).period = opt(Some(period));
        self
    }

    /// Sets the realtime CPU time per period in microseconds (cgroup v1).
    fn set_cpu_realtime_runtime(&mut self, runtime: i64) -> &mut Self {
        cpu(self, Field::CPURealtimeRuntime).realtime_runtime = opt(Some(runtime));
        self
    }

    /// Sets the period of the realtime CPU time in microseconds (cgroup v1).
    fn set_cpu_realtime_period(&mut self, period: u64) -> &mut Self {
        cpu(self, Field::CPURealtimePeriod).realtime_period = opt(Some(period));
        self
    }

    /// Sets the CPUs, a list such as `0-3,8`.
    fn set_cpu_cpus(&mut self, cpus: impl Into<String>) -> &mut Self {
        cpu(self, Field::CPUSetCPUs).cpus = cpus.into();
        self
    }

    /// Sets the memory nodes, a list such as `0,1`.
    fn set_cpu_mems(&mut self, mems: impl Into<String>) -> &mut Self {
        cpu(self, Field::CPUSetMems).mems = mems.into();
        self
    }

    /// Adds a limit in bytes for huge pages of one size, such as `2MB`.
    fn add_hugepage_limit(&mut self, page_size: impl Into<String>, bytes: u64) -> &mut Self {
        let limit =
            HugepageLimit { page_size: page_size.into(), limit: bytes, ..Default::default() };
        entry(self, Field::HugepageLimits, &limit.page_size.clone()).hugepage_limits.push(limit);
        self
    }

    /// Sets the block I/O class; an empty name removes the class.
    fn set_blockio_class(&mut self, class: impl Into<String>) -> &mut Self {
        field(self, Field::BlockioClass).blockio_class = opt(Some(class.into()));
        self
    }

    /// Sets the RDT class; an empty name removes the class.
    fn set_rdt_class(&mut self, class: impl Into<String>) -> &mut Self {
        field(self, Field::RdtClass).rdt_class = opt(Some(class.into()));
        self
    }

    /// Sets a file of the cgroup, such as `memory.high`, to a value (cgroup v2). `nrid` sets
    /// `cpu.idle` in cgroup v1, too.
    fn add_unified(&mut self, file: impl Into<String>, value: impl Into<String>) -> &mut Self {
        let file = file.into();
        entry(self, Field::CgroupsUnified, &file).unified.insert(file, value.into());
        self
    }

    /// Adds a rule of the device cgroup. A device that
    /// [`Adjustment::add_device`](crate::Adjustment::add_device) adds needs no further rule.
    /// Updates must not have rules.
    fn add_device_rule(&mut self, rule: LinuxDeviceCgroup) -> &mut Self {
        self.parts().0.devices.push(rule);
        self
    }

    /// Sets the limit of processes; 0 or less means unlimited.
    fn set_pids_limit(&mut self, limit: i64) -> &mut Self {
        field(self, Field::PidsLimit).pids.mut_or_insert_default().limit = limit;
        self
    }
}

impl<R: HasResources> SetResources for R {}

fn field<R: HasResources + ?Sized>(r: &mut R, field: Field) -> &mut LinuxResources {
    let (resources, written) = r.parts();
    written.field(field);
    resources
}

fn entry<'a, R: HasResources + ?Sized>(
    r: &'a mut R,
    field: Field,
    key: &str,
) -> &'a mut LinuxResources {
    let (resources, written) = r.parts();
    written.entry(field, key);
    resources
}

fn memory<R: HasResources + ?Sized>(r: &mut R, name: Field) -> &mut LinuxMemory {
    field(r, name).memory.mut_or_insert_default()
}

fn cpu<R: HasResources + ?Sized>(r: &mut R, name: Field) -> &mut LinuxCPU {
    field(r, name).cpu.mut_or_insert_default()
}
