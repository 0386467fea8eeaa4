//! Setting resources, in an adjustment and in an update alike. Names are those of the protocol.

use nri_api::{opt, proto::*};

/// Sets [`LinuxResources`], whatever they are part of. Setters give back `&mut Self` and can be
/// chained.
pub trait SetResources {
    /// The resources, added if there were none.
    fn resources(&mut self) -> &mut LinuxResources;

    /// Memory limit in bytes. Also limits swap to the same unless that is set; -1 means none.
    fn set_memory_limit(&mut self, bytes: i64) -> &mut Self {
        memory(self).limit = opt(Some(bytes));
        self
    }

    /// Memory below which the container is spared, in bytes.
    fn set_memory_reservation(&mut self, bytes: i64) -> &mut Self {
        memory(self).reservation = opt(Some(bytes));
        self
    }

    /// Limit of memory and swap together in bytes; -1 means none.
    fn set_memory_swap(&mut self, bytes: i64) -> &mut Self {
        memory(self).swap = opt(Some(bytes));
        self
    }

    /// Limit of kernel memory in bytes (cgroup v1).
    fn set_memory_kernel(&mut self, bytes: i64) -> &mut Self {
        memory(self).kernel = opt(Some(bytes));
        self
    }

    /// Limit of TCP buffers in bytes (cgroup v1).
    fn set_memory_kernel_tcp(&mut self, bytes: i64) -> &mut Self {
        memory(self).kernel_tcp = opt(Some(bytes));
        self
    }

    /// Swappiness, 0 to 100 (cgroup v1).
    fn set_memory_swappiness(&mut self, swappiness: u64) -> &mut Self {
        memory(self).swappiness = opt(Some(swappiness));
        self
    }

    /// Whether the container is frozen rather than killed when out of memory (cgroup v1).
    fn set_memory_disable_oom_killer(&mut self, disable: bool) -> &mut Self {
        memory(self).disable_oom_killer = opt(Some(disable));
        self
    }

    /// Whether memory is accounted hierarchically (cgroup v1).
    fn set_memory_use_hierarchy(&mut self, hierarchy: bool) -> &mut Self {
        memory(self).use_hierarchy = opt(Some(hierarchy));
        self
    }

    /// CPU shares.
    fn set_cpu_shares(&mut self, shares: u64) -> &mut Self {
        cpu(self).shares = opt(Some(shares));
        self
    }

    /// CPU time per period in microseconds; -1 means no limit.
    fn set_cpu_quota(&mut self, quota: i64) -> &mut Self {
        cpu(self).quota = opt(Some(quota));
        self
    }

    /// Period of the CPU quota in microseconds.
    fn set_cpu_period(&mut self, period: u64) -> &mut Self {
        cpu(self).period = opt(Some(period));
        self
    }

    /// Realtime CPU time per period in microseconds (cgroup v1).
    fn set_cpu_realtime_runtime(&mut self, runtime: i64) -> &mut Self {
        cpu(self).realtime_runtime = opt(Some(runtime));
        self
    }

    /// Period of the realtime CPU time in microseconds (cgroup v1).
    fn set_cpu_realtime_period(&mut self, period: u64) -> &mut Self {
        cpu(self).realtime_period = opt(Some(period));
        self
    }

    /// CPUs as a list, such as `0-3,8`.
    fn set_cpu_cpus(&mut self, cpus: impl Into<String>) -> &mut Self {
        cpu(self).cpus = cpus.into();
        self
    }

    /// Memory nodes as a list, such as `0,1`.
    fn set_cpu_mems(&mut self, mems: impl Into<String>) -> &mut Self {
        cpu(self).mems = mems.into();
        self
    }

    /// Limit in bytes for one size of huge pages, such as `2MB`.
    fn add_hugepage_limit(&mut self, page_size: impl Into<String>, bytes: u64) -> &mut Self {
        let limit =
            HugepageLimit { page_size: page_size.into(), limit: bytes, ..Default::default() };
        self.resources().hugepage_limits.push(limit);
        self
    }

    /// Class of block I/O; empty for none.
    fn set_blockio_class(&mut self, class: impl Into<String>) -> &mut Self {
        self.resources().blockio_class = opt(Some(class.into()));
        self
    }

    /// Class of RDT; empty for none.
    fn set_rdt_class(&mut self, class: impl Into<String>) -> &mut Self {
        self.resources().rdt_class = opt(Some(class.into()));
        self
    }

    /// A file of the cgroup and its contents (cgroup v2).
    fn add_unified(&mut self, file: impl Into<String>, value: impl Into<String>) -> &mut Self {
        self.resources().unified.insert(file.into(), value.into());
        self
    }

    /// A rule of the device cgroup. Devices that are added have theirs already.
    fn add_device_rule(&mut self, rule: LinuxDeviceCgroup) -> &mut Self {
        self.resources().devices.push(rule);
        self
    }

    /// Limit of processes; 0 or less means none.
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
