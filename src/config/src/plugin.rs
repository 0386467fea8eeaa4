//! `[[plugin]]`: the policy for failures of a plugin, for what the plugin may change, and for the
//! privileges of its program.

use crate::{
    duration,
    generated::field_groups::FIELD_GROUPS,
    names::{CAPABILITIES, RLIMITS},
    size,
};
use nri_values::{Letters, parse_size};
use serde::{Deserialize, Deserializer, de::Error};
use std::{collections::BTreeMap, time::Duration};

/// Effect of a failure of a plugin on the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// The request proceeds without the plugin.
    #[default]
    Ignore,
    /// The request fails.
    Fail,
}

/// Effect of a validator's failure on the creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValidationFailure {
    /// The creation fails.
    #[default]
    Fail,
    /// The creation proceeds without the verdict.
    Ignore,
}

/// Whether a launched plugin is restarted after it exited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Restart {
    /// Restarted after a pause that grows with each failure.
    #[default]
    Always,
    /// Not restarted.
    Never,
}

/// `[[plugin]]`: the policy for a plugin, or for several.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginPolicy {
    /// Plugins to which the policy applies: `NN-name`, a name with any index, or `*` for every
    /// plugin that no other policy matches.
    #[serde(rename = "match")]
    pub pattern: String,
    /// Effect of a failure of the plugin on the request.
    #[serde(default, alias = "on-failure")]
    pub on_failure: OnFailure,
    /// Effect of a failure of the plugin on a creation that it has to validate.
    #[serde(default, alias = "validation-failure")]
    pub validation_failure: ValidationFailure,
    /// Whether creations are refused while the plugin is not connected.
    #[serde(default)]
    pub required: bool,
    /// Time limit of a request, in place of `plugin_request_timeout`.
    #[serde(default, deserialize_with = "duration::deserialize_option")]
    pub timeout: Option<Duration>,
    /// Number of timeouts in a row after which the connection is closed. Default: 1, unless the
    /// plugin requests to stay connected.
    #[serde(default, alias = "consecutive-timeouts")]
    pub consecutive_timeouts: Option<u32>,
    /// Whether the plugin is restarted after it exited.
    #[serde(default)]
    pub restart: Restart,
    /// First pause before a restart, in place of `plugin_restart_backoff`.
    #[serde(default, alias = "restart-backoff", deserialize_with = "duration::deserialize_option")]
    pub restart_backoff: Option<Duration>,
    /// Field groups that the plugin may change. Default: all.
    #[serde(default)]
    pub allow: Option<Vec<FieldGroup>>,
    /// Field groups that the plugin may not change, even if they are allowed.
    #[serde(default)]
    pub deny: Vec<FieldGroup>,
    /// Users that may connect as this plugin, besides root and the user of `nrid`. Ignored for `*`:
    /// a name without a policy of its own is open to every user that may connect.
    #[serde(default)]
    pub uids: Vec<u32>,
    /// User of a launched plugin. Default: the user of `nrid`.
    #[serde(default)]
    pub user: Option<User>,
    /// Capabilities that a launched plugin keeps. Default: the capabilities of `nrid` that the
    /// plugin's user may have.
    #[serde(default)]
    pub capabilities: Option<Vec<Capability>>,
    /// Whether a launched plugin and its children run with `no_new_privs` (prctl(2)).
    #[serde(default, alias = "no-new-privs")]
    pub no_new_privs: bool,
    /// Resource limits of a launched plugin. Default: the limits of `nrid`.
    #[serde(default)]
    pub rlimits: BTreeMap<Rlimit, Limit>,
    /// Limit of the memory of a WebAssembly module in MiB, not 0.
    #[serde(
        default = "default_wasm_memory",
        alias = "wasm-memory",
        deserialize_with = "size::mebibytes"
    )]
    pub wasm_memory: u16,
    /// Whether only one instance of the plugin may run on the node, so that a plugin that an
    /// engine's own NRI launches is not launched by `nrid`, too. Default: by the plugin's name.
    #[serde(default, alias = "single-instance")]
    pub single_instance: Option<bool>,
    /// Whether a second instance of the plugin may be launched beside the running one, for
    /// `nrictl dry-run`.
    #[serde(default, alias = "dry-run")]
    pub dry_run: bool,
}

