//! Quotas of the policy: how many CPUs the containers of a tenant may take from all others. Which
//! quota a container is under is in `account.rs`, what its containers have taken in `taken.rs`.

use crate::{
    pattern::{Glob, all_match, entries_match},
    subject::Subject,
};
use serde::Deserialize;
use std::{collections::BTreeMap, fmt};

/// A quota. It is that of a container for which everything that it names is true; names are
/// patterns with `*`, `?` and `[a-z]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// How many CPUs its containers may take together.
    pub exclusive_cpus: Most,
    /// Name of the image, where the engine tells it.
    pub image: Option<Glob>,
    /// Name of the pod.
    pub pod: Option<Glob>,
    /// Namespace of the pod.
    pub namespace: Option<Glob>,
    /// The engine, where the runtime tells it.
    pub engine: Option<Glob>,
    /// Labels of the container or its pod.
    #[serde(default)]
    pub labels: BTreeMap<String, Glob>,
    /// Annotations of the container or its pod.
    #[serde(default)]
    pub annotations: BTreeMap<String, Glob>,
    /// What has a quota of its own; all containers have one together without it.
    pub per: Option<Per>,
    /// Label of which each value has a quota of its own.
    pub per_label: Option<String>,
    /// Whether CPUs that the engine has set for a container (`docker run --cpuset-cpus`) count.
    #[serde(default = "yes")]
    pub cpuset_counts: bool,
}

fn yes() -> bool {
    true
}

/// See [`Quota::per`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    /// Each namespace of pods.
    Namespace,
    /// Each pod, by namespace and name.
    Pod,
    /// Each engine.
    Engine,
}

/// A number of CPUs, or a part of those that are not reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Most {
    /// CPUs.
    Cpus(usize),
    /// Percent of the CPUs that are not reserved, rounded down, but at least one CPU.
    Percent(usize),
}

impl Most {
    /// Returns the number of CPUs, of as many that are not reserved.
    pub fn of(self, available: usize) -> usize {
        match self {
            Self::Cpus(cpus) => cpus,
            Self::Percent(0) => 0,
            Self::Percent(percent) => (available * percent / 100).max(1),
        }
    }
}

impl<'de> Deserialize<'de> for Most {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MostVisitor;
        impl serde::de::Visitor<'_> for MostVisitor {
            type Value = Most;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of CPUs, or a part such as \"50%\"")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Most, E> {
                let percent = text.trim().strip_suffix('%').map(str::trim_end);
                let percent = percent.and_then(|percent| percent.parse().ok());
                let percent = percent.filter(|percent| *percent <= 100).map(Most::Percent);
                percent.ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
            fn visit_i64<E: serde::de::Error>(self, cpus: i64) -> Result<Most, E> {
                let wrong = |_| E::invalid_value(serde::de::Unexpected::Signed(cpus), &self);
                usize::try_from(cpus).map(Most::Cpus).map_err(wrong)
            }
        }
        deserializer.deserialize_any(MostVisitor)
    }
}

impl Quota {
    /// Whether everything but the engine is as the quota wants it.
    pub(crate) fn matches_but_engine(&self, subject: &Subject) -> bool {
        let names = [
            (&self.image, subject.image.as_str()),
            (&self.pod, &subject.pod),
            (&self.namespace, &subject.namespace),
        ];
        all_match(names)
            && entries_match(&self.labels, &subject.labels)
            && entries_match(&self.annotations, &subject.annotations)
    }

    /// Returns which of the quotas of `per` or `per_label` is that of a container.
    pub(crate) fn group(&self, subject: &Subject) -> String {
        match (self.per, &self.per_label) {
            (Some(Per::Namespace), _) => subject.namespace.clone(),
            (Some(Per::Pod), _) => format!("{}/{}", subject.namespace, subject.pod),
            (Some(Per::Engine), _) => subject.engine.clone().unwrap_or_default(),
            (None, Some(label)) => subject.labels.get(label).cloned().unwrap_or_default(),
            (None, None) => String::new(),
        }
    }

    /// Whether a container has no quota here without its engine.
    pub(crate) fn needs_engine(&self) -> bool {
        self.engine.is_some() || self.per == Some(Per::Engine)
    }

    /// Returns why the keys do not go together.
    pub(crate) fn mistake(&self) -> Option<&'static str> {
        (self.per.is_some() && self.per_label.is_some())
            .then_some("per and per_label exclude each other")
    }
}

/// What the quota names.
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            ("image", &self.image),
            ("pod", &self.pod),
            ("namespace", &self.namespace),
            ("engine", &self.engine),
        ];
        let names = names.into_iter().filter_map(|(key, glob)| {
            glob.as_ref().map(|glob| format!("{key} {:?}", glob.to_string()))
        });
        let entries = |what: &'static str, globs: &BTreeMap<String, Glob>| {
            let entry =
                |(key, glob): (&String, &Glob)| format!("{what} {key} {:?}", glob.to_string());
            globs.iter().map(entry).collect::<Vec<_>>()
        };
        let (labels, annotations) =
            (entries("label", &self.labels), entries("annotation", &self.annotations));
        let all: Vec<String> = names.chain(labels).chain(annotations).collect();
        f.write_str(if all.is_empty() { "all containers" } else { "" })?;
        f.write_str(&all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_rounded_down_but_is_one_cpu_at_least() {
        for (most, available, expected) in [
            (Most::Percent(50), 2, 1),
            (Most::Percent(50), 1, 1),
            (Most::Percent(50), 3, 1),
            (Most::Percent(50), 16, 8),
            (Most::Percent(0), 16, 0),
            (Most::Percent(100), 16, 16),
            (Most::Cpus(0), 16, 0),
            (Most::Cpus(3), 2, 3),
        ] {
            assert_eq!(most.of(available), expected, "{most:?} of {available}");
        }
    }

    #[test]
    fn a_quota_is_described_by_what_it_names() {
        let quota = |text: &str| toml::from_str::<Quota>(text).unwrap();
        assert_eq!(quota("exclusive_cpus = 1").to_string(), "all containers");
        let text = "exclusive_cpus = '25%'\nnamespace = 'a*'\nlabels = { team = 'x' }";
        assert_eq!(quota(text).to_string(), "namespace \"a*\", label team \"x\"");
        let both = quota("exclusive_cpus = 1\nper = 'pod'\nper_label = 'a'");
        assert_eq!(both.mistake(), Some("per and per_label exclude each other"));
    }
}
