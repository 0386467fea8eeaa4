//! Rows of the table: each value as the engine requested it, as plugins set it, and as the
//! container sees it.

use crate::{page::Row, scenario::Scenario};
use nri_integration::{Node, Report, has_cpusets, has_hugepages, is_cgroup_v2};
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
    let resource =
        |pointer: &str| json_text(requested.pointer(&format!("/linux/resources/{pointer}")));
    let row =
        |label: &str, requested: String, conf: &dyn Fn(&Toml) -> Option<String>, seen: String| {
            let set_by_plugins =
                scenario.plugins.each_ref().map(|plugin| plugin.get("create").and_then(conf));
            Draft { label: label.to_owned(), requested, set_by_plugins, seen }
        };
    let field = |path: &'static str| move |create: &Toml| value(create, path).map(toml_text);
    let mut rows = Vec::new();
    if has_cpusets() {
        let cpus = row(
            "cpuset.cpus",
            resource("cpu/cpus"),
            &field("resources.cpus"),
            seen_value("cpuset.cpus"),
        );
        rows.push(cpus.value_row());
        rows.push(
            row(
                "cpuset.mems",
                resource("cpu/mems"),
                &field("resources.mems"),
                seen_value("cpuset.mems"),
            )
            .value_row(),
        );
    }
    let shares = row(
        "cpu shares",
        resource("cpu/shares"),
        &field("resources.shares"),
        seen_value("cpu.shares"),
    );
    rows.push(if is_cgroup_v2() {
        shares.weight_row(&seen_value("cpu.weight"))
    } else {
        shares.value_row()
    });
    let quota = seen_value("cpu.cfs_quota_us|cpu.max");
    let quota = quota.split(' ').next().unwrap_or_default().to_owned();
    rows.push(
        row("cpu quota", resource("cpu/quota"), &field("resources.quota"), quota).value_row(),
    );
    let memory = seen_value("memory.limit_in_bytes|memory.max");
    rows.push(
        row("memory limit", resource("memory/limit"), &field("resources.memory"), memory)
            .value_row(),
    );
    rows.push(
        row("pids limit", resource("pids/limit"), &field("resources.pids"), seen_value("pids.max"))
            .value_row(),
    );
    if has_hugepages() {
        let limit = |create: &Toml| value(create, "resources.hugepages")?.get("2MB").map(toml_text);
        let seen = seen_value("hugetlb.2MB.limit_in_bytes|hugetlb.2MB.max");
        rows.push(
            row("hugepages 2MB", resource("hugepageLimits/0/limit"), &limit, seen).value_row(),
        );
    }
    if is_cgroup_v2() {
        let high =
            |create: &Toml| value(create, "resources.unified")?.get("memory.high").map(toml_text);
        rows.push(
            row(
                "unified memory.high",
                resource("unified/memory.high"),
                &high,
                seen_value("memory.high"),
            )
            .value_row(),
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
                value(create, "env.set")?.get(name).map(toml_text)
            }
        };
        rows.push(
            row(&format!("env {name}"), requested, &conf, seen_value(&format!("env.{name}")))
                .value_row(),
        );
    }
    rows.push(
        row(
            "args",
            json_words(&requested["process"]["args"]),
            &|c| value(c, "args").map(toml_list),
            arguments(seen),
        )
        .value_row(),
    );
    let rlimit = |c: &Toml| {
        let r = value(c, "rlimits")?.get(0)?;
        Some(format!("{} {}", toml_text(r.get("soft")?), toml_text(r.get("hard")?)))
    };
    rows.push(
        row("rlimit nofile", "-".to_owned(), &rlimit, seen_value("rlimit.nofile")).value_row(),
    );
    let device = |c: &Toml| {
        let d = value(c, "devices")?.get(0)?;
        let mode = d.get("mode")?.as_integer()?;
        Some(format!(
            "{} {}:{} {mode:o}",
            toml_text(d.get("type")?),
            toml_text(d.get("major")?),
            toml_text(d.get("minor")?)
        ))
    };
    rows.push(
        row("device /dev/extra", "-".to_owned(), &device, seen_value("device./dev/extra"))
            .value_row(),
    );
    let mount = |c: &Toml| Some(toml_list(value(c, "mounts")?.get(0)?.get("options")?));
    rows.push(row("mount /data", "-".to_owned(), &mount, seen_value("mount./data")).mount_row());
    let state = node.state(id).unwrap_or_default();
    let annotation = |c: &Toml| value(c, "annotations.set")?.get("example.org/by").map(toml_text);
    let (requested, seen) = (
        json_text(requested.pointer("/annotations/example.org~1by")),
        json_text(state.pointer("/annotations/example.org~1by")),
    );
    rows.push(row("annotation (state)", requested, &annotation, seen).value_row());
    let hook = |c: &Toml| value(c, "hooks")?.get(0)?.get("stage").map(toml_text);
    let ran = std::fs::read_to_string(node.path("hooked")).unwrap_or_default().contains(id);
    rows.push(
        row("hook", "-".to_owned(), &hook, if ran { "executed" } else { "-" }.to_owned())
            .hook_row(),
    );
    rows
}

