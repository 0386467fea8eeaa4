//! Attributes that a process inherits from its parent, such as limits and priorities. `nrid` serves
//! all engines, and its plugins inherit its attributes. So it does not keep the attributes of the
//! engine that happened to start it, but sets the values of process 1, as a service of the host has
//! them. Namespaces are in [`super::namespaces`]. Start from [`reset`].
//!
//! What cannot be reset is listed in the status. A systemd unit sets what its administrator wants,
//! so an `nrid` in the foreground resets only the handling of signals.

use crate::{
    daemon::namespaces::{self, START_AGAIN, START_AS_USER},
    host::{proc, sys},
};
use nri_control::Inherited;
use procfs::process::{Limit, LimitValue};
use rustix::{
    process::{
        Gid, Resource, Rlimit, geteuid, getgroups, getrlimit, setpriority_process, setrlimit,
    },
    thread::{
        CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities,
        capabilities_secure_bits, clear_ambient_capability_set, set_capabilities,
        set_capabilities_secure_bits, set_current_timer_slack, set_thread_groups,
        set_thread_res_gid,
    },
};
use std::{fs, io, num::NonZeroU64};

/// Timer slack of process 1 in nanoseconds. The kernel's default of a process is the value of its
/// parent.
const TIMER_SLACK: Option<NonZeroU64> = NonZeroU64::new(50_000);

/// Soft limit of open files that services have: programs that use select(2) cannot use more
/// descriptors. Process 1 itself often has more.
const SOFT_OPEN_FILES: u64 = 1024;

/// Resets the attributes of this process, and returns those that cannot be reset. Before the call,
/// the process must leave the cgroup of the process that started it, because its cpuset limits the
/// CPUs, and must not start a second thread.
pub fn reset() -> Vec<Inherited> {
    let resets: [(&str, io::Result<()>); 12] = [
        ("oom_score_adj", reset_oom_score()),
        ("the CPU affinity", sys::allow_all_cpus()),
        ("the scheduling policy", sys::use_default_scheduler()),
        ("the nice value", setpriority_process(None, 0).map_err(io::Error::from)),
        ("the I/O priority", sys::use_default_io_priority()),
        ("the memory policy", sys::use_default_memory_policy()),
        ("transparent huge pages", sys::allow_huge_pages()),
        ("the personality", sys::use_default_personality()),
        ("the core dump filter", reset_core_dump_filter()),
        ("groups", reset_groups()),
        ("inheritable capabilities", reset_inheritable_capabilities()),
        ("the timer slack", set_current_timer_slack(TIMER_SLACK).map_err(io::Error::from)),
    ];
    let mut kept: Vec<_> = resets
        .into_iter()
        .filter_map(|(name, result)| Some((name, result.err()?)))
        .map(|(name, error)| inherited(format!("{name} cannot be reset: {error}"), SAME_VALUE))
        .collect();
    kept.extend(reset_limits());
    if namespaces::is_of_user() {
        // A user has limits and values of their own, which need not be those of process 1.
        kept.clear();
        kept.extend(restrictions());
        kept.iter_mut().for_each(|i| START_AS_USER.clone_into(&mut i.remedy));
    } else {
        kept.extend(restrictions());
    }
    kept
}

const SAME_VALUE: &str = "plugins and the runtimes that nrid calls have the value of the process \
     that started nrid";

fn inherited(what: String, effect: &str) -> Inherited {
    Inherited { what, effect: effect.to_owned(), remedy: START_AGAIN.to_owned() }
}

/// Sets the score of process 1, which a service has by default. After the score was raised,
/// a process without capabilities may return to this value.
fn reset_oom_score() -> io::Result<()> {
    let score = fs::read_to_string("/proc/1/oom_score_adj").unwrap_or_else(|_| "0".to_owned());
    fs::write("/proc/self/oom_score_adj", score.trim())
}

/// Sets the kinds of memory in a core dump to those of process 1.
fn reset_core_dump_filter() -> io::Result<()> {
    // Kernels without core dumps have no such file.
    let Ok(filter) = fs::read_to_string("/proc/1/coredump_filter") else { return Ok(()) };
    fs::write("/proc/self/coredump_filter", format!("0x{}", filter.trim()))
}

