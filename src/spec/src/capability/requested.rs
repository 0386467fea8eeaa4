//! Features that an adjustment requests: fields of the OCI config that it adds or changes.

use super::table::Feature;
use crate::json::number::{ByValue, same_value};
use nri_api::{field_name, fields_of, full_name, proto::Field};
use serde_json::Value;
use std::collections::HashSet;

/// A requested feature.
#[derive(Debug, PartialEq)]
pub(super) struct Requested {
    pub(super) feature: Feature,
    /// Name of the field for messages, with its key if it has one.
    pub(super) field: String,
    /// Fields whose owners may have requested the feature.
    pub(super) claims: Vec<(Field, Option<String>)>,
}

/// Returns the requested features. If the field of a feature is a list or map, the feature is
/// returned once for each new entry.
pub(super) fn requested(before: &Value, after: &Value) -> Vec<Requested> {
    let mut all = Collected { before, after, requested: Vec::new() };
    all.process();
    all.namespaces();
    all.net_devices();
    all.rdt();
    all.seccomp();
    all.mounts();
    all.memory();
    all.cpu();
    all.other_resources();
    all.block_io();
    all.requested
}

struct Collected<'a> {
    before: &'a Value,
    after: &'a Value,
    requested: Vec<Requested>,
}

impl<'a> Collected<'a> {
    fn push(
        &mut self,
        feature: Feature,
        field: impl Into<String>,
        claims: &[(Field, Option<&str>)],
    ) {
        let claims = claims.iter().map(|(f, key)| (*f, key.map(str::to_owned))).collect();
        self.requested.push(Requested { feature, field: field.into(), claims });
    }