/// A row before the comparison of its values.
struct Draft {
    label: String,
    requested: String,
    /// Values in the configurations of the two plugins.
    set_by_plugins: [Option<String>; 2],
    seen: String,
}

impl Draft {
    /// Value set by the last plugin, or else by the engine.
    fn effective(&self) -> &str {
        self.set_by_plugins.iter().rev().flatten().next().unwrap_or(&self.requested)
    }

    /// Returns the row of a value that the container must see as it was set.
    fn value_row(self) -> Row {
        let matches = self.seen == self.effective();
        self.row(matches)
    }

    /// Returns the row of CPU shares, which the container sees as a weight. Older runtimes convert
    /// shares linearly, newer runtimes along a curve.
    fn weight_row(mut self, weight: &str) -> Row {
        let shares: f64 = self.effective().parse().unwrap_or(0.0);
        let linear = 1 + ((shares - 2.0) * 9999.0 / 262_142.0) as u64;
        let log2 = shares.log2();
        let curved = 10f64.powf((log2 * log2 + 125.0 * log2) / 612.0 - 7.0 / 34.0).ceil() as u64;
        let matches = [linear, curved].iter().any(|w| w.to_string() == weight);
        self.seen = format!("weight {weight}");
        self.row(matches)
    }

    /// Returns the row of a mount, which must have all options. `bind` is ignored, because the
    /// kernel does not show it.
    fn mount_row(mut self) -> Row {
        let shown: Vec<_> = self.seen.split([' ', ',']).collect();
        let options: Vec<_> = self.effective().split(' ').filter(|o| *o != "bind").collect();
        let matches = options.iter().all(|o| shown.contains(o));
        if matches {
            self.seen = options.join(" ");
        }
        self.row(matches)
    }

    /// Returns the row of a hook, which must have been executed.
    fn hook_row(self) -> Row {
        let matches = self.seen != "-";
        self.row(matches)
    }

    fn row(self, matches: bool) -> Row {
        let [first, second] = self.set_by_plugins.map(|value| {
            value.map_or_else(String::new, |b| if b == "-" { "removed".to_owned() } else { b })
        });
        Row { cells: vec![self.label, self.requested, first, second, self.seen], matches }
    }
}

/// Value at a path of keys, separated by dots.
fn value<'a>(create: &'a Toml, path: &str) -> Option<&'a Toml> {
    path.split('.').try_fold(create, |value, name| value.get(name))
}

fn toml_text(value: &Toml) -> String {
    match value {
        Toml::String(text) => text.clone(),
        Toml::Integer(number) => number.to_string(),
        other => format!("{other:?}"),
    }
}

/// Elements of a TOML list, separated by spaces.
fn toml_list(value: &Toml) -> String {
    value.as_array().into_iter().flatten().map(toml_text).collect::<Vec<_>>().join(" ")
}

fn json_text(value: Option<&Value>) -> String {
    match value {
        None => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Elements of a JSON list, separated by spaces.
fn json_words(value: &Value) -> String {
    value.as_array().into_iter().flatten().map(|v| json_text(Some(v))).collect::<Vec<_>>().join(" ")
}

/// Arguments that the container saw.
fn arguments(seen: &Report) -> String {
    (0..).map_while(|n| seen.get(&format!("args.{n}"))).collect::<Vec<_>>().join(" ")
}
