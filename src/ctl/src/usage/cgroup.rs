//! Readings of a container's cgroup, of either version.
//!
//! A value that cannot be read is never zero: it has a reason instead. Values of cgroup v1 are
//! given in the units of cgroup v2.

use crate::usage::pressure::Pressure;
use nri_control::CgroupPaths;
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

/// A value, or the reason why it is not available.
pub(super) type Measured<T> = Result<T, String>;

/// Limits of cgroup v1 from which on there is none: the kernel shows the largest number of pages.
const UNLIMITED: u64 = 1 << 62;

/// What the kernel returns where pressure is not measured (`psi=0`): `ENOTSUP`.
const PRESSURE_DISABLED: Option<i32> = Some(95);

/// The cgroup of a container.
#[derive(Debug, Clone, Copy)]
pub(super) struct ContainerCgroup<'a>(pub(super) &'a CgroupPaths);

/// The directory with the files of a controller.
#[derive(Debug, Clone, Copy)]
enum ControllerFiles<'a> {
    V1(&'a Path),
    V2(&'a Path),
}

/// Throttling by a limit of CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Throttling {
    pub(super) periods: u64,
    pub(super) throttled_periods: u64,
    pub(super) time_us: u64,
}

/// Huge pages of one size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HugePages {
    /// As in the names of the files, such as `2MB`.
    pub(super) size: String,
    /// Usage in bytes.
    pub(super) usage: u64,
    /// Limit in bytes; `None` without a limit.
    pub(super) limit: Measured<Option<u64>>,
}

