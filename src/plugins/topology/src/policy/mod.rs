//! The policy: what an administrator wants, as a TOML file. Its meaning for a container is in
//! `request.rs`.

mod class;

pub use class::{Amount, CgroupParent, Class, Cores, Cpus, Smt, Unsatisfied, Within};

use crate::{
    hardware::cpuset::CpuSet,
    pattern::Glob,
    quota::{Most, Quota},
};
use serde::Deserialize;
use std::{collections::BTreeMap, path::PathBuf, str::FromStr};

/// Class of containers for which no rule and no request names one.
pub const SHARED: &str = "shared";

/// Class of containers that ask for a number of CPUs of their own, and for no class.
pub const EXCLUSIVE: &str = "exclusive";

/// A policy. The default is an empty file.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// CPUs that the plugin gives to no container: a list, or a number of CPUs, which are whole
    /// cores beginning with the first one. The engine may have set them, see `user_cpuset`.
    pub reserved_cpus: Reserved,
    /// The least number of CPUs in the shared pool.
    pub shared_min: usize,
    /// Class of containers for which no rule and no request names one.
    pub default_class: String,
    /// Where containers may ask for a class and for a number of CPUs.
    pub requests_from: Vec<Source>,
    /// How many CPUs containers may take together that no rule gives them, and that no quota
    /// limits.
    pub requests_max: Most,
    /// What happens to CPUs that the engine has set for a container (`docker run --cpuset-cpus`).
    pub user_cpuset: UserCpuset,
    /// Whether memory nodes follow CPUs.
    pub memory_nodes: bool,
    /// How many containers with exclusive CPUs one event may move to improve their placement.
    pub max_moves: usize,
    /// Socket for `nri-topology status`; none if empty.
    pub socket: PathBuf,
    /// Classes by name.
    #[serde(rename = "class")]
    pub classes: BTreeMap<String, Class>,
    /// Rules; the first one that matches a container chooses its class.
    #[serde(rename = "rule")]
    pub rules: Vec<Rule>,
    /// Quotas; the first one that matches a container is its own.
    #[serde(rename = "quota")]
    pub quotas: Vec<Quota>,
}

/// Reserved CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "a number of CPUs, or a list such as \"0-1,8\"")]
pub enum Reserved {
    /// As many whole cores as have this number of CPUs.
    Count(usize),
    /// These CPUs.
    List(CpuSet),
}

/// Where a container may ask for a class and CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Its annotations, and those of its pod.
    Annotation,
    /// Its labels, which include those of its image, and those of its pod.
    Label,
}

/// See [`Policy::user_cpuset`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UserCpuset {
    /// The container keeps them. As far as a quota allows it, others do not get them exclusively
    /// meanwhile.
    Keep,
    /// The class decides.
    Override,
}

/// A rule. It matches a container for which everything that it names is true; names are patterns
/// with `*`, `?` and `[a-z]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The class of the containers.
    pub class: String,
    /// Name of the container.
    pub name: Option<Glob>,
    /// Name of the image, where the engine tells it.
    pub image: Option<Glob>,
    /// Name of the pod.
    pub pod: Option<Glob>,
    /// Namespace of the pod.
    pub namespace: Option<Glob>,
    /// Labels of the container or its pod.
    #[serde(default)]
    pub labels: BTreeMap<String, Glob>,
    /// Annotations of the container or its pod.
    #[serde(default)]
    pub annotations: BTreeMap<String, Glob>,
    /// Whether the container asks for a whole number of CPUs (`docker run --cpus 2`).
    pub whole_cpus: Option<bool>,
    /// The least number of CPUs that the container asks for.
    pub min_cpus: Option<u32>,
}

/// Policy that has no meaning.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// It is not TOML, or a key or a value is unknown.
    #[error(transparent)]
    Toml(#[from] nri_plugin::ConfigurationError),
    /// A class is not defined.
    #[error("{by} names the class {class:?}, which is not defined: add [class.{class}]")]
    NoClass {
        /// Who names it.
        by: String,
        /// Its name.
        class: String,
    },
    /// A class has keys that do not go together.
    #[error("class {class:?}: {why}")]
    Class {
        /// Its name.
        class: String,
        /// What does not go together.
        why: &'static str,
    },
    /// A quota has keys that do not go together.
    #[error("quota {number}: {why}")]
    Quota {
        /// Its number, from 1 on.
        number: usize,
        /// What does not go together.
        why: &'static str,
    },
    /// The shared pool would be empty.
    #[error(
        "{reserved} CPUs are reserved or isolated (isolcpus=) and the shared pool needs \
         {shared_min}, but the machine has {online}: reserve fewer"
    )]
    NothingShared {
        /// Number of reserved and isolated CPUs.
        reserved: usize,
        /// Least number of shared CPUs.
        shared_min: usize,
        /// Number of CPUs.
        online: usize,
    },
    /// A reserved CPU does not exist.
    #[error("reserved_cpus has CPUs that are not online: {0}")]
    NotOnline(CpuSet),
}

