//! Setters of resources, for adjustments and updates. The names of the setters follow the protocol.

use nri_api::{opt, proto::*};

/// Setters of [`LinuxResources`]. They return `&mut Self` and can be chained.
pub trait SetResources {
    /// Returns the resources of the message, and adds them if they are missing.
    fn resources(&mut self) -> &mut LinuxResources;

    /// Sets the memory limit in bytes; -1 means unlimited. The limit of memory and swap together
    /// gets the same value, unless [`set_memory_swap`](Self::set_memory_swap) sets it.
    fn set_memory_limit(&mut self, bytes: i64) -> &mut Self {
        memory(self).limit = opt(Some(bytes));
        self
    }

    /// Sets the memory reservation (soft limit) in bytes.
    fn set_memory_reservation(&mut self, bytes: i64) -> &mut Self {
        memory(self).reservation = opt(Some(bytes));
        self
    }

    /// Sets the limit of memory and swap together in bytes; -1 means unlimited.
    fn set_memory_swap(&mut self, bytes: i64) -> &mut Self {
        memory(self).swap = opt(Some(bytes));
        self
    }

    /// Sets the limit of kernel memory in bytes (cgroup v1).
    fn set_memory_kernel(&mut self, bytes: i64) -> &mut Self {
        memory(self).kernel = opt(Some(bytes));
        self
    }

    /// Sets the limit of kernel TCP memory in bytes (cgroup v1).
    fn set_memory_kernel_tcp(&mut self, bytes: i64) -> &mut Self {
        memory(self).kernel_tcp = opt(Some(bytes));
        self
    }

    /// Sets the swappiness, 0 to 100 (cgroup v1).
    fn set_memory_swappiness(&mut self, swappiness: u64) -> &mut Self {
        memory(self).swappiness = opt(Some(swappiness));
        self
    }

    /// Sets whether the OOM killer is disabled: processes wait for memory instead (cgroup v1).
    fn set_memory_disable_oom_killer(&mut self, disable: bool) -> &mut Self {
        memory(self).disable_oom_killer = opt(Some(disable));
        self
    }

    /// Sets whether memory is accounted hierarchically (cgroup v1).
    fn set_memory_use_hierarchy(&mut self, hierarchy: bool) -> &mut Self {
        memory(self).use_hierarchy = opt(Some(hierarchy));
        self
    }

    /// Sets the CPU shares, 2 to 262144; the default is 1024.
    fn set_cpu_shares(&mut self, shares: u64) -> &mut Self {
        cpu(self).shares = opt(Some(shares));
        self
    }

    /// Sets the CPU time per period in microseconds; -1 means unlimited.
    fn set_cpu_quota(&mut self, quota: i64) -> &mut Self {
        cpu(self).quota = opt(Some(quota));
        self
    }

    /// Sets the period of the CPU quota in microseconds.
    fn set_cpu_period(&mut self, period: u64) -> &mut Self {
        cpu(self).period = opt(Some(period));
        self
    }

    /// Sets the realtime CPU time per period in microseconds (cgroup v1).
    fn set_cpu_realtime_runtime(&mut self, runtime: i64) -> &mut Self {
        cpu(self).realtime_runtime = opt(Some(runtime));
        self
    }

    /// Sets the period of the realtime CPU time in microseconds (cgroup v1).
    fn set_cpu_realtime_period(&mut self, period: u64) -> &mut Self {
        cpu(self).realtime_period = opt(Some(period));
        self
    }

    /// Sets the CPUs, a list such as `0-3,8`.
    fn set_cpu_cpus(&mut self, cpus: impl Into<String>) -> &mut Self {
        cpu(self).cpus = cpus.into();
        self
    }

    /// Sets the memory nodes, a list such as `0,1`.
    fn set_cpu_mems(&mut self, mems: impl Into<String>) -> &mut Self {
        cpu(self).mems = mems.into();
        self
    }

    /// Adds a limit in bytes for huge pages of one size, such as `2MB`.
    fn add_hugepage_limit(&mut self, page_size: impl Into<String>, bytes: u64) -> &mut Self {
        let limit =
            HugepageLimit { page_size: page_size.into(), limit: bytes, ..Default::default() };
        self.resources().hugepage_limits.push(limit);
        self
    }

    /// Sets the block I/O class; an empty name removes the class.
    fn set_blockio_class(&mut self, class: impl Into<String>) -> &mut Self {
        self.resources().blockio_class = opt(Some(class.into()));
        self
    }

    /// Sets the RDT class; an empty name removes the class.
    fn set_rdt_class(&mut self, class: impl Into<String>) -> &mut Self {
        self.resources().rdt_class = opt(Some(class.into()));
        self
    }

    /// Sets a file of the cgroup, such as `memory.high`, to a value (cgroup v2).
    fn add_unified(&mut self, file: impl Into<String>, value: impl Into<String>) -> &mut Self {
        self.resources().unified.insert(file.into(), value.into());
        self
    }

    /// Adds a rule of the device cgroup. A device that
    /// [`Adjustment::add_device`](crate::Adjustment::add_device) adds needs no further rule.
    /// Updates must not have rules.
    fn add_device_rule(&mut self, rule: LinuxDeviceCgroup) -> &mut Self {
        self.resources().devices.push(rule);
        self
    }

    /// Sets the limit of processes; 0 or less means unlimited.
    fn set_pids_limit(&mut self, limit: i64) -> &mut Self {
        self.resources().pids.mut_or_insert_default().limit = limit;
        self
    }
}

impl SetResources for LinuxResources {
    fn resources(&mut self) -> &mut LinuxResources {
        self
    }
}

fn memory<R: SetResources + ?Sized>(r: &mut R) -> &mut LinuxMemory {
    r.resources().memory.mut_or_insert_default()
}

fn cpu<R: SetResources + ?Sized>(r: &mut R) -> &mut LinuxCPU {
    r.resources().cpu.mut_or_insert_default()
}