impl<'a> ContainerCgroup<'a> {
    fn files(self, controller: &str) -> Measured<ControllerFiles<'a>> {
        match (self.0.v1.get(controller), &self.0.v2) {
            (Some(dir), _) => Ok(ControllerFiles::V1(dir.as_path())),
            (None, Some(dir)) => Ok(ControllerFiles::V2(dir.as_path())),
            (None, None) if self.0.v1.is_empty() => Err("the cgroup is not known".to_owned()),
            (None, None) => Err(format!("the controller {controller} is not mounted")),
        }
    }

    /// CPU time in microseconds.
    pub(super) fn cpu_usage(self) -> Measured<u64> {
        match self.files("cpuacct")? {
            ControllerFiles::V1(dir) => number(dir, "cpuacct.usage").map(|time| time / 1000),
            ControllerFiles::V2(dir) => entry(dir, "cpu.stat", "usage_usec"),
        }
    }

    /// CPU time in user mode and in the kernel, in microseconds.
    pub(super) fn cpu_times(self) -> Measured<[u64; 2]> {
        match self.files("cpuacct")? {
            ControllerFiles::V1(dir) => Ok([
                number(dir, "cpuacct.usage_user")? / 1000,
                number(dir, "cpuacct.usage_sys")? / 1000,
            ]),
            ControllerFiles::V2(dir) => {
                Ok([entry(dir, "cpu.stat", "user_usec")?, entry(dir, "cpu.stat", "system_usec")?])
            }
        }
    }

    /// Limit of CPU time in CPUs; `None` without a limit.
    pub(super) fn cpu_limit(self) -> Measured<Option<f64>> {
        let [quota, period] = match self.files("cpu")? {
            ControllerFiles::V1(dir) => {
                [text(dir, "cpu.cfs_quota_us")?, text(dir, "cpu.cfs_period_us")?]
            }
            ControllerFiles::V2(dir) => {
                let max = text(dir, "cpu.max")?;
                let (quota, period) = max.trim().split_once(' ').ok_or("cpu.max has no period")?;
                [quota.to_owned(), period.to_owned()]
            }
        };
        if matches!(quota.trim(), "max" | "-1") {
            return Ok(None);
        }
        match (quota.trim().parse::<f64>(), period.trim().parse::<f64>()) {
            (Ok(quota), Ok(period)) if period > 0.0 => Ok(Some(quota / period)),
            _ => Err(format!("quota {quota:?} and period {period:?} are no numbers")),
        }
    }

    /// Throttling by the limit of CPU time.
    pub(super) fn throttling(self) -> Measured<Throttling> {
        let (dir, time, unit) = match self.files("cpu")? {
            ControllerFiles::V1(dir) => (dir, "throttled_time", 1000),
            ControllerFiles::V2(dir) => (dir, "throttled_usec", 1),
        };
        Ok(Throttling {
            periods: entry(dir, "cpu.stat", "nr_periods")?,
            throttled_periods: entry(dir, "cpu.stat", "nr_throttled")?,
            time_us: entry(dir, "cpu.stat", time)? / unit,
        })
    }

    /// Memory in bytes, page cache included.
    pub(super) fn memory_usage(self) -> Measured<u64> {
        match self.files("memory")? {
            ControllerFiles::V1(dir) => number(dir, "memory.usage_in_bytes"),
            ControllerFiles::V2(dir) => number(dir, "memory.current"),
        }
    }

    /// Memory in bytes without page cache that was not used for a while, as the kubelet and Docker
    /// show it.
    pub(super) fn working_set(self) -> Measured<u64> {
        let (dir, inactive) = match self.files("memory")? {
            ControllerFiles::V1(dir) => (dir, "total_inactive_file"),
            ControllerFiles::V2(dir) => (dir, "inactive_file"),
        };
        let usage = self.memory_usage()?;
        Ok(usage.saturating_sub(entry(dir, "memory.stat", inactive)?))
    }

    /// Limit of memory in bytes; `None` without a limit.
    pub(super) fn memory_limit(self) -> Measured<Option<u64>> {
        match self.files("memory")? {
            ControllerFiles::V1(dir) => limit(dir, "memory.limit_in_bytes"),
            ControllerFiles::V2(dir) => limit(dir, "memory.max"),
        }
    }

    /// Swap in bytes.
    pub(super) fn swap_usage(self) -> Measured<u64> {
        match self.files("memory")? {
            ControllerFiles::V1(dir) => {
                let both = number(dir, "memory.memsw.usage_in_bytes")?;
                Ok(both.saturating_sub(number(dir, "memory.usage_in_bytes")?))
            }
            ControllerFiles::V2(dir) => number(dir, "memory.swap.current"),
        }
    }

    /// Limit of swap in bytes; `None` without a limit.
    pub(super) fn swap_limit(self) -> Measured<Option<u64>> {
        match self.files("memory")? {
            ControllerFiles::V1(dir) => {
                let both = limit(dir, "memory.memsw.limit_in_bytes")?;
                let memory = limit(dir, "memory.limit_in_bytes")?;
                Ok(both.map(|both| both.saturating_sub(memory.unwrap_or_default())))
            }
            ControllerFiles::V2(dir) => limit(dir, "memory.swap.max"),
        }
    }

    /// Number of kills by the OOM killer.
    pub(super) fn oom_kills(self) -> Measured<u64> {
        match self.files("memory")? {
            ControllerFiles::V1(dir) => entry(dir, "memory.oom_control", "oom_kill"),
            ControllerFiles::V2(dir) => entry(dir, "memory.events", "oom_kill"),
        }
    }

    /// Number of processes and threads.
    pub(super) fn pids(self) -> Measured<u64> {
        let (ControllerFiles::V1(dir) | ControllerFiles::V2(dir)) = self.files("pids")?;
        number(dir, "pids.current")
    }

    /// Limit of processes and threads; `None` without a limit.
    pub(super) fn pids_limit(self) -> Measured<Option<u64>> {
        let (ControllerFiles::V1(dir) | ControllerFiles::V2(dir)) = self.files("pids")?;
        limit(dir, "pids.max")
    }

    /// Huge pages of each size, in the order of their names.
    pub(super) fn huge_pages(self) -> Measured<Vec<HugePages>> {
        let (dir, usage_file, limit_file) = match self.files("hugetlb")? {
            ControllerFiles::V1(dir) => (dir, "usage_in_bytes", "limit_in_bytes"),
            ControllerFiles::V2(dir) => (dir, "current", "max"),
        };
        let names = fs::read_dir(dir).map_err(|error| reason(dir, "", &error))?;
        let names = names.flatten().filter_map(|file| file.file_name().into_string().ok());
        let size = |name: String| {
            let (size, file) = name.strip_prefix("hugetlb.")?.split_once('.')?;
            (file == usage_file).then(|| size.to_owned())
        };
        let pages = names.filter_map(size).map(|size| {
            let usage = number(dir, &format!("hugetlb.{size}.{usage_file}"))?;
            let limit = limit(dir, &format!("hugetlb.{size}.{limit_file}"));
            Ok((size.clone(), HugePages { size, usage, limit }))
        });
        let pages: BTreeMap<String, HugePages> = pages.collect::<Measured<_>>()?;
        if pages.is_empty() {
            return Err(format!("{} has no files of huge pages", dir.display()));
        }
        Ok(pages.into_values().collect())
    }

    /// Pressure on `cpu`, `memory` or `io`.
    pub(super) fn pressure(self, resource: &str) -> Measured<Pressure> {
        let controller = if resource == "io" { "blkio" } else { resource };
        let ControllerFiles::V2(dir) = self.files(controller)? else {
            return Err("cgroup v1 has no pressure".to_owned());
        };
        let name = format!("{resource}.pressure");
        let text = fs::read_to_string(dir.join(&name)).map_err(|error| {
            if error.raw_os_error() == PRESSURE_DISABLED {
                return "the kernel does not measure pressure (psi=1 enables it)".to_owned();
            }
            reason(dir, &name, &error)
        })?;
        Pressure::parse(&text).ok_or_else(|| format!("{name} has an unknown form"))
    }
}

