//! `[[plugin]]`: how a plugin is treated, what it may change, and as whom its program runs.

use crate::{
    duration,
    names::{CAPABILITIES, FIELD_GROUPS, RLIMITS},
};
use serde::{Deserialize, Deserializer, de::Error};
use std::{collections::BTreeMap, time::Duration};

/// What a failing plugin means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// The request goes on without it.
    #[default]
    Ignore,
    /// The request fails.
    Fail,
}

/// Whether a launched plugin that ended is launched again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Restart {
    /// After a pause that grows from one failure to the next.
    #[default]
    Always,
    /// It stays away.
    Never,
}

/// `[[plugin]]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginPolicy {
    /// `NN-name`, a name under any index, or `*`: every plugin that no other policy is about.
    #[serde(rename = "match")]
    pub pattern: String,
    /// What its failure means.
    #[serde(default, alias = "on-failure")]
    pub on_failure: OnFailure,
    /// No container is created while it is not there.
    #[serde(default)]
    pub required: bool,
    /// In place of `plugin_request_timeout`.
    #[serde(default, deserialize_with = "duration::deserialize_option")]
    pub timeout: Option<Duration>,
    /// How many timeouts in a row close its connection.
    #[serde(default = "one", alias = "consecutive-timeouts")]
    pub consecutive_timeouts: u32,
    /// Whether it is launched again when it ended.
    #[serde(default)]
    pub restart: Restart,
    /// In place of `plugin_restart_backoff`.
    #[serde(default, alias = "restart-backoff", deserialize_with = "duration::deserialize_option")]
    pub restart_backoff: Option<Duration>,
    /// All that it may change; without it, everything.
    #[serde(default)]
    pub allow: Option<Vec<FieldGroup>>,
    /// What it may not change, even if it is allowed.
    #[serde(default)]
    pub deny: Vec<FieldGroup>,
    /// Users, beside root and that of `nrid`, who may connect as this plugin. Not for `*`: other
    /// names are free for all who may connect.
    #[serde(default)]
    pub uids: Vec<u32>,
    /// As whom it runs, when it is launched. Default: as `nrid`.
    #[serde(default)]
    pub user: Option<User>,
    /// The capabilities that it keeps, when it is launched. Default: those of `nrid`, as far as its
    /// user may have them.
    #[serde(default)]
    pub capabilities: Option<Vec<Capability>>,
    /// Neither it nor what it runs can gain privileges.
    #[serde(default, alias = "no-new-privs")]
    pub no_new_privs: bool,
    /// Its resource limits, when it is launched. Default: those of `nrid`.
    #[serde(default)]
    pub rlimits: BTreeMap<Rlimit, Limit>,
}

fn one() -> u32 {
    1
}

/// The name of one of some, as a type that cannot be wrong.
macro_rules! named {
    ($(#[$doc:meta])* $type:ident, $table:ident, $what:literal, $normal:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(&'static str);

        impl $type {
            /// The one of this name, if there is one.
            pub fn new(name: &str) -> Option<Self> {
                let name: String = $normal(name);
                $table.iter().find(|known| **known == name).map(|known| Self(known))
            }

            /// Its name.
            pub fn name(self) -> &'static str {
                self.0
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                // A visitor, so that the error is where the name is.
                struct Visitor;
                impl serde::de::Visitor<'_> for Visitor {
                    type Value = $type;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!("the name of a ", $what))
                    }
                    fn visit_str<E: Error>(self, name: &str) -> Result<$type, E> {
                        $type::new(name).ok_or_else(|| {
                            E::custom(format!("{name:?} is no {}; there are {}", $what, $table.join(", ")))
                        })
                    }
                }
                d.deserialize_str(Visitor)
            }
        }
    };
}

named! {
    /// A group of what plugins can change: one of [`FIELD_GROUPS`].
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
    /// A number, in the limit's own unit.
    Value(u64),
    /// None.
    Unlimited,
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Limit;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number that is not negative, or \"unlimited\"")
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
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(s), &self)),
                }
            }
        }
        d.deserialize_any(Visitor)
    }
}

/// A user, and a group where that is not the user's own: `name`, `uid`, `name:group` or `uid:gid`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Whom.
    pub user: Account,
    /// Its only group; without it, the groups that the user is in.
    pub group: Option<Account>,
}

/// A user or a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Account {
    /// By number.
    Id(u32),
    /// By name.
    Name(String),
}

