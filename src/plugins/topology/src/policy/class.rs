//! A class of containers: what the policy gives to them.

use crate::hardware::machine::Level;
use nri_values::{Letters, parse_size};
use serde::Deserialize;
use std::{fmt, ops::RangeInclusive, str::FromStr};

/// A class of containers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Class {
    /// Whose CPUs the containers use.
    pub cpus: Cpus,
    /// Number of exclusive CPUs. Without it, what the container asks for, rounded up.
    pub count: Option<usize>,
    /// What happens to the other threads of cores with exclusive CPUs.
    pub smt: Smt,
    /// The kind of cores.
    pub cores: Cores,
    /// The group that must have all CPUs of a container.
    pub within: Within,
    /// What happens to a container that cannot get exclusive CPUs.
    pub unsatisfied: Unsatisfied,
    /// Whether only rules choose the class; containers cannot ask for it.
    pub by_rule_only: bool,
    /// Run only when no other container wants the CPU: `cpu.idle`, and with cgroup v1 the lowest
    /// weight.
    pub idle: bool,
    /// Weight of CPU time, in CPU shares: 1024 is the default of engines.
    pub shares: Option<u64>,
    /// Where the cgroups of the containers are; see [`Class::is_at_root`].
    pub cgroup: Option<CgroupParent>,
    /// Whether containers of idle classes may use exclusive CPUs that idle; see [`Class::lends`].
    pub lend: Option<bool>,
    /// `memory.min`: memory that is never reclaimed.
    pub memory_min: Option<Amount>,
    /// `memory.low`: memory that is reclaimed last.
    pub memory_low: Option<Amount>,
    /// `memory.high`: memory from which on the container is slowed down.
    pub memory_high: Option<Amount>,
    /// Class of block I/O, of the runtime's class file.
    pub blockio_class: Option<String>,
    /// Class of caches and memory bandwidth (RDT).
    pub rdt_class: Option<String>,
}

/// The cgroup around that of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CgroupParent {
    /// The root.
    Root,
    /// What the engine has chosen.
    Engine,
}

/// Whose CPUs a container uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cpus {
    /// Those of the shared pool.
    #[default]
    Shared,
    /// Its own.
    Exclusive,
    /// Those that it has: the plugin does not change the container.
    Unmanaged,
}

/// What happens to the other threads of a core.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Smt {
    /// Others may use them.
    #[default]
    Share,
    /// The container gets all threads of its cores.
    Whole,
    /// The container gets one thread of each core; the others stay unused.
    Single,
}

/// Kind of cores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cores {
    /// All.
    #[default]
    Any,
    /// The fastest ones.
    Performance,
    /// All but the fastest ones.
    Efficiency,
}

/// The group of CPUs that must have all CPUs of a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Within {
    /// The machine: any CPUs, but as near to each other as possible.
    #[default]
    Machine,
    /// A package.
    Package,
    /// A memory node.
    Node,
    /// A cache of level 3.
    L3,
}

/// See [`Class::unsatisfied`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unsatisfied {
    /// It is not created.
    #[default]
    Refuse,
    /// It uses the shared pool until there are exclusive CPUs for it.
    Share,
}

/// CPU shares that kernels accept.
const SHARES: RangeInclusive<u64> = 2..=262_144;

/// Amount of memory: bytes, or a part of the container's memory limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// Percent of the limit; nothing for a container without a limit.
    Percent(u64),
}

impl Class {
    /// Returns which keys do not go together.
    pub(crate) fn mistake(&self) -> Option<&'static str> {
        let is_exclusive = self.cpus == Cpus::Exclusive;
        let mistakes = [
            (is_exclusive && self.count == Some(0), "count is 0"),
            (!is_exclusive && self.count.is_some(), "count needs cpus = \"exclusive\""),
            (!is_exclusive && self.lend.is_some(), "lend needs cpus = \"exclusive\""),
            (self.cpus == Cpus::Shared && self.smt != Smt::Share, "smt needs cpus = \"exclusive\""),
            (self.idle && self.shares.is_some(), "idle and shares exclude each other"),
            (
                self.shares.is_some_and(|shares| !SHARES.contains(&shares)),
                "shares must be 2 to 262144",
            ),
            (
                matches!(self.memory_high, Some(Amount::Bytes(0) | Amount::Percent(0))),
                "memory_high is 0, with which no process makes progress",
            ),
        ];
        mistakes.into_iter().find_map(|(is_made, why)| is_made.then_some(why))
    }

    /// Whether cgroups of containers that are below an engine's default one are made at the root
    /// instead, where no other cgroup has a part of their weight.
    pub fn is_at_root(&self) -> bool {
        let is_default = self.cpus == Cpus::Exclusive || self.idle;
        self.cgroup.map_or(is_default, |parent| parent == CgroupParent::Root)
    }

    /// Whether containers of idle classes may use the exclusive CPUs of this class. By default not
    /// if it wants whole cores: their threads share what a core has, also with idle ones.
    pub fn lends(&self) -> bool {
        self.cpus == Cpus::Exclusive && !self.idle && self.lend.unwrap_or(self.smt == Smt::Share)
    }
}

impl Within {
    /// Returns the level of the groups; `None` for the machine.
    pub fn level(self) -> Option<Level> {
        match self {
            Self::Machine => None,
            Self::Package => Some(Level::Package),
            Self::Node => Some(Level::Node),
            Self::L3 => Some(Level::L3),
        }
    }
}

impl fmt::Display for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Machine => "the machine",
            Self::Package => "one package",
            Self::Node => "one memory node",
            Self::L3 => "one cache of level 3",
        })
    }
}

impl Amount {
    /// Returns the bytes for a container with this limit.
    pub fn bytes(self, limit: Option<u64>) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Percent(percent) => limit.map(|limit| limit / 100 * percent),
        }
    }
}

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no amount of memory such as \"512MiB\" or \"80%\"");
        if let Some(percent) = text.trim().strip_suffix('%') {
            let percent = percent.trim_end().parse().ok().filter(|percent| *percent <= 100);
            return percent.map(Self::Percent).ok_or_else(wrong);
        }
        // Policies had the letters with this meaning before other units.
        parse_size(text, Letters::Binary).map(Self::Bytes).map_err(|_| wrong())
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AmountVisitor;
        impl serde::de::Visitor<'_> for AmountVisitor {
            type Value = Amount;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an amount of memory such as \"512MiB\" or \"80%\"")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Amount, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_i64<E: serde::de::Error>(self, bytes: i64) -> Result<Amount, E> {
                let wrong = |_| E::invalid_value(serde::de::Unexpected::Signed(bytes), &self);
                u64::try_from(bytes).map(Amount::Bytes).map_err(wrong)
            }
        }
        deserializer.deserialize_any(AmountVisitor)
    }
}
