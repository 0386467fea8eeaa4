//! Privileges that a launched plugin runs with, and their form as arguments of the launcher.
//!
//! Values only; [`crate::launcher`] applies them.

use std::ffi::OsString;

/// User, capabilities and limits that a launched plugin runs with. The default is to inherit them
/// from this process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Privileges {
    /// User, by name or number.
    pub user: Option<String>,
    /// The only group, by name or number; `None` takes all groups of the user.
    pub group: Option<String>,
    /// The only capabilities, such as `net_admin`. `None` keeps those of this process, as far as
    /// the kernel leaves them to the user.
    pub capabilities: Option<Vec<String>>,
    /// Whether `no_new_privs` is set, so that no program that the plugin runs can gain privileges.
    pub no_new_privs: bool,
    /// Resource limits, such as `nofile`, soft and hard alike; `None` is unlimited.
    pub rlimits: Vec<(String, Option<u64>)>,
    /// File that moves the process into the cgroup of the plugin; `None` keeps that of ours.
    pub cgroup_procs: Option<String>,
    /// Soft limit of open files, set before `rlimits`; `None` keeps that of this process.
    pub soft_nofile: Option<u64>,
    /// Whether the plugin runs in network and mount namespaces of its own, in which there is no
    /// network and the kernel's file systems (`/sys`, cgroups, resctrl) are read-only.
    pub isolated: bool,
    /// File that is executed in place of the program's path, which stays argument 0: the copy of a
    /// pinned program. Set by the launch.
    pub executable: Option<String>,
}

/// Argument that separates the privileges from the program.
const SEPARATOR: &str = "--";

impl Privileges {
    /// Whether the plugin runs with the privileges of this process.
    pub(crate) fn are_inherited(&self) -> bool {
        *self == Self::default()
    }

    /// Formats the privileges as arguments of the launcher.
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
        if self.isolated {
            add("isolated", "true");
        }
        if let Some(file) = &self.cgroup_procs {
            add("cgroup", file);
        }
        if let Some(file) = &self.executable {
            add("executable", file);
        }
        if let Some(limit) = self.soft_nofile {
            add("soft_nofile", &limit.to_string());
        }
        for (name, limit) in &self.rlimits {
            let limit = limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string());
            add("rlimit", &format!("{name}:{limit}"));
        }
        all.push(SEPARATOR.into());
        all
    }

    /// Parses the arguments of the launcher, up to the program's path.
    pub(crate) fn parse(
        arguments: &mut dyn Iterator<Item = OsString>,
    ) -> Result<Self, InvalidArgument> {
        let mut parsed = Self::default();
        for argument in arguments {
            if argument == SEPARATOR {
                return Ok(parsed);
            }
            let invalid = || InvalidArgument(argument.clone());
            let text = argument.to_str().ok_or_else(invalid)?;
            let (key, value) = text.split_once('=').ok_or_else(invalid)?;
            match key {
                "user" => parsed.user = Some(value.to_owned()),
                "group" => parsed.group = Some(value.to_owned()),
                "capabilities" => {
                    let names = value.split(',').filter(|name| !name.is_empty());
                    parsed.capabilities = Some(names.map(str::to_owned).collect());
                }
                "no_new_privs" => parsed.no_new_privs = true,
                "isolated" => parsed.isolated = true,
                "cgroup" => parsed.cgroup_procs = Some(value.to_owned()),
                "executable" => parsed.executable = Some(value.to_owned()),
                "soft_nofile" => {
                    parsed.soft_nofile = Some(value.parse().map_err(|_| invalid())?);
                }
                "rlimit" => {
                    let (name, limit) = value.split_once(':').ok_or_else(invalid)?;
                    let limit = match limit {
                        "unlimited" => None,
                        number => Some(number.parse().map_err(|_| invalid())?),
                    };
                    parsed.rlimits.push((name.to_owned(), limit));
                }
                _ => return Err(invalid()),
            }
        }
        Err(InvalidArgument(SEPARATOR.into()))
    }
}

/// An argument that `Privileges::arguments` never produces, or a missing argument.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unexpected or missing argument {0:?}")]
pub struct InvalidArgument(pub(crate) OsString);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_parsed_back_to_the_same_privileges() {
        let limits = vec![("nofile".to_owned(), Some(7)), ("core".to_owned(), None)];
        let all = Privileges {
            user: Some("nobody".into()),
            group: Some("65534".into()),
            capabilities: Some(vec!["kill".into(), "chown".into()]),
            no_new_privs: true,
            rlimits: limits,
            cgroup_procs: Some("/a=b/cgroup.procs".into()),
            soft_nofile: Some(9),
            isolated: true,
            executable: Some("/proc/self/fd/4".into()),
        };
        let none = Privileges { capabilities: Some(vec![]), ..Privileges::default() };
        for privileges in [all, none, Privileges::default()] {
            let mut arguments = privileges.arguments().into_iter().chain(["program".into()]);
            assert_eq!(Privileges::parse(&mut arguments), Ok(privileges));
            assert_eq!(arguments.next(), Some("program".into()));
        }
        for text in ["user", "x=1", "rlimit=nofile", "rlimit=nofile:-1"] {
            let mut arguments = [OsString::from(text), SEPARATOR.into()].into_iter();
            assert_eq!(Privileges::parse(&mut arguments), Err(InvalidArgument(text.into())));
        }
        assert!(Privileges::parse(&mut [].into_iter()).is_err());
    }
}
