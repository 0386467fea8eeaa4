//! Rows of the table: each value as the engine, the plugins and the container have it.

use crate::{page::Row, scenario::Scenario};
use nri_integration::{Node, Report, cpusets, hugepages, unified_cgroups};
use serde_json::Value;
use toml::Value as Toml;

/// Returns a row for each value that is compared.
pub(crate) fn all(
    node: &Node,
    scenario: &Scenario,
    id: &str,
    requested: &Value,
    seen: &Report,
) -> Vec<Row> {
    let seen_value =
        |names: &str| names.split('|').find_map(|n| seen.get(n)).unwrap_or("-").to_owned();
    let resource = |pointer: &str| text(requested.pointer(&format!("/linux/resources/{pointer}")));
    let row =
        |label: &str, requested: String, conf: &dyn Fn(&Toml) -> Option<String>, sees: String| {
            let by = scenario.plugins.each_ref().map(|plugin| plugin.get("create").and_then(conf));
            Draft { label: label.to_owned(), requested, by, sees }
        };
    let at = |path: &'static str| move |create: &Toml| value(create, path).map(plain);
    let mut rows = Vec::new();
    if cpusets() {
        let cpus = row(
            "cpuset.cpus",
            resource("cpu/cpus"),
            &at("resources.cpus"),
            seen_value("cpuset.cpus"),
        );
        rows.push(cpus.same());
        rows.push(
            row(
                "cpuset.mems",
                resource("cpu/mems"),
                &at("resources.mems"),
                seen_value("cpuset.mems"),
            )
            .same(),
        );
    }
    let shares = row(
        "cpu shares",
        resource("cpu/shares"),
        &at("resources.shares"),
        seen_value("cpu.shares"),
    );
    rows.push(if unified_cgroups() {
        shares.weight(&seen_value("cpu.weight"))
    } else {
        shares.same()
    });
    let quota = seen_value("cpu.cfs_quota_us|cpu.max");
    let quota = quota.split(' ').next().unwrap_or_default().to_owned();
    rows.push(row("cpu quota", resource("cpu/quota"), &at("resources.quota"), quota).same());
    let memory = seen_value("memory.limit_in_bytes|memory.max");
    rows.push(
        row("memory limit", resource("memory/limit"), &at("resources.memory"), memory).same(),
    );
    rows.push(
        row("pids limit", resource("pids/limit"), &at("resources.pids"), seen_value("pids.max"))
            .same(),
    );
    if hugepages() {
        let limit = |create: &Toml| value(create, "resources.hugepages")?.get("2MB").map(plain);
        let sees = seen_value("hugetlb.2MB.limit_in_bytes|hugetlb.2MB.max");
        rows.push(row("hugepages 2MB", resource("hugepageLimits/0/limit"), &limit, sees).same());
    }
    if unified_cgroups() {
        let high =
            |create: &Toml| value(create, "resources.unified")?.get("memory.high").map(plain);
        rows.push(
            row(
                "unified memory.high",
                resource("unified/memory.high"),
                &high,
                seen_value("memory.high"),
            )
            .same(),
        );
    }
    for name in ["CHANGED", "ADDED", "REMOVED", "KEPT"] {
        let env =
            requested["process"]["env"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let prefix = format!("{name}=");
        let requested =
            env.filter_map(|e| e.strip_prefix(&prefix)).next().unwrap_or("-").to_owned();
        let conf = move |create: &Toml| {
            let removed = value(create, "env.remove").and_then(Toml::as_array);
            let removed = removed.is_some_and(|list| list.iter().any(|n| n.as_str() == Some(name)));
            if removed {
                Some("-".to_owned())
            } else {
                value(create, "env.set")?.get(name).map(plain)
            }
        };
        rows.push(
            row(&format!("env {name}"), requested, &conf, seen_value(&format!("env.{name}")))
                .same(),
        );
    }
    rows.push(
        row(
            "args",
            words(&requested["process"]["args"]),
            &|c| value(c, "args").map(list),
            arguments(seen),
        )
        .same(),
    );
    let rlimit = |c: &Toml| {
        let r = value(c, "rlimits")?.get(0)?;
        Some(format!("{} {}", plain(r.get("soft")?), plain(r.get("hard")?)))
    };
    rows.push(row("rlimit nofile", "-".to_owned(), &rlimit, seen_value("rlimit.nofile")).same());
    let device = |c: &Toml| {
        let d = value(c, "devices")?.get(0)?;
        let mode = d.get("mode")?.as_integer()?;
        Some(format!(
            "{} {}:{} {mode:o}",
            plain(d.get("type")?),
            plain(d.get("major")?),
            plain(d.get("minor")?)
        ))
    };
    rows.push(
        row("device /dev/extra", "-".to_owned(), &device, seen_value("device./dev/extra")).same(),
    );
    let mount = |c: &Toml| Some(list(value(c, "mounts")?.get(0)?.get("options")?));
    rows.push(row("mount /data", "-".to_owned(), &mount, seen_value("mount./data")).mounted());
    let state = node.state(id).unwrap_or_default();
    let annotation = |c: &Toml| value(c, "annotations.set")?.get("example.org/by").map(plain);
    let (requested, sees) = (
        text(requested.pointer("/annotations/example.org~1by")),
        text(state.pointer("/annotations/example.org~1by")),
    );
    rows.push(row("annotation (state)", requested, &annotation, sees).same());
    let hook = |c: &Toml| value(c, "hooks")?.get(0)?.get("stage").map(plain);
    let ran = std::fs::read_to_string(node.path("hooked")).unwrap_or_default().contains(id);
    rows.push(
        row("hook", "-".to_owned(), &hook, if ran { "executed" } else { "-" }.to_owned()).hooked(),
    );
    rows
}

/// A row before the comparison of its values.
struct Draft {
    label: String,
    requested: String,
    by: [Option<String>; 2],
    sees: String,
}

impl Draft {
    /// Value set by the last plugin, or else by the engine.
    fn effective(&self) -> &str {
        self.by.iter().rev().flatten().next().unwrap_or(&self.requested)
    }

    /// Returns the row of a value that the container must see unchanged.
    fn same(self) -> Row {
        let fits = self.sees == self.effective();
        self.row(fits)
    }

    /// Returns the row of CPU shares, which the container sees as a weight. Runtimes convert them
    /// by one of two formulas, of which the newer one is a curve.
    fn weight(mut self, weight: &str) -> Row {
        let shares: f64 = self.effective().parse().unwrap_or(0.0);
        let linear = 1 + ((shares - 2.0) * 9999.0 / 262_142.0) as u64;
        let l = shares.log2();
        let curved = 10f64.powf((l * l + 125.0 * l) / 612.0 - 7.0 / 34.0).ceil() as u64;
        let fits = [linear, curved].iter().any(|w| w.to_string() == weight);
        self.sees = format!("weight {weight}");
        self.row(fits)
    }

    /// Returns the row of a mount, which must have every option but `bind`, which the kernel does
    /// not show.
    fn mounted(mut self) -> Row {
        let shown: Vec<_> = self.sees.split([' ', ',']).collect();
        let options: Vec<_> = self.effective().split(' ').filter(|o| *o != "bind").collect();
        let fits = options.iter().all(|o| shown.contains(o));
        if fits {
            self.sees = options.join(" ");
        }
        self.row(fits)
    }

    /// Returns the row of a hook, which must have been executed.
    fn hooked(self) -> Row {
        let fits = self.sees != "-";
        self.row(fits)
    }

    fn row(self, fits: bool) -> Row {
        let [first, second] = self.by.map(|by| {
            by.map_or_else(String::new, |b| if b == "-" { "removed".to_owned() } else { b })
        });
        Row { cells: vec![self.label, self.requested, first, second, self.sees], fits }
    }
}

fn value<'a>(create: &'a Toml, path: &str) -> Option<&'a Toml> {
    path.split('.').try_fold(create, |value, name| value.get(name))
}

fn plain(value: &Toml) -> String {
    match value {
        Toml::String(text) => text.clone(),
        Toml::Integer(number) => number.to_string(),
        other => format!("{other:?}"),
    }
}

fn list(value: &Toml) -> String {
    value.as_array().into_iter().flatten().map(plain).collect::<Vec<_>>().join(" ")
}

fn text(value: Option<&Value>) -> String {
    match value {
        None => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

fn words(value: &Value) -> String {
    value.as_array().into_iter().flatten().map(|v| text(Some(v))).collect::<Vec<_>>().join(" ")
}

fn arguments(seen: &Report) -> String {
    (0..).map_while(|n| seen.get(&format!("args.{n}"))).collect::<Vec<_>>().join(" ")
}