impl Account {
    fn parse(text: &str) -> Option<Self> {
        if text.bytes().all(|b| b.is_ascii_digit()) {
            // The largest number means "no user" to the kernel.
            return text.parse().ok().filter(|id| *id != u32::MAX).map(Self::Id);
        }
        let good = |b: u8| b.is_ascii_graphic() && !matches!(b, b':' | b'/' | b',');
        (!text.starts_with('-') && text.bytes().all(good)).then(|| Self::Name(text.to_owned()))
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
                "{text:?} is no user, such as \"nobody\", \"1000\" or \"1000:1000\""
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::*;

    fn policy(text: &str) -> Result<PluginPolicy, String> {
        let text = format!("[[plugin]]\nmatch = 'a'\n{text}\n");
        Config::parse(&text).map(|c| c.plugin[0].clone()).map_err(|e| e.to_string())
    }

    /// The beginning of the complaint.
    fn check(text: &str, expected: &str) {
        let error = policy(text).unwrap_err();
        assert!(error.starts_with(expected), "{text}: {error}");
    }

    #[test]
    fn without_anything_else_a_plugin_may_do_all_and_is_launched_again() {
        let plain = policy("").unwrap();
        assert_eq!((plain.restart, plain.restart_backoff), (Restart::Always, None));
        assert_eq!((plain.allow, plain.deny), (None, vec![]));
        assert_eq!((plain.user, plain.capabilities, plain.no_new_privs), (None, None, false));
        assert!(plain.rlimits.is_empty());
    }

    #[test]
    fn restart() {
        let policy = policy("restart = 'never'\nrestart-backoff = '250ms'").unwrap();
        assert_eq!(
            (policy.restart, policy.restart_backoff),
            (Restart::Never, Some(std::time::Duration::from_millis(250)))
        );
        check(
            "restart = 'sometimes'",
            "line 3, column 11: unknown variant `sometimes`, expected `always` or `never`",
        );
    }

    #[test]
    fn groups_of_fields() {
        let policy = policy("allow = ['mounts', 'resources.cpu']\ndeny = ['hooks']").unwrap();
        let names = |groups: Vec<FieldGroup>| groups.iter().map(|g| g.name()).collect::<Vec<_>>();
        assert_eq!(names(policy.allow.unwrap()), ["mounts", "resources.cpu"]);
        assert_eq!(names(policy.deny), ["hooks"]);
        check(
            "allow = ['mounts',\n 'mount']",
            "line 4, column 2: \"mount\" is no field group; there are annotations, args, ",
        );
        check(
            "deny = 'hooks'",
            "line 3, column 8: invalid type: string \"hooks\", expected a sequence",
        );
    }

    #[test]
    fn users_who_may_have_its_name() {
        assert_eq!(policy("").unwrap().uids, [0; 0]);
        assert_eq!(policy("uids = [1000, 7]").unwrap().uids, [1000, 7]);
    }

    #[test]
    fn users() {
        let user = |text: &str| policy(&format!("user = {text:?}")).map(|p| p.user.unwrap());
        let (id, name) = (Account::Id, |n: &str| Account::Name(n.to_owned()));
        for (text, expected) in [
            ("nobody", (name("nobody"), None)),
            ("65534", (id(65534), None)),
            ("1:2", (id(1), Some(id(2)))),
            ("nobody:nogroup", (name("nobody"), Some(name("nogroup")))),
        ] {
            assert_eq!(user(text), Ok(User { user: expected.0, group: expected.1 }), "{text}");
        }
        for text in ["", ":", "1:", ":1", "a b", "1:2:3", "-x", "4294967295", "99999999999"] {
            check(
                &format!("user = {text:?}"),
                &format!("line 3, column 8: {text:?} is no user, such as "),
            );
        }
    }

    #[test]
    fn capabilities() {
        let policy_ =
            policy("capabilities = ['CAP_NET_ADMIN', 'sys_nice']\nno-new-privs = true").unwrap();
        let names: Vec<_> = policy_.capabilities.unwrap().iter().map(|c| c.name()).collect();
        assert_eq!(names, ["net_admin", "sys_nice"]);
        assert!(policy_.no_new_privs);
        assert_eq!(policy("capabilities = []").unwrap().capabilities, Some(vec![]));
        check(
            "capabilities = ['ALL']",
            "line 3, column 17: \"ALL\" is no capability; there are chown, ",
        );
    }

    #[test]
    fn limits() {
        let limits = policy("rlimits = { nofile = 1024, RLIMIT_CORE = 0, memlock = 'unlimited' }")
            .unwrap()
            .rlimits;
        let limits: Vec<_> = limits.iter().map(|(name, limit)| (name.name(), *limit)).collect();
        assert_eq!(
            limits,
            [
                ("core", Limit::Value(0)),
                ("memlock", Limit::Unlimited),
                ("nofile", Limit::Value(1024))
            ]
        );
        check(
            "rlimits = { files = 1 }",
            "line 3, column 13: \"files\" is no resource limit; there are as, core, ",
        );
        check(
            "rlimits = { nofile = -1 }",
            "line 3, column 22: invalid value: integer `-1`, expected a number that",
        );
        check(
            "rlimits = { nofile = 'many' }",
            "line 3, column 22: invalid value: string \"many\", expected a number that",
        );
    }
}