/// Default of [`PluginPolicy::wasm_memory`]. Programs in Go start with 15 MiB, and messages have at
/// most 4 MiB.
pub(crate) const DEFAULT_WASM_MEMORY: u16 = 128;

fn default_wasm_memory() -> u16 {
    DEFAULT_WASM_MEMORY
}

/// Defines a type that can only hold a name of `$table`. `$normal` converts a name of the
/// configuration to the spelling of the table.
macro_rules! named {
    ($(#[$doc:meta])* $type:ident, $table:ident, $what:literal, $normal:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(&'static str);

        impl $type {
            /// Looks up a name.
            pub fn new(name: &str) -> Option<Self> {
                let name: String = $normal(name);
                $table.iter().find(|known| **known == name).map(|known| Self(known))
            }

            /// Returns the name.
            pub fn name(self) -> &'static str {
                self.0
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                // A visitor, so that the error has the line and column of the name.
                struct Visitor;
                impl serde::de::Visitor<'_> for Visitor {
                    type Value = $type;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!("the name of a ", $what))
                    }
                    fn visit_str<E: Error>(self, name: &str) -> Result<$type, E> {
                        $type::new(name).ok_or_else(|| {
                            E::custom(format!("{name:?} is not a {}; known names: \
                                               {}", $what, $table.join(", ")))
                        })
                    }
                }
                d.deserialize_str(Visitor)
            }
        }
    };
}

named! {
    /// A group of fields that plugins can change: one of [`FIELD_GROUPS`].
    FieldGroup, FIELD_GROUPS, "field group", str::to_owned
}
named! {
    /// A capability of the kernel, in lower case and without the prefix `cap_`: one of
    /// [`CAPABILITIES`].
    Capability, CAPABILITIES, "capability", |name: &str| {
        let name = name.to_ascii_lowercase();
        name.strip_prefix("cap_").unwrap_or(&name).to_owned()
    }
}
named! {
    /// A resource limit, in lower case and without the prefix `rlimit_`: one of [`RLIMITS`].
    Rlimit, RLIMITS, "resource limit", |name: &str| {
        let name = name.to_ascii_lowercase();
        name.strip_prefix("rlimit_").unwrap_or(&name).to_owned()
    }
}

/// The value of a resource limit, soft and hard alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// A number, in the unit of the limit.
    Value(u64),
    /// No limit.
    Unlimited,
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Limit;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(
                    "a number that is not negative, a size such as \"64MiB\", or \"unlimited\"",
                )
            }
            fn visit_i64<E: Error>(self, n: i64) -> Result<Limit, E> {
                let value = u64::try_from(n);
                value
                    .map(Limit::Value)
                    .map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(n), &self))
            }
            fn visit_str<E: Error>(self, s: &str) -> Result<Limit, E> {
                match s {
                    "unlimited" => Ok(Limit::Unlimited),
                    _ => parse_size(s, Letters::Decimal)
                        .map(Limit::Value)
                        .map_err(|_| E::invalid_value(serde::de::Unexpected::Str(s), &self)),
                }
            }
        }
        d.deserialize_any(Visitor)
    }
}

/// A user, and optionally a group: `name`, `uid`, `name:group` or `uid:gid`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The user.
    pub user: Account,
    /// The only group of the process. Default: the groups of the user.
    pub group: Option<Account>,
}

/// A user or a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Account {
    /// Numeric id.
    Id(u32),
    /// Name.
    Name(String),
}

impl Account {
    fn parse(text: &str) -> Option<Self> {
        if text.bytes().all(|b| b.is_ascii_digit()) {
            // The kernel reserves the largest id for "no user".
            return text.parse().ok().filter(|id| *id != u32::MAX).map(Self::Id);
        }
        let is_allowed = |b: u8| b.is_ascii_graphic() && !matches!(b, b':' | b'/' | b',');
        (!text.starts_with('-') && text.bytes().all(is_allowed))
            .then(|| Self::Name(text.to_owned()))
    }
}

impl std::fmt::Display for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for User {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        let (user, group) = match text.split_once(':') {
            Some((user, group)) => (Account::parse(user), Account::parse(group).map(Some)),
            None => (Account::parse(&text), Some(None)),
        };
        match (user, group) {
            (Some(user), Some(group)) => Ok(Self { user, group }),
            _ => Err(D::Error::custom(format!(
                "{text:?} is not a user, such as \"nobody\", \"1000\" or \"1000:1000\""
            ))),
        }
    }
}