/// Sets the groups of process 1, if this process is root in the user namespace of process 1. A
/// rootless engine keeps its groups.
fn reset_groups() -> io::Result<()> {
    if !geteuid().is_root() || !namespaces::is_same("user").unwrap_or(false) {
        return Ok(());
    }
    let of_host = proc::text("/proc/1/status");
    let numbers = |name| field(&of_host, name).unwrap_or_default().split_whitespace();
    let groups = |name| numbers(name).filter_map(|n| n.parse().ok()).map(Gid::from_raw);
    let wanted: Vec<_> = groups("Groups").collect();
    // Only a change needs the capability.
    if getgroups()? != wanted {
        set_thread_groups(&wanted)?;
    }
    let group = groups("Gid").next();
    set_thread_res_gid(group, group, group).map_err(Into::into)
}

/// Removes the capabilities that programs of another user would inherit. Root needs none of them.
fn reset_inheritable_capabilities() -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    clear_ambient_capability_set()?;
    let own = capabilities(None)?;
    let inheritable = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { inheritable, ..own }).map_err(Into::into)
}

/// Sets the limits of process 1. Higher hard limits stay. Returns the hard limits that are lower
/// and cannot be raised.
fn reset_limits() -> Vec<Inherited> {
    let Ok(of_host) = procfs::process::Process::new(1).and_then(|process| process.limits()) else {
        return Vec::new();
    };
    let table: [(&str, Resource, &Limit); 16] = [
        ("address space", Resource::As, &of_host.max_address_space),
        ("core file size", Resource::Core, &of_host.max_core_file_size),
        ("CPU time", Resource::Cpu, &of_host.max_cpu_time),
        ("data size", Resource::Data, &of_host.max_data_size),
        ("file size", Resource::Fsize, &of_host.max_file_size),
        ("file locks", Resource::Locks, &of_host.max_file_locks),
        ("locked memory", Resource::Memlock, &of_host.max_locked_memory),
        ("message queues", Resource::Msgqueue, &of_host.max_msgqueue_size),
        ("nice priority", Resource::Nice, &of_host.max_nice_priority),
        ("open files", Resource::Nofile, &of_host.max_open_files),
        ("processes", Resource::Nproc, &of_host.max_processes),
        ("resident set", Resource::Rss, &of_host.max_resident_set),
        ("realtime priority", Resource::Rtprio, &of_host.max_realtime_priority),
        ("realtime timeout", Resource::Rttime, &of_host.max_realtime_timeout),
        ("pending signals", Resource::Sigpending, &of_host.max_pending_signals),
        ("stack size", Resource::Stack, &of_host.max_stack_size),
    ];
    table.iter().filter_map(|(name, resource, limit)| reset_limit(name, *resource, limit)).collect()
}

fn reset_limit(name: &str, resource: Resource, of_host: &Limit) -> Option<Inherited> {
    let own = getrlimit(resource);
    let wanted = wanted_limit(resource, own, of_host);
    if setrlimit(resource, wanted).is_ok() {
        return None;
    }
    // Without CAP_SYS_RESOURCE, only the soft limit can be raised.
    let possible = Rlimit { current: lower(wanted.current, own.maximum), maximum: own.maximum };
    let result = setrlimit(resource, possible);
    let shown = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |n| n.to_string());
    let (own, wanted) = (shown(own.maximum), shown(wanted.maximum));
    let mut what = format!("the hard limit of {name} is {own}, that of process 1 is {wanted}");
    if let Err(error) = result {
        what = format!("the limit of {name} cannot be reset: {error}");
    }
    Some(inherited(what, "nrid, its plugins and the runtimes that it calls cannot exceed it"))
}

/// Returns the limit to set. `None` in a limit means that there is none.
fn wanted_limit(resource: Resource, own: Rlimit, of_host: &Limit) -> Rlimit {
    let number = |value: LimitValue| match value {
        LimitValue::Unlimited => None,
        LimitValue::Value(number) => Some(number),
    };
    let maximum = own.maximum.zip(number(of_host.hard_limit)).map(|(a, b)| a.max(b));
    let soft = number(of_host.soft_limit);
    let soft = if resource == Resource::Nofile { lower(soft, Some(SOFT_OPEN_FILES)) } else { soft };
    Rlimit { current: lower(soft, maximum), maximum }
}

/// Returns the lower of two limits; `None` means that there is no limit.
fn lower(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).min()
}