/// Explains why a file cannot be read.
fn reason(dir: &Path, name: &str, error: &io::Error) -> String {
    let file = dir.join(name);
    match error.kind() {
        io::ErrorKind::NotFound if !dir.exists() => format!("no cgroup {}", dir.display()),
        io::ErrorKind::NotFound => format!("no file {}", file.display()),
        _ => format!("{}: {error}", file.display()),
    }
}

fn text(dir: &Path, name: &str) -> Measured<String> {
    let file: PathBuf = dir.join(name);
    fs::read_to_string(file).map_err(|error| reason(dir, name, &error))
}

fn parse(text: &str, name: &str) -> Measured<u64> {
    let text = text.trim();
    text.parse().map_err(|_| format!("{name} has {text:?} instead of a number"))
}

/// Reads a file with one number.
fn number(dir: &Path, name: &str) -> Measured<u64> {
    parse(&text(dir, name)?, name)
}

/// Reads a file with a limit; `None` without a limit.
fn limit(dir: &Path, name: &str) -> Measured<Option<u64>> {
    let text = text(dir, name)?;
    if text.trim() == "max" {
        return Ok(None);
    }
    Ok(Some(parse(&text, name)?).filter(|limit| *limit < UNLIMITED))
}

/// Reads a value from a file whose lines have a key and a value.
fn entry(dir: &Path, name: &str, key: &str) -> Measured<u64> {
    let text = text(dir, name)?;
    let mut entries = text.lines().filter_map(|line| line.split_once(' '));
    match entries.find(|(found, _)| *found == key) {
        Some((_, value)) => parse(value, name),
        None => Err(format!("no {key} in {}", dir.join(name).display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_files::OsText;

    fn write(dir: &Path, files: &[(&str, &str)]) {
        files.iter().for_each(|(name, text)| fs::write(dir.join(name), text).unwrap());
    }

    fn v1(dir: &Path) -> CgroupPaths {
        let controllers = ["cpu", "cpuacct", "memory", "pids", "hugetlb", "blkio"];
        let of = |name: &str| (name.to_owned(), OsText::from(dir));
        CgroupPaths { v1: controllers.map(of).into(), v2: None }
    }

    fn v2(dir: &Path) -> CgroupPaths {
        CgroupPaths { v2: Some(OsText::from(dir)), ..CgroupPaths::default() }
    }

    #[test]
    fn cgroup_v2_is_read() {
        let dir = tempfile::tempdir().unwrap();
        write(
            dir.path(),
            &[
                (
                    "cpu.stat",
                    "usage_usec 50\nuser_usec 30\nsystem_usec 20\nnr_periods 9\nnr_throttled 2\n\
                     throttled_usec 7\n",
                ),
                ("cpu.max", "150000 100000\n"),
                ("cpu.pressure", "some avg10=1.50 avg60=0.00 avg300=0.00 total=3\n"),
                ("memory.current", "4096\n"),
                ("memory.max", "max\n"),
                ("memory.stat", "anon 1\ninactive_file 1096\n"),
                ("memory.swap.current", "5\n"),
                ("memory.swap.max", "8\n"),
                ("memory.events", "oom 3\noom_kill 2\n"),
                ("pids.current", "4\n"),
                ("pids.max", "10\n"),
                ("hugetlb.2MB.current", "2097152\n"),
                ("hugetlb.2MB.max", "max\n"),
                ("hugetlb.1GB.current", "0\n"),
                ("hugetlb.2MB.rsvd.current", "1\n"),
            ],
        );
        let paths = v2(dir.path());
        let cgroup = ContainerCgroup(&paths);
        assert_eq!((cgroup.cpu_usage(), cgroup.cpu_times()), (Ok(50), Ok([30, 20])));
        assert_eq!(cgroup.cpu_limit(), Ok(Some(1.5)));
        let throttling = Throttling { periods: 9, throttled_periods: 2, time_us: 7 };
        assert_eq!(cgroup.throttling(), Ok(throttling));
        assert_eq!((cgroup.memory_usage(), cgroup.working_set()), (Ok(4096), Ok(3000)));
        assert_eq!(cgroup.memory_limit(), Ok(None));
        assert_eq!((cgroup.swap_usage(), cgroup.swap_limit()), (Ok(5), Ok(Some(8))));
        assert_eq!((cgroup.pids(), cgroup.pids_limit()), (Ok(4), Ok(Some(10))));
        assert_eq!(cgroup.oom_kills(), Ok(2));
        let pages = cgroup.huge_pages().unwrap();
        assert_eq!(
            pages.iter().map(|p| (&*p.size, p.usage)).collect::<Vec<_>>(),
            [("1GB", 0), ("2MB", 2_097_152)]
        );
        assert_eq!(pages[1].limit, Ok(None));
        let missing = format!("no file {}", dir.path().join("hugetlb.1GB.max").display());
        assert_eq!(pages[0].limit, Err(missing));
        assert_eq!(cgroup.pressure("cpu").unwrap().some.unwrap().avg10, 1.5);
        let missing = format!("no file {}", dir.path().join("memory.pressure").display());
        assert_eq!(cgroup.pressure("memory"), Err(missing));
    }

    #[test]
    fn cgroup_v1_is_read_in_the_units_of_v2() {
        let dir = tempfile::tempdir().unwrap();
        write(
            dir.path(),
            &[
                ("cpuacct.usage", "50999\n"),
                ("cpuacct.usage_user", "30000\n"),
                ("cpuacct.usage_sys", "20000\n"),
                ("cpu.stat", "nr_periods 9\nnr_throttled 2\nthrottled_time 7000\n"),
                ("cpu.cfs_quota_us", "-1\n"),
                ("cpu.cfs_period_us", "100000\n"),
                ("memory.usage_in_bytes", "4096\n"),
                ("memory.limit_in_bytes", "8192\n"),
                ("memory.memsw.usage_in_bytes", "5000\n"),
                ("memory.memsw.limit_in_bytes", "9223372036854771712\n"),
                ("memory.stat", "inactive_file 1\ntotal_inactive_file 1096\n"),
                ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
                ("pids.current", "4\n"),
                ("pids.max", "max\n"),
                ("hugetlb.2MB.usage_in_bytes", "0\n"),
                ("hugetlb.2MB.limit_in_bytes", "2097152\n"),
            ],
        );
        let paths = v1(dir.path());
        let cgroup = ContainerCgroup(&paths);
        assert_eq!((cgroup.cpu_usage(), cgroup.cpu_times()), (Ok(50), Ok([30, 20])));
        assert_eq!(cgroup.cpu_limit(), Ok(None));
        assert_eq!(cgroup.throttling().unwrap().time_us, 7);
        assert_eq!((cgroup.memory_usage(), cgroup.working_set()), (Ok(4096), Ok(3000)));
        assert_eq!(cgroup.memory_limit(), Ok(Some(8192)));
        assert_eq!((cgroup.swap_usage(), cgroup.swap_limit()), (Ok(904), Ok(None)));
        assert_eq!((cgroup.pids(), cgroup.pids_limit()), (Ok(4), Ok(None)));
        assert_eq!(cgroup.oom_kills(), Ok(2));
        assert_eq!(cgroup.huge_pages().unwrap()[0].limit, Ok(Some(2_097_152)));
        assert_eq!(cgroup.pressure("cpu"), Err("cgroup v1 has no pressure".to_owned()));
        // Without accounting of swap, its files do not exist.
        fs::remove_file(dir.path().join("memory.memsw.usage_in_bytes")).unwrap();
        assert!(cgroup.swap_usage().unwrap_err().starts_with("no file "));
    }

    #[test]
    fn what_cannot_be_read_has_a_reason() {
        let unknown = CgroupPaths::default();
        let cgroup = ContainerCgroup(&unknown);
        assert_eq!(cgroup.memory_usage(), Err("the cgroup is not known".to_owned()));
        let dir = tempfile::tempdir().unwrap();
        let mut paths = v1(dir.path());
        paths.v1.remove("hugetlb");
        let missing = Err("the controller hugetlb is not mounted".to_owned());
        assert_eq!(ContainerCgroup(&paths).huge_pages(), missing);
        let gone = dir.path().join("gone");
        let paths = v2(&gone);
        let missing = Err(format!("no cgroup {}", gone.display()));
        assert_eq!(ContainerCgroup(&paths).pids(), missing);
        write(dir.path(), &[("pids.current", "x\n"), ("cpu.stat", "usage_usec 1\n")]);
        let paths = v2(dir.path());
        let cgroup = ContainerCgroup(&paths);
        assert_eq!(cgroup.pids(), Err("pids.current has \"x\" instead of a number".to_owned()));
        assert!(cgroup.throttling().unwrap_err().starts_with("no nr_periods in "));
        assert!(cgroup.huge_pages().unwrap_err().ends_with("has no files of huge pages"));
    }
}
