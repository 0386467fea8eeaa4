//! What a launched plugin runs with, and how that is said to the launcher.
//!
//! Values only; [`crate::launcher`] brings them about.

use std::ffi::OsString;

/// As whom a launched plugin runs, and what it may do to the host; as we do, by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Privileges {
    /// A user, by name or number.
    pub user: Option<String>,
    /// Its only group, by name or number; without it, all groups of the user.
    pub group: Option<String>,
    /// The only capabilities, as `net_admin`; `None`: ours, as far as the user may have them.
    pub capabilities: Option<Vec<String>>,
    /// Nothing it runs can gain privileges.
    pub no_new_privs: bool,
    /// Resource limits, as `nofile`, soft and hard; `None` is unlimited.
    pub rlimits: Vec<(String, Option<u64>)>,
}

/// What stands before the name of the program.
const END: &str = "--";

impl Privileges {
    /// Whether there is nothing to do.
    pub(crate) fn are_ours(&self) -> bool {
        *self == Self::default()
    }

    /// As arguments of the launcher.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let mut all = Vec::new();
        let mut add = |key: &str, value: &str| all.push(OsString::from(format!("{key}={value}")));
        if let Some(user) = &self.user {
            add("user", user);
        }
        if let Some(group) = &self.group {
            add("group", group);
        }
        if let Some(capabilities) = &self.capabilities {
            add("capabilities", &capabilities.join(","));
        }
        if self.no_new_privs {
            add("no_new_privs", "true");
        }
        for (name, limit) in &self.rlimits {
            let limit = limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string());
            add("rlimit", &format!("{name}:{limit}"));
        }
        all.push(END.into());
        all
    }

    /// From the arguments of the launcher, up to the name of the program.
    pub(crate) fn parse(
        arguments: &mut dyn Iterator<Item = OsString>,
    ) -> Result<Self, InvalidArgument> {
        let mut found = Self::default();
        for argument in arguments {
            if argument == END {
                return Ok(found);
            }
            let invalid = || InvalidArgument(argument.clone());
            let text = argument.to_str().ok_or_else(invalid)?;
            let (key, value) = text.split_once('=').ok_or_else(invalid)?;
            match key {
                "user" => found.user = Some(value.to_owned()),
                "group" => found.group = Some(value.to_owned()),
                "capabilities" => {
                    let names = value.split(',').filter(|name| !name.is_empty());
                    found.capabilities = Some(names.map(str::to_owned).collect());
                }
                "no_new_privs" => found.no_new_privs = true,
                "rlimit" => {
                    let (name, limit) = value.split_once(':').ok_or_else(invalid)?;
                    let limit = match limit {
                        "unlimited" => None,
                        number => Some(number.parse().map_err(|_| invalid())?),
                    };
                    found.rlimits.push((name.to_owned(), limit));
                }
                _ => return Err(invalid()),
            }
        }
        Err(InvalidArgument(END.into()))
    }
}

/// Something that the launcher is never given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unexpected or missing argument {0:?}")]
pub struct InvalidArgument(pub(crate) OsString);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let limits = vec![("nofile".to_owned(), Some(7)), ("core".to_owned(), None)];
        let all = Privileges {
            user: Some("nobody".into()),
            group: Some("65534".into()),
            capabilities: Some(vec!["kill".into(), "chown".into()]),
            no_new_privs: true,
            rlimits: limits,
        };
        let none = Privileges { capabilities: Some(vec![]), ..Privileges::default() };
        for privileges in [all, none, Privileges::default()] {
            let mut arguments = privileges.arguments().into_iter().chain(["program".into()]);
            assert_eq!(Privileges::parse(&mut arguments), Ok(privileges));
            assert_eq!(arguments.next(), Some("program".into()));
        }
        for text in ["user", "x=1", "rlimit=nofile", "rlimit=nofile:-1"] {
            let mut arguments = [OsString::from(text), END.into()].into_iter();
            assert_eq!(Privileges::parse(&mut arguments), Err(InvalidArgument(text.into())));
        }
        assert!(Privileges::parse(&mut [].into_iter()).is_err());
    }
}