/// Returns the restrictions that a process cannot remove from itself, except those that process 1
/// also has: in a container, process 1 has the restrictions of the container, too.
fn restrictions() -> Vec<Inherited> {
    let mut found = Vec::new();
    // Reported only if they cannot be reset, because they are locked.
    let bits = capabilities_secure_bits().unwrap_or(CapabilitiesSecureBits::empty());
    if !bits.is_empty()
        && let Err(error) = set_capabilities_secure_bits(CapabilitiesSecureBits::empty())
    {
        found.push(inherited(
            format!("securebits are {:#x}, and cannot be reset: {error}", bits.bits()),
            "a plugin or runtime that runs as root may have no capabilities",
        ));
    }
    found.extend(differences(&proc::text("/proc/self/status"), &proc::text("/proc/1/status")));
    found
}

/// Compares the `/proc/PID/status` files of this process and of process 1.
fn differences(own: &str, of_host: &str) -> Vec<Inherited> {
    let number = |text, name| field(text, name).and_then(|value| value.parse::<u64>().ok());
    let exceeds = |name| number(own, name) > Some(number(of_host, name).unwrap_or(0));
    let mut found = Vec::new();
    if exceeds("NoNewPrivs") {
        found.push(inherited(
            "no_new_privs is set".to_owned(),
            "set-user-ID programs and file capabilities have no effect in plugins, and SELinux \
             does not change the domain of runtimes",
        ));
    }
    // Kernels before 5.9 do not count the filters; mode 2 means that there are some.
    if exceeds("Seccomp_filters") || exceeds("Seccomp") {
        found.push(inherited(
            "a seccomp filter is installed".to_owned(),
            "system calls of nrid, its plugins and the runtimes that it calls may fail",
        ));
    }
    let bounding = |text| field(text, "CapBnd").and_then(|v| u64::from_str_radix(v, 16).ok());
    if let (Some(own), Some(of_host)) = (bounding(own), bounding(of_host)) {
        let missing = CapabilitySet::from_bits_retain(of_host & !own);
        let names: Vec<_> = missing.iter_names().map(|(name, _)| name).collect();
        if !missing.is_empty() {
            found.push(inherited(
                format!("the capability bounding set lacks {}", names.join(", ")),
                "plugins and the runtimes that nrid calls cannot have these capabilities",
            ));
        }
    }
    found
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restrictions_that_process_1_has_too_are_not_reported() {
        let host = "NoNewPrivs:\t0\nSeccomp:\t0\nSeccomp_filters:\t0\nCapBnd:\t00000000000000ff\n";
        let own = "NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\nCapBnd:\t000000000000007e\n";
        assert_eq!(differences(own, own), []);
        assert_eq!(differences(host, own), []);
        let found: Vec<_> = differences(own, host).into_iter().map(|i| i.what).collect();
        assert_eq!(
            found,
            [
                "no_new_privs is set",
                "a seccomp filter is installed",
                "the capability bounding set lacks CHOWN, SETUID"
            ]
        );
        // A second filter, and a kernel that does not count them.
        let more = own.replace("filters:\t1", "filters:\t2");
        assert_eq!(differences(&more, own).len(), 1);
        assert_eq!(differences("Seccomp: 2\n", "Seccomp: 0\n").len(), 1);
        assert_eq!(differences("", ""), []);
    }

    #[test]
    fn limits_are_those_of_process_1_but_hard_limits_are_not_lowered() {
        let limit = |soft, hard| {
            let value = |n: Option<u64>| n.map_or(LimitValue::Unlimited, LimitValue::Value);
            Limit { soft_limit: value(soft), hard_limit: value(hard) }
        };
        let own = |current, maximum| Rlimit { current, maximum };
        for (resource, before, of_host, after) in [
            (Resource::Core, own(Some(0), Some(5)), limit(None, None), own(None, None)),
            (Resource::Core, own(Some(9), None), limit(Some(1), Some(2)), own(Some(1), None)),
            (Resource::Core, own(None, Some(9)), limit(None, Some(2)), own(Some(9), Some(9))),
            (
                Resource::Nofile,
                own(Some(256), Some(256)),
                limit(Some(1 << 30), Some(1 << 30)),
                own(Some(1024), Some(1 << 30)),
            ),
        ] {
            let wanted = wanted_limit(resource, before, &of_host);
            assert_eq!((wanted.current, wanted.maximum), (after.current, after.maximum));
        }
    }
}
