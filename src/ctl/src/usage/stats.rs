//! `nrictl stats`: what one container uses.

use crate::{
    error::CtlError,
    nrid_location::NridLocation,
    output::output,
    table::{TextTable, terminal_width, write_wrapped},
    units,
    usage::{
        cgroup::{ContainerCgroup, HugePages, Measured, Throttling},
        pressure::{Pressure, StallShares},
    },
    views::{DescribeClient, state},
};
use clap::Args;
use nri_control::{ContainerSummary, Describe, Description, ObjectKind};
use nri_values::printable;
use serde_json::{Map, Value, json};
use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

/// Time over which the use of CPUs is measured.
const CPU_INTERVAL: Duration = Duration::from_millis(500);

/// The command line of `nrictl stats`.
#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// Id of a container, else its name, else a prefix of its id.
    #[arg(value_name = "CONTAINER")]
    pub(crate) id: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The usage of a container. A limit of `None` stands for no limit.
#[derive(Debug)]
struct Usage {
    cpu: Measured<u64>,
    cpu_times: Measured<[u64; 2]>,
    cpu_percent: Measured<f64>,
    cpu_limit: Measured<Option<f64>>,
    throttling: Measured<Throttling>,
    memory: Measured<u64>,
    working_set: Measured<u64>,
    memory_limit: Measured<Option<u64>>,
    swap: Measured<u64>,
    swap_limit: Measured<Option<u64>>,
    oom_kills: Measured<u64>,
    pids: Measured<u64>,
    pids_limit: Measured<Option<u64>>,
    huge_pages: Measured<Vec<HugePages>>,
    pressure: [(&'static str, Measured<Pressure>); 3],
}

impl Stats {
    /// Requests the container, and prints what it uses.
    ///
    /// # Errors
    /// There is no such container, or several; `nrid` does not reply; or standard output cannot be
    /// written to.
    pub(crate) fn run(&self, nrid: &NridLocation) -> Result<(), CtlError> {
        let kind = Some(ObjectKind::Container);
        let question = Describe::Object { id: self.id.clone(), kind, recorded: false };
        let Description::Container(container) = DescribeClient::connect(nrid)?.object(&question)?
        else {
            return Err(CtlError::UnexpectedReply);
        };
        let container = container.summary;
        let usage = Usage::measure(ContainerCgroup(&container.cgroups), CPU_INTERVAL);
        let mut out = output();
        if self.json {
            return Ok(writeln!(out, "{}", usage.to_json(&container))?);
        }
        Ok(usage.print(&container, &mut out)?)
    }
}

/// Returns the CPU time of an interval in percent of one CPU. Both are in microseconds.
pub(super) fn percent(cpu_time: u64, elapsed: Duration) -> f64 {
    let elapsed = elapsed.as_secs_f64() * 1e6;
    if elapsed > 0.0 { 100.0 * cpu_time as f64 / elapsed } else { 0.0 }
}

impl Usage {
    /// Reads all values; takes `interval`.
    fn measure(cgroup: ContainerCgroup<'_>, interval: Duration) -> Self {
        let began = Instant::now();
        let before = cgroup.cpu_usage();
        if before.is_ok() {
            std::thread::sleep(interval);
        }
        let cpu = cgroup.cpu_usage();
        let elapsed = began.elapsed();
        let cpu_percent = before
            .and_then(|before| cpu.clone().map(|now| percent(now.saturating_sub(before), elapsed)));
        Self {
            cpu,
            cpu_percent,
            cpu_times: cgroup.cpu_times(),
            cpu_limit: cgroup.cpu_limit(),
            throttling: cgroup.throttling(),
            memory: cgroup.memory_usage(),
            working_set: cgroup.working_set(),
            memory_limit: cgroup.memory_limit(),
            swap: cgroup.swap_usage(),
            swap_limit: cgroup.swap_limit(),
            oom_kills: cgroup.oom_kills(),
            pids: cgroup.pids(),
            pids_limit: cgroup.pids_limit(),
            huge_pages: cgroup.huge_pages(),
            pressure: ["cpu", "memory", "io"].map(|name| (name, cgroup.pressure(name))),
        }
    }

    fn to_json(&self, container: &ContainerSummary) -> Value {
        let mut json = JsonValues::default();
        let cpu = json!({
            "usage_us": json.value("cpu.usage_us", &self.cpu),
            "user_us": json.with("cpu.user_us", &self.cpu_times, |[user, _]| json!(user)),
            "system_us": json.with("cpu.system_us", &self.cpu_times, |[_, system]| json!(system)),
            "percent": json.with("cpu.percent", &self.cpu_percent, |p| json!(tenths(*p))),
            "limit_cpus": json.limit("cpu.limit_cpus", &self.cpu_limit),
            "throttling": json.with("cpu.throttling", &self.throttling, |throttling| json!({
                "periods": throttling.periods,
                "throttled_periods": throttling.throttled_periods,
                "time_us": throttling.time_us,
            })),
        });
        let memory = json!({
            "usage_bytes": json.value("memory.usage_bytes", &self.memory),
            "working_set_bytes": json.value("memory.working_set_bytes", &self.working_set),
            "limit_bytes": json.limit("memory.limit_bytes", &self.memory_limit),
            "oom_kills": json.value("memory.oom_kills", &self.oom_kills),
        });
        let swap = json!({
            "usage_bytes": json.value("swap.usage_bytes", &self.swap),
            "limit_bytes": json.limit("swap.limit_bytes", &self.swap_limit),
        });
        let pids = json!({
            "current": json.value("pids.current", &self.pids),
            "limit": json.limit("pids.limit", &self.pids_limit),
        });
        let huge_pages = match &self.huge_pages {
            Ok(pages) => {
                let pages = pages.iter().map(|HugePages { size, usage, limit }| {
                    let limit = json.limit(&format!("huge_pages.{size}.limit_bytes"), limit);
                    json!({"size": size, "usage_bytes": usage, "limit_bytes": limit})
                });
                Value::Array(pages.collect())
            }
            Err(why) => json.unavailable("huge_pages", why),
        };
        let pressure: Map<String, Value> = (self.pressure.iter())
            .map(|(name, value)| {
                let value = json.with(&format!("pressure.{name}"), value, |p| json!(p));
                ((*name).to_owned(), value)
            })
            .collect();
        json!({
            "id": container.id,
            "name": container.name,
            "engine": container.engine,
            "pod": container.pod,
            "state": state(container),
            "pid": container.pid,
            "cpu": cpu,
            "memory": memory,
            "swap": swap,
            "pids": pids,
            "huge_pages": huge_pages,
            "pressure": pressure,
            "unavailable": json.reasons,
        })
    }

    fn print(&self, container: &ContainerSummary, out: &mut impl Write) -> io::Result<()> {
        write!(out, "{}", printable(&container.id))?;
        for label in [&*container.name, &container.engine, state(container)] {
            if !label.is_empty() && label != container.id {
                write!(out, "  {}", printable(label))?;
            }
        }
        writeln!(out, "\n")?;
        let mut text = TextValues::default();
        let mut table = TextTable::new(0);
        table.row(["RESOURCE", "USAGE", "LIMIT", ""]);
        let times = text.or_dash("cpu times", &self.cpu_times, |[user, system]| {
            format!("{} user, {} system", units::time(*user), units::time(*system))
        });
        table.row([
            "cpu".to_owned(),
            text.or_dash("cpu usage", &self.cpu_percent, |percent| format!("{percent:.1} %")),
            text.limit("cpu limit", &self.cpu_limit, |cpus| format!("{:.0} %", cpus * 100.0)),
            times,
        ]);
        table.row([
            "memory".to_owned(),
            text.or_dash("memory usage", &self.memory, |bytes| units::memory(*bytes)),
            text.limit("memory limit", &self.memory_limit, |bytes| units::memory(*bytes)),
            text.or_dash("working set", &self.working_set, |bytes| {
                format!("{} working set", units::memory(*bytes))
            }),
        ]);
        table.row([
            "swap".to_owned(),
            text.or_dash("swap usage", &self.swap, |bytes| units::memory(*bytes)),
            text.limit("swap limit", &self.swap_limit, |bytes| units::memory(*bytes)),
            String::new(),
        ]);
        table.row([
            "pids".to_owned(),
            text.or_dash("pids", &self.pids, u64::to_string),
            text.limit("pids limit", &self.pids_limit, u64::to_string),
            String::new(),
        ]);
        match &self.huge_pages {
            Ok(pages) => {
                for HugePages { size, usage, limit } in pages {
                    let name = format!("huge pages of {size}");
                    let limit = text.limit(&name, limit, |bytes| units::memory(*bytes));
                    table.row([name, units::memory(*usage), limit, String::new()]);
                }
            }
            Err(why) => {
                text.unavailable("huge pages", why);
                table.row(["huge pages", "-", "-", ""]);
            }
        }
        table.align_right(1);
        table.align_right(2);
        table.write(out)?;
        writeln!(out)?;
        self.print_stalls(&mut text, out)?;
        text.write(out)
    }

    /// Prints where the container waits, and its OOM kills.
    fn print_stalls(&self, text: &mut TextValues, out: &mut impl Write) -> io::Result<()> {
        let mut table = TextTable::new(0);
        table.row(["PRESSURE", "10 s", "60 s", "300 s", "TOTAL"]);
        for (name, pressure) in &self.pressure {
            let kinds = match pressure {
                Ok(Pressure { some, full }) => [("some", some), ("full", full)],
                Err(why) => {
                    text.unavailable(&format!("{name} pressure"), why);
                    table.row([*name, "-", "-", "-", "-"]);
                    continue;
                }
            };
            for (kind, shares) in kinds {
                let Some(StallShares { avg10, avg60, avg300, total_us }) = shares else { continue };
                let averages = [avg10, avg60, avg300].map(|share| format!("{share:.2} %"));
                let name = format!("{name}, {kind}");
                let total = units::time(*total_us);
                table.row([name].into_iter().chain(averages).chain([total]));
            }
        }
        (1..5).for_each(|column| table.align_right(column));
        table.write(out)?;
        let throttled = text.or_dash("throttling", &self.throttling, |throttling| {
            let Throttling { periods, throttled_periods, time_us } = throttling;
            format!("{throttled_periods} of {periods} periods, {}", units::time(*time_us))
        });
        writeln!(out, "\nthrottled   {throttled}")?;
        let kills = text.or_dash("OOM kills", &self.oom_kills, u64::to_string);
        writeln!(out, "OOM kills   {kills}")
    }
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Values in the JSON, and the reasons why some are `null`.
#[derive(Debug, Default)]
struct JsonValues {
    reasons: Map<String, Value>,
}

impl JsonValues {
    fn value(&mut self, name: &str, value: &Measured<u64>) -> Value {
        self.with(name, value, |value| json!(value))
    }

    /// A limit: a number, or the kernel's word `max`.
    fn limit<T: serde::Serialize>(&mut self, name: &str, limit: &Measured<Option<T>>) -> Value {
        self.with(name, limit, |limit| limit.as_ref().map_or(json!("max"), |limit| json!(limit)))
    }

    fn with<T>(&mut self, name: &str, value: &Measured<T>, to_json: impl Fn(&T) -> Value) -> Value {
        match value {
            Ok(value) => to_json(value),
            Err(why) => self.unavailable(name, why),
        }
    }

    fn unavailable(&mut self, name: &str, why: &str) -> Value {
        self.reasons.insert(name.to_owned(), why.into());
        Value::Null
    }
}

/// Values in the text, and the reasons why some are dashes.
#[derive(Debug, Default)]
struct TextValues {
    /// Names of values with the same reason.
    reasons: Vec<(Vec<String>, String)>,
}

impl TextValues {
    fn or_dash<T>(
        &mut self,
        name: &str,
        value: &Measured<T>,
        to_text: impl Fn(&T) -> String,
    ) -> String {
        match value {
            Ok(value) => to_text(value),
            Err(why) => {
                self.unavailable(name, why);
                "-".to_owned()
            }
        }
    }

    fn limit<T>(
        &mut self,
        name: &str,
        limit: &Measured<Option<T>>,
        to_text: impl Fn(&T) -> String,
    ) -> String {
        self.or_dash(name, limit, |limit| limit.as_ref().map_or("none".to_owned(), &to_text))
    }

    fn unavailable(&mut self, name: &str, why: &str) {
        match self.reasons.iter_mut().find(|(_, known)| known == why) {
            Some((names, _)) => names.push(name.to_owned()),
            None => self.reasons.push((vec![name.to_owned()], why.to_owned())),
        }
    }

    /// Writes the reasons.
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for (n, (names, why)) in self.reasons.iter().enumerate() {
            if n == 0 {
                writeln!(out)?;
            }
            let text = format!("{}: {why}", names.join(", "));
            write_wrapped(out, "not available: ", &text, terminal_width())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_control::CgroupPaths;
    use nri_files::OsText;
    use std::fs;

    fn container(dir: &std::path::Path) -> ContainerSummary {
        ContainerSummary {
            id: "c1".to_owned(),
            name: "web".to_owned(),
            engine: "docker".to_owned(),
            pod: "p1".to_owned(),
            state: "running".to_owned(),
            pid: Some(42),
            cgroups: CgroupPaths { v2: Some(OsText::from(dir)), ..CgroupPaths::default() },
            ..ContainerSummary::default()
        }
    }

    fn site() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("cpu.stat", "usage_usec 5000000\nuser_usec 3000000\nsystem_usec 2000000\n"),
            ("cpu.max", "150000 100000\n"),
            ("cpu.pressure", "some avg10=1.50 avg60=0.00 avg300=0.00 total=3000\n"),
            ("memory.current", "4194304\n"),
            ("memory.max", "max\n"),
            ("memory.events", "oom_kill 2\n"),
            ("pids.current", "4\n"),
            ("pids.max", "10\n"),
            ("hugetlb.2MB.current", "2097152\n"),
            ("hugetlb.2MB.max", "max\n"),
        ] {
            fs::write(dir.path().join(name), text).unwrap();
        }
        dir
    }

    #[test]
    fn what_is_not_available_is_a_dash_with_a_reason() {
        let dir = site();
        let container = container(dir.path());
        let usage = Usage::measure(ContainerCgroup(&container.cgroups), Duration::ZERO);
        let mut out = Vec::new();
        usage.print(&container, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap().replace(&*dir.path().to_string_lossy(), "/c1");
        assert_eq!(
            text,
            "c1  web  docker  running\n\
             \n\
             RESOURCE           USAGE  LIMIT\n\
             cpu                0.0 %  150 %  3 s user, 2 s system\n\
             memory             4 MiB   none  -\n\
             swap                   -      -\n\
             pids                   4     10\n\
             huge pages of 2MB  2 MiB   none\n\
             \n\
             PRESSURE     10 s    60 s   300 s  TOTAL\n\
             cpu, some  1.50 %  0.00 %  0.00 %   3 ms\n\
             memory          -       -       -      -\n\
             io              -       -       -      -\n\
             \n\
             throttled   -\n\
             OOM kills   2\n\
             \n\
             not available: working set: no file /c1/memory.stat\n\
             not available: swap usage: no file /c1/memory.swap.current\n\
             not available: swap limit: no file /c1/memory.swap.max\n\
             not available: memory pressure: no file /c1/memory.pressure\n\
             not available: io pressure: no file /c1/io.pressure\n\
             not available: throttling: no nr_periods in /c1/cpu.stat\n"
        );
    }

    #[test]
    fn the_json_has_the_documented_names() {
        let dir = site();
        let container = container(dir.path());
        let usage = Usage::measure(ContainerCgroup(&container.cgroups), Duration::ZERO);
        let mut value = usage.to_json(&container);
        let reasons = value["unavailable"].take();
        assert_eq!(
            value,
            json!({
                "id": "c1", "name": "web", "engine": "docker", "pod": "p1", "state": "running",
                "pid": 42,
                "cpu": {
                    "usage_us": 5_000_000, "user_us": 3_000_000, "system_us": 2_000_000,
                    "percent": 0.0, "limit_cpus": 1.5, "throttling": null
                },
                "memory": {
                    "usage_bytes": 4_194_304, "working_set_bytes": null, "limit_bytes": "max",
                    "oom_kills": 2
                },
                "swap": {"usage_bytes": null, "limit_bytes": null},
                "pids": {"current": 4, "limit": 10},
                "huge_pages": [{"size": "2MB", "usage_bytes": 2_097_152, "limit_bytes": "max"}],
                "pressure": {
                    "cpu": {
                        "some": {"avg10": 1.5, "avg60": 0.0, "avg300": 0.0, "total_us": 3000},
                        "full": null
                    },
                    "memory": null, "io": null
                },
                "unavailable": null
            })
        );
        let names: Vec<_> = reasons.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "cpu.throttling",
                "memory.working_set_bytes",
                "swap.usage_bytes",
                "swap.limit_bytes",
                "pressure.memory",
                "pressure.io"
            ]
        );
    }

    #[test]
    fn the_use_of_cpus_is_in_percent_of_one() {
        assert_eq!(percent(500_000, Duration::from_secs(1)), 50.0);
        assert_eq!(percent(4_000_000, Duration::from_secs(2)), 200.0);
        assert_eq!(percent(1, Duration::ZERO), 0.0);
    }
}
