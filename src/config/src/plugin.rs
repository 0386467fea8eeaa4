//! `[[plugin]]`: the policy for failures of a plugin, for what the plugin may change, and for the
//! privileges of its program.

use crate::{
    budget::Budget,
    digest::Digest,
    duration,
    generated::field_groups::FIELD_GROUPS,
    names::{CAPABILITIES, RLIMITS},
    plugin_scope::{OutsideScope, PluginMode, PluginScope},
    reference::{choices, section},
    size,
};
use nri_values::{Letters, parse_size};
use serde::{Deserialize, Deserializer, de::Error};
use std::{collections::BTreeMap, time::Duration};

section! {
    /// One table for each policy. Exactly one policy applies to a plugin: that of `NN-name`, else
    /// that of `name`, else that of `*`. Two policies with the same `match` are an error.
    #[section("[[plugin]]", "Policies of plugins")]
    #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct PluginPolicy {
        /// The plugins to which the policy applies: the one with this index and name, those with
        /// this name and any index, or all that no other policy matches.
        #[key(Text("`NN-name`, `name` or `*`"), Required, "\"10-device-injector\"", "match")]
        #[serde(rename = "match")]
        pub pattern: String,
        /// What happens to a request to which the plugin replies too late, not at all, or with
        /// something that cannot be decoded. An error reply fails the request in any case. While
        /// the plugin is not connected, only `required` applies. A plugin can ask for `"fail"`
        /// itself; the stricter of both holds.
        #[key(Choice(OnFailure::CHOICES), Value("\"ignore\""), "\"fail\"")]
        #[serde(default, alias = "on-failure")]
        pub on_failure: OnFailure,
        /// What happens to a container that the plugin should validate, and for which its verdict
        /// comes too late, not at all, or cannot be decoded. `on_failure` has no effect on
        /// validation: otherwise stalling a validator would bypass it. `"ignore"` has no effect on
        /// a plugin that asks for failed requests itself.
        #[key(Choice(ValidationFailure::CHOICES), Value("\"fail\""), "\"ignore\"")]
        #[serde(default, alias = "validation-failure")]
        pub validation_failure: ValidationFailure,
        /// Refuses to create containers while the plugin is not connected. An engine's update of
        /// fields that the plugin has set in a container is refused, too.
        #[key(Boolean, Value("false"), "true")]
        #[serde(default)]
        pub required: bool,
        /// Time in which the plugin has to reply to a request.
        #[key(Duration, Derived("`plugin_request_timeout`."), "\"5s\"")]
        #[serde(default, deserialize_with = "duration::deserialize_option")]
        pub timeout: Option<Duration>,
        /// Number of timeouts in a row after which the connection to the plugin is closed; `0`:
        /// never. A value in the file holds, whatever the plugin asks for.
        #[key(Integer, Derived("`1`, or `0` if the plugin asks to stay connected."), "3")]
        #[serde(default, alias = "consecutive-timeouts")]
        pub consecutive_timeouts: Option<u32>,
        /// Limits a plugin that gets slow: while its replies take longer than `time` for more than
        /// `share` of the recent containers, creations and updates skip it as with `on_failure =
        /// "ignore"`. It is tried again after `pause`, and called for all containers again once a
        /// reply is fast. Has no effect on a plugin that is `required`, has `on_failure = "fail"`
        /// or asks for failed requests itself, and none on verdicts of validators. See [a plugin
        /// that gets slow](plugins.md#a-plugin-that-gets-slow).
        #[key(
            Table("Table of `time`, `share` (`\"50%\"` if it is not set) and `pause` (`\"30s\"`)"),
            Derived("the plugin is called however slow it is, up to its `timeout`."),
            "{ time = \"200ms\", share = \"50%\", pause = \"30s\" }"
        )]
        #[serde(default)]
        pub budget: Option<Budget>,
        /// What happens to a launched plugin that exited.
        #[key(Choice(Restart::CHOICES), Value("\"always\""), "\"never\"")]
        #[serde(default)]
        pub restart: Restart,
        /// First pause before the plugin is launched again.
        #[key(Duration, Derived("`plugin_restart_backoff`."), "\"10s\"")]
        #[serde(
            default,
            alias = "restart-backoff",
            deserialize_with = "duration::deserialize_option"
        )]
        pub restart_backoff: Option<Duration>,
        /// Field groups that the plugin may change. A reply that changes others is refused, and
        /// with it the container.
        #[key(
            List("List of field groups"),
            Derived("everything is allowed."),
            "[\"devices\", \"resources.cpu\"]"
        )]
        #[serde(default)]
        pub allow: Option<Vec<FieldGroup>>,
        /// Field groups that the plugin may not change, even if they are allowed.
        #[key(List("List of field groups"), Value("[]"), "[\"hooks\", \"namespaces\"]")]
        #[serde(default)]
        pub deny: Vec<FieldGroup>,
        /// Users that may connect as this plugin, besides root and the user of `nrid`. Ignored for
        /// `*`: a name without a policy of its own is open to every user that may connect.
        #[key(List("List of user ids"), Value("[]"), "[1000]")]
        #[serde(default)]
        pub uids: Vec<u32>,
        /// User, and group, that a launched plugin runs as.
        #[key(
            Text("`name`, `uid`, `name:group` or `uid:gid`"),
            Derived("the user of `nrid`."),
            "\"nobody\""
        )]
        #[serde(default)]
        pub user: Option<User>,
        /// Capabilities that a launched plugin keeps; `[]` means none. New installations have a
        /// policy for `*` with `[]`.
        #[key(
            List("List of capabilities, such as `net_admin`"),
            Derived("the capabilities of `nrid` that the plugin's user may have."),
            "[\"net_admin\"]"
        )]
        #[serde(default)]
        pub capabilities: Option<Vec<Capability>>,
        /// Neither a launched plugin nor its children can gain privileges.
        #[key(Boolean, Value("false"), "true")]
        #[serde(default, alias = "no-new-privs")]
        pub no_new_privs: bool,
        /// Resource limits of a launched plugin. Each value sets both the soft and the hard limit.
        #[key(
            Table("Table from limits, such as `nofile`, to numbers, sizes or `\"unlimited\"`"),
            Derived("the limits of `nrid`."),
            "{ nofile = 1024, memlock = \"unlimited\" }"
        )]
        #[serde(default)]
        pub rlimits: BTreeMap<Rlimit, Limit>,
        /// Digest of the file of a launched plugin: its program, script or WebAssembly module, but
        /// not what that loads. A file with another digest is not launched, and a file with this
        /// digest runs from a copy in memory. Not in a policy for `*`; see
        /// [plugins](plugins.md#pin-a-plugin-by-its-digest).
        #[key(
            Text("`sha256:` and 64 hexadecimal digits"),
            Derived("any file is launched."),
            "\"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\""
        )]
        #[serde(default)]
        pub digest: Option<Digest>,
        /// Limit of the memory of a plugin that is a WebAssembly module; a bare number means MiB.
        #[key(Size, Value("\"128MiB\""), "\"64MiB\"")]
        #[serde(
            default = "default_wasm_memory",
            alias = "wasm-memory",
            deserialize_with = "size::mebibytes"
        )]
        pub wasm_memory: u16,
        /// The plugin manages resources of the whole node. While an engine's own NRI launches it
        /// from `/opt/nri/plugins` for the engine's containers, `nrid` does not launch it for
        /// others: they are created without it, or refused if it is `required`. `nrictl install
        /// ENGINE --nri ours` ends that.
        #[key(
            Boolean,
            Derived(
                "`true` for plugins that assign CPUs: `topology`, `balloons`, `topology-aware`."
            ),
            "true"
        )]
        #[serde(default, alias = "single-instance")]
        pub single_instance: Option<bool>,
        /// Allows `nrictl dry-run` to launch another instance of the plugin beside the running one,
        /// without capabilities and network and with a read-only `/sys`. Not for a plugin that
        /// needs a lock or a port, or that writes files elsewhere.
        #[key(Boolean, Value("false"), "true")]
        #[serde(default, alias = "dry-run")]
        pub dry_run: bool,
        /// Whether what the plugin changes and refuses takes effect.
        #[key(Choice(PluginMode::CHOICES), Value("\"apply\""), "\"observe\"")]
        #[serde(default)]
        pub mode: PluginMode,
        /// The containers that the plugin is for: those for which all keys of the table match.
        /// `namespaces`, `engines`, `runtimes` and `images` are lists of patterns, of which one
        /// must match: the namespace of the pod, the engine and the real runtime as `nrictl
        /// containers` shows them, the name of the image. `labels` is a table of labels of the
        /// pod, with a pattern for each value; the pod of a container outside a pod has its
        /// labels. In a pattern, `*` stands for any characters. [Which of these tenants
        /// choose](security.md#which-attributes-tenants-choose) differs between engines.
        /// `required`, and the `required_plugins` of the built-in validator, refuse only
        /// containers of the scope.
        #[key(
            Table("Table of `namespaces`, `engines`, `runtimes`, `labels`, `images`"),
            Derived("the plugin is for all containers."),
            "{ namespaces = [\"team-*\"], labels = { tier = \"gold\" } }"
        )]
        #[serde(default)]
        pub scope: Option<PluginScope>,
        /// What the plugin sees of pods and containers outside `scope`.
        #[key(Choice(OutsideScope::CHOICES), Value("\"hidden\""), "\"read_only\"")]
        #[serde(default, alias = "outside-scope")]
        pub outside_scope: OutsideScope,
    }
}

impl PluginPolicy {
    /// Whether containers are refused while the plugin is not connected.
    pub fn refuses_without(&self) -> bool {
        self.required && self.mode == PluginMode::Apply
    }

    /// Whether its scope depends on labels.
    pub fn is_limited_by_labels(&self) -> bool {
        self.scope.as_ref().is_some_and(|scope| !scope.labels.is_empty())
    }
}

choices! {
    /// Effect of a failure of a plugin on the request.
    pub enum OnFailure {
        /// The request proceeds without the plugin.
        Ignore = "ignore",
        /// The request fails.
        Fail = "fail",
    }
}

choices! {
    /// Effect of a validator's failure on the creation.
    pub enum ValidationFailure {
        /// The container is refused.
        Fail = "fail",
        /// The container is created without the verdict of the plugin.
        Ignore = "ignore",
    }
}

choices! {
    /// Whether a launched plugin is restarted after it exited.
    pub enum Restart {
        /// It is launched again, after a pause that grows with each failure.
        Always = "always",
        /// It is not launched again.
        Never = "never",
    }
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