impl Default for Policy {
    fn default() -> Self {
        let mut policy = Self {
            reserved_cpus: Reserved::Count(0),
            shared_min: 1,
            default_class: SHARED.to_owned(),
            requests_from: vec![Source::Annotation],
            requests_max: Most::Percent(50),
            user_cpuset: UserCpuset::Keep,
            memory_nodes: true,
            max_moves: 1,
            socket: "/run/nri-topology/status.sock".into(),
            classes: BTreeMap::new(),
            rules: Vec::new(),
            quotas: Vec::new(),
        };
        policy.add_classes();
        policy
    }
}

impl Policy {
    /// Adds the classes that always exist, unless they are defined.
    fn add_classes(&mut self) {
        self.classes.entry(SHARED.to_owned()).or_default();
        let exclusive = || Class { cpus: Cpus::Exclusive, ..Class::default() };
        self.classes.entry(EXCLUSIVE.to_owned()).or_insert_with(exclusive);
    }

    /// Whether there is a class with this name.
    pub(crate) fn has_class(&self, name: &str) -> bool {
        self.classes.contains_key(name)
    }

    fn check(&self) -> Result<(), PolicyError> {
        let named = self.rules.iter().enumerate();
        let named = named.map(|(index, rule)| (format!("rule {}", index + 1), &rule.class));
        let default = ("default_class".to_owned(), &self.default_class);
        for (by, class) in named.chain([default]) {
            if !self.classes.contains_key(class) {
                return Err(PolicyError::NoClass { by, class: class.clone() });
            }
        }
        for (index, quota) in self.quotas.iter().enumerate() {
            if let Some(why) = quota.mistake() {
                return Err(PolicyError::Quota { number: index + 1, why });
            }
        }
        for (name, class) in &self.classes {
            let why = if name.is_empty() { Some("a class needs a name") } else { class.mistake() };
            if let Some(why) = why {
                return Err(PolicyError::Class { class: name.clone(), why });
            }
        }
        Ok(())
    }
}

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let mut policy: Self = nri_plugin::from_toml(text)?;
        policy.add_classes();
        policy.check()?;
        Ok(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read() {
        let text = r#"
            reserved_cpus = "0-1"
            [class.fast]
            cpus = "exclusive"
            within = "node"
            memory_high = "80%"
            [[rule]]
            class = "fast"
            name = "web-*"
        "#;
        let policy: Policy = text.parse().unwrap();
        assert_eq!(policy.reserved_cpus, Reserved::List("0-1".parse().unwrap()));
        assert_eq!(policy.classes["fast"].memory_high, Some(Amount::Percent(80)));
        assert!(policy.rules[0].name.as_ref().unwrap().matches("web-1"));
        assert_eq!(policy.classes.len(), 3);
        assert_eq!(
            "reserved_cpus = 2".parse::<Policy>().unwrap().reserved_cpus,
            Reserved::Count(2)
        );
        for text in ["1G", "1Gi", "1GiB", "1 GiB", "1024M", "1073741824"] {
            assert_eq!(text.parse(), Ok(Amount::Bytes(1 << 30)), "{text}");
        }
        assert_eq!(
            toml::from_str::<BTreeMap<String, Amount>>("a = 4096").unwrap()["a"],
            Amount::Bytes(4096)
        );
    }

    #[test]
    fn mistakes_are_named() {
        let check = |text: &str, expected: &str| {
            let error = text.parse::<Policy>().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(
            "reserved = 1",
            "line 1, column 1: unknown key `reserved`, did you mean `reserved_cpus`?",
        );
        check("\nreserved_cpus = \"a\"", "line 2");
        check("reserved_cpus = \"a\"", "a number of CPUs, or a list");
        check("default_class = \"x\"", "default_class names the class \"x\", which is not defined");
        check("[[rule]]\nclass = \"x\"", "rule 1 names the class \"x\"");
        check("[class.a]\ncount = 1", "class \"a\": count needs");
        check("requests_max = '101%'", "a number of CPUs, or a part such as");
        check("[[quota]]\nper = 'pod'", "exclusive_cpus");
        let two = "[[quota]]\nexclusive_cpus = 1\nper = 'pod'\nper_label = 'a'";
        check(two, "quota 1: per and per_label exclude each other");
        check("[class.a]\nidle = true\nshares = 2", "exclude each other");
        check("[class.a]\nshares = 0", "shares must be 2 to 262144");
        check("[class.a]\nmemory_high = \"0%\"", "memory_high is 0");
        check("[class.'']", "a class needs a name");
        check("[class.a]\nmemory_min = \"101%\"", "no amount of memory");
        check(
            "[class.a]\nwithin = \"rack\"",
            "line 2, column 10: class.a.within must be one of \"machine\", ",
        );
        check("[class.a]\ncount = -1", "line 2, column 9: class.a.count must be a whole number");
        check("[class.a]\nmemory_low = -1", "class.a.memory_low must be an amount of memory such");
        check("[[rule]]\nclass = \"shared\"\nname = \"[\"", "line 3");
    }
}