    /// The value at a path, if the adjustment changed it.
    fn changed(&self, path: &[&str]) -> Option<&'a Value> {
        let new = at(self.after, path)?;
        if at(self.before, path).is_some_and(|old| same_value(old, new)) { None } else { Some(new) }
    }

    /// Entries of an object that are new or different, by key.
    fn new_entries(&self, path: &[&str]) -> Vec<(&'a str, &'a Value)> {
        let old = at(self.before, path);
        let is_new = |(key, new): &(&str, &Value)| {
            !new.is_null() && !old.and_then(|o| o.get(*key)).is_some_and(|o| same_value(o, new))
        };
        let new = at(self.after, path).and_then(Value::as_object);
        new.into_iter().flatten().map(|(k, v)| (k.as_str(), v)).filter(is_new).collect()
    }

    /// Elements of a list that the list did not have before the adjustment, without duplicates.
    fn new_elements(&self, path: &[&str]) -> Vec<&'a Value> {
        let list = |config| at(config, path).and_then(Value::as_array).into_iter().flatten();
        let mut known: HashSet<ByValue<'a>> = list(self.before).map(ByValue).collect();
        list(self.after).filter(|element| known.insert(ByValue(element))).collect()
    }

    fn process(&mut self) {
        use Feature::{IoPriority, MemoryPolicy, Scheduler};
        for (path, feature, claim) in [
            (["process", "scheduler"], Scheduler, Field::LinuxSched),
            (["process", "ioPriority"], IoPriority, Field::IoPriority),
            (["linux", "memoryPolicy"], MemoryPolicy, Field::MemoryPolicy),
        ] {
            if self.changed(&path).is_some() {
                self.push(feature, field_name(claim), &[(claim, None)]);
            }
        }
    }

    fn namespaces(&mut self) {
        let new = self.new_elements(&["linux", "namespaces"]);
        if new.iter().any(|n| text(n, "type") == "time") {
            self.push(
                Feature::TimeNamespace,
                "namespaces[time]",
                &[(Field::Namespace, Some("time"))],
            );
        }
    }

    fn net_devices(&mut self) {
        for (name, _) in self.new_entries(&["linux", "netDevices"]) {
            let field = full_name(Field::LinuxNetDevices, Some(name));
            self.push(Feature::NetDevices, field, &[(Field::LinuxNetDevices, Some(name))]);
        }
    }

    fn rdt(&mut self) {
        for (key, value) in self.new_entries(&["linux", "intelRdt"]) {
            let (feature, claim) = match key {
                "schemata" => (Feature::RdtSchemata, Field::RdtSchemata),
                "enableMonitoring" if value == false => continue,
                "enableMonitoring" => (Feature::RdtMonitoring, Field::RdtEnableMonitoring),
                _ => (Feature::Rdt, Field::RdtClosID),
            };
            // The plugin that set the class is the owner of a closID that the class defines.
            let claims = [(claim, None), (Field::RdtClass, None)];
            let claims = if claim == Field::RdtClosID { &claims[..] } else { &claims[..1] };
            self.push(feature, format!("rdt.{key}"), claims);
            if feature != Feature::Rdt {
                // Schemata and monitoring also need what RDT itself needs.
                self.push(Feature::Rdt, format!("rdt.{key}"), claims);
            }
        }
    }

    fn seccomp(&mut self) {
        let claims = [(Field::SeccompPolicy, None)];
        for flag in self.new_elements(&["linux", "seccomp", "flags"]) {
            let flag = flag.as_str().unwrap_or_default();
            let feature = match flag {
                "SECCOMP_FILTER_FLAG_TSYNC"
                | "SECCOMP_FILTER_FLAG_LOG"
                | "SECCOMP_FILTER_FLAG_SPEC_ALLOW" => Feature::SeccompFlags,
                "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV" => Feature::SeccompWaitKillable,
                // Runtimes themselves refuse flags that they do not know.
                _ => continue,
            };
            self.push(feature, format!("seccomp flag {flag}"), &claims);
        }
        if self.changed(&["linux", "seccomp", "listenerPath"]).is_some_and(|path| path != "") {
            self.push(Feature::SeccompListener, "seccomp listener", &claims);
        }
    }

    fn mounts(&mut self) {
        for mount in self.new_elements(&["mounts"]) {
            let destination = text(mount, "destination");
            let options = mount.get("options").and_then(Value::as_array).into_iter().flatten();
            let mut seen = HashSet::new();
            for option in options.filter_map(Value::as_str) {
                if let Some(feature) = feature_of_option(option)
                    && seen.insert(option)
                {
                    let mount = full_name(Field::Mounts, Some(destination));
                    let field = format!("{mount} option {option:?}");
                    self.push(feature, field, &[(Field::Mounts, Some(destination))]);
                }
            }
        }
    }

    fn memory(&mut self) {
        for (key, value) in self.new_entries(&["linux", "resources", "memory"]) {
            let feature = match key {
                "limit" | "reservation" | "swap" => Feature::Memory,
                "kernel" => Feature::KernelMemory,
                "kernelTCP" => Feature::KernelTcpMemory,
                "swappiness" => Feature::Swappiness,
                "disableOOMKiller" if value == true => Feature::DisableOomKiller,
                "useHierarchy" if value == true => Feature::UseHierarchy,
                "useHierarchy" => Feature::FlatHierarchy,
                _ => continue,
            };
            // An adjusted memory limit also sets swap.
            let also_set_by = (key == "swap").then_some(Field::MemLimit);
            self.push_resource(feature, "memory", key, also_set_by);
        }
    }

    fn cpu(&mut self) {
        for (key, value) in self.new_entries(&["linux", "resources", "cpu"]) {
            let feature = match key {
                "shares" | "quota" | "period" => Feature::Cpu,
                "realtimeRuntime" | "realtimePeriod" => Feature::Realtime,
                "cpus" | "mems" => Feature::Cpuset,
                _ => continue,
            };
            // Zero and the empty string mean not set.
            if value.as_i64() != Some(0) && value != "" {
                self.push_resource(feature, "cpu", key, None);
            }
        }
    }

    /// Adds the resource field `group.key`. The owner of the field `also_set_by`, if any, may also
    /// be the plugin that set it.
    fn push_resource(
        &mut self,
        feature: Feature,
        group: &str,
        key: &str,
        also_set_by: Option<Field>,
    ) {
        let field = fields_of(group).find(|field| field.key() == key);
        if let Some(field) = field {
            let owners = field.owner.into_iter().chain(also_set_by);
            let claims: Vec<_> = owners.map(|owner| (owner, None)).collect();
            self.push(feature, field.name, &claims);
        }
    }

    fn other_resources(&mut self) {
        if self
            .changed(&["linux", "resources", "pids", "limit"])
            .and_then(Value::as_i64)
            .is_some_and(|l| l > 0)
        {
            self.push(Feature::Pids, "pids.limit", &[(Field::PidsLimit, None)]);
        }
        for limit in self.new_elements(&["linux", "resources", "hugepageLimits"]) {
            let size = text(limit, "pageSize");
            let field = full_name(Field::HugepageLimits, Some(size));
            self.push(Feature::Hugepages, field, &[(Field::HugepageLimits, Some(size))]);
        }
        for (file, _) in self.new_entries(&["linux", "resources", "unified"]) {
            let field = full_name(Field::CgroupsUnified, Some(file));
            self.push(Feature::Unified, field, &[(Field::CgroupsUnified, Some(file))]);
        }
    }

    fn block_io(&mut self) {
        let claims = [(Field::BlockioClass, None)];
        for (key, value) in self.new_entries(&["linux", "resources", "blockIO"]) {
            if value.as_array().is_some_and(Vec::is_empty) {
                continue;
            }
            let feature = match key {
                "weight" => Some(Feature::BlockIoWeight),
                "weightDevice" => Some(Feature::BlockIoWeightDevice),
                _ => None,
            };
            for feature in [Some(Feature::BlockIo), feature].into_iter().flatten() {
                self.push(feature, format!("blockIO.{key}"), &claims);
            }
        }
    }
}

/// The feature of a mount option; `None` for options that all runtimes support, and for options of
/// the file system.
fn feature_of_option(option: &str) -> Option<Feature> {
    const RECURSIVE: [&str; 19] = [
        "rro",
        "rrw",
        "rsuid",
        "rnosuid",
        "rdev",
        "rnodev",
        "rexec",
        "rnoexec",
        "rdiratime",
        "rnodiratime",
        "ratime",
        "rnoatime",
        "rrelatime",
        "rnorelatime",
        "rstrictatime",
        "rnostrictatime",
        "rsync",
        "rasync",
        "rdirsync",
    ];
    match option {
        "idmap" => Some(Feature::MountIdmap),
        "ridmap" => Some(Feature::MountIdmapRecursive),
        "nosymfollow" => Some(Feature::MountNoSymfollow),
        "rnosymfollow" => Some(Feature::MountNoSymfollowRecursive),
        "tmpcopyup" => Some(Feature::MountCopyUp),
        "copy-symlink" => Some(Feature::MountCopySymlink),
        "src-nofollow" | "dest-nofollow" => Some(Feature::MountNoFollow),
        option if RECURSIVE.contains(&option) => Some(Feature::MountRecursiveAttributes),
        _ => None,
    }
}

/// The value at a path; `None` if it is missing or null.
fn at<'a>(config: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(config, |value, key| value.get(key)).filter(|v| !v.is_null())
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
