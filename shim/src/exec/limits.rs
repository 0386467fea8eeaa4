//! Compares an `exec` with the limits of its container: rights and user of the container's process,
//! as they were when the container was created.
//!
//! This module does no I/O. What a process file lacks counts as the most that a runtime makes of
//! it: youki gives all capabilities where the file has none, and no label of the container.

use super::process::Malformed;
use nri_args::exec_args::RightsFlags;
use nri_files::{ExecLimits, ExecRights, ExecUser};
use serde_json::{Map, Value};
use std::{borrow::Cow, collections::BTreeSet, fmt};

/// What an `exec` requests and its container does not have.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Excess {
    /// Rights.
    rights: Vec<String>,
    /// User and groups.
    user: Vec<String>,
}

impl Excess {
    /// Returns what the flags and the process file request in excess of the limits.
    ///
    /// # Errors
    /// [`Malformed`] if a member of the process file has the wrong type.
    pub(crate) fn of(
        limits: &ExecLimits,
        flags: &RightsFlags<'_>,
        process: Option<&Value>,
    ) -> Result<Self, Malformed> {
        let mut excess = Self::default();
        let process = process.map(|p| p.as_object().ok_or(Malformed("process"))).transpose()?;
        if let Some(rights) = &limits.rights {
            let requested = Rights::of_flags(flags);
            excess.rights = requested.beyond(rights);
            if let Some(process) = process {
                excess.rights.extend(Rights::of_file(process)?.beyond(rights));
            }
        }
        if let Some(user) = &limits.user {
            excess.user = flags_beyond(flags, user);
            if let Some(process) = process {
                excess.user.extend(user_beyond(&user_of(process)?, user));
            }
        }
        Ok(excess)
    }

    /// Whether there is nothing in excess.
    pub(crate) fn is_empty(&self) -> bool {
        self.rights.is_empty() && self.user.is_empty()
    }
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [(&self.rights, "more_rights"), (&self.user, "other_user")];
        let mut parts = parts.into_iter().filter(|(found, _)| !found.is_empty());
        let write = |f: &mut fmt::Formatter<'_>, (found, key): (&Vec<String>, &str)| {
            let found = found.join(", ");
            write!(f, "{found} ([exec] {key} was \"refuse\" when the container was created)")
        };
        if let Some(part) = parts.next() {
            write(f, part)?;
        }
        parts.try_for_each(|part| {
            f.write_str("; ")?;
            write(f, part)
        })
    }
}

/// Rights that an `exec` requests.
struct Rights<'a> {
    /// Capabilities of all sets; `None` if the runtime decides, which may give all.
    capabilities: Option<BTreeSet<Cow<'a, str>>>,
    /// Whether `no_new_privs` is not set.
    new_privileges: bool,
    /// AppArmor profile; `None` if it stays that of the container.
    apparmor_profile: Option<Cow<'a, str>>,
    /// SELinux label; `None` if it stays that of the container.
    selinux_label: Option<Cow<'a, str>>,
}

impl<'a> Rights<'a> {
    fn of_flags(flags: &RightsFlags<'a>) -> Self {
        let names = flags.caps.iter().flat_map(|value| value.split(|b| *b == b','));
        Self {
            capabilities: Some(names.map(|name| String::from_utf8_lossy(name)).collect()),
            new_privileges: flags.new_privs,
            apparmor_profile: flags.apparmor.map(String::from_utf8_lossy),
            selinux_label: flags.process_label.map(String::from_utf8_lossy),
        }
    }

    fn of_file(process: &'a Map<String, Value>) -> Result<Self, Malformed> {
        let label = |name| match process.get(name) {
            None | Some(Value::Null) => Ok(Some(Cow::from(""))),
            Some(Value::String(label)) => Ok(Some(Cow::from(label))),
            Some(_) => Err(Malformed(name)),
        };
        Ok(Self {
            capabilities: capabilities(process)?,
            new_privileges: match process.get("noNewPrivileges") {
                None | Some(Value::Null) => true,
                Some(Value::Bool(is_set)) => !is_set,
                Some(_) => return Err(Malformed("noNewPrivileges")),
            },
            apparmor_profile: label("apparmorProfile")?,
            selinux_label: label("selinuxLabel")?,
        })
    }

    /// Returns what is in excess of the rights of the container.
    fn beyond(&self, container: &ExecRights) -> Vec<String> {
        let mut found = Vec::new();
        match (&self.capabilities, &container.capabilities) {
            (Some(requested), has) => {
                let has: BTreeSet<_> = has.iter().flatten().map(|name| normal(name)).collect();
                let requested: BTreeSet<_> = requested.iter().map(|name| normal(name)).collect();
                found.extend(requested.difference(&has).cloned());
            }
            (None, Some(_)) => found.push("capabilities that are not named".to_owned()),
            (None, None) => {}
        }
        if container.no_new_privileges && self.new_privileges {
            found.push("no_new_privs is not set".to_owned());
        }
        for (what, requested, has) in [
            ("AppArmor profile", &self.apparmor_profile, &container.apparmor_profile),
            ("SELinux label", &self.selinux_label, &container.selinux_label),
        ] {
            if let (Some(requested), Some(has)) = (requested, has)
                && requested != has
            {
                found.push(format!("{what} {requested:?} in place of {has:?}"));
            }
        }
        found
    }
}

/// Returns the capabilities of all sets; `None` if the process file has no sets.
fn capabilities<'a>(
    process: &'a Map<String, Value>,
) -> Result<Option<BTreeSet<Cow<'a, str>>>, Malformed> {
    let malformed = Malformed("capabilities");
    let sets = match process.get("capabilities") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(sets)) => sets.values().filter(|set| !set.is_null()),
        Some(_) => return Err(malformed),
    };
    let mut names = BTreeSet::new();
    for set in sets {
        for name in set.as_array().ok_or(malformed)? {
            names.insert(name.as_str().ok_or(malformed)?.into());
        }
    }
    Ok(Some(names))
}

/// Returns the name of a capability as the kernel's header has it: crun and youki also accept small
/// letters, and names without prefix.
fn normal(name: &str) -> String {
    let name = name.trim().to_ascii_uppercase();
    if name.starts_with("CAP_") { name } else { format!("CAP_{name}") }
}

/// Returns the user and groups of a process file.
fn user_of(process: &Map<String, Value>) -> Result<ExecUser, Malformed> {
    let malformed = Malformed("user");
    let number = |id: Option<&Value>| match id {
        None | Some(Value::Null) => Ok(0),
        Some(id) => id.as_u64().ok_or(malformed),
    };
    let user = match process.get("user") {
        None | Some(Value::Null) => return Ok(ExecUser::default()),
        Some(user) => user.as_object().ok_or(malformed)?,
    };
    let groups = match user.get("additionalGids") {
        None | Some(Value::Null) => &[][..],
        Some(groups) => groups.as_array().ok_or(malformed)?.as_slice(),
    };
    Ok(ExecUser {
        uid: number(user.get("uid"))?,
        gid: number(user.get("gid"))?,
        additional_gids: groups.iter().map(|id| number(Some(id))).collect::<Result<_, _>>()?,
    })
}

/// Returns what of a user and its groups the container does not have.
fn user_beyond(requested: &ExecUser, container: &ExecUser) -> Vec<String> {
    let mut found = Vec::new();
    if requested.uid != container.uid {
        found.push(format!("user {} in place of {}", requested.uid, container.uid));
    }
    if requested.gid != container.gid {
        found.push(format!("group {} in place of {}", requested.gid, container.gid));
    }
    let is_more = |id: &&u64| **id != container.gid && !container.additional_gids.contains(*id);
    found.extend(requested.additional_gids.iter().filter(is_more).map(|id| format!("group {id}")));
    found
}

/// Returns what of the user and the groups that flags request the container does not have. A user
/// without a group has group 0, as for crun.
fn flags_beyond(flags: &RightsFlags<'_>, container: &ExecUser) -> Vec<String> {
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.trim().parse::<u64>().ok();
    let groups: Vec<_> =
        flags.additional_gids.iter().flat_map(|v| v.split(|b| *b == b',')).collect();
    let parse = || {
        let (uid, gid) = match flags.user.filter(|user| !user.is_empty()) {
            None => (container.uid, container.gid),
            Some(user) => match user.iter().position(|b| *b == b':') {
                Some(colon) => (number(&user[..colon])?, number(&user[colon + 1..])?),
                None => (number(user)?, 0),
            },
        };
        let additional_gids = groups.iter().map(|id| number(id)).collect::<Option<_>>()?;
        Some(ExecUser { uid, gid, additional_gids })
    };
    match parse() {
        Some(requested) => user_beyond(&requested, container),
        None => vec!["a user or group that is not a number".to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rights() -> ExecLimits {
        let rights = ExecRights {
            capabilities: Some(vec!["CAP_CHOWN".into(), "CAP_KILL".into()]),
            no_new_privileges: true,
            apparmor_profile: Some("docker-default".into()),
            selinux_label: Some("s0:c1".into()),
        };
        ExecLimits { rights: Some(rights), user: None }
    }

    fn of_file(limits: &ExecLimits, process: &Value) -> Excess {
        Excess::of(limits, &RightsFlags::default(), Some(process)).unwrap()
    }

    /// Checks what is found after `edit` has changed a process file with the rights of the
    /// container.
    #[track_caller]
    fn check_file(edit: impl FnOnce(&mut Value), expected: &[&str]) {
        let mut process = json!({
            "user": {"uid": 0, "gid": 0},
            "capabilities": {"bounding": ["CAP_KILL", "CAP_CHOWN"], "effective": ["CAP_KILL"]},
            "noNewPrivileges": true,
            "apparmorProfile": "docker-default",
            "selinuxLabel": "s0:c1",
        });
        edit(&mut process);
        assert_eq!(of_file(&rights(), &process).rights, expected);
    }

    #[test]
    fn a_process_file_with_more_rights_than_the_container_is_found() {
        check_file(|_| {}, &[]);
        check_file(|p| p["capabilities"] = json!({}), &[]);
        check_file(|p| p["capabilities"] = json!({"ambient": null, "permitted": []}), &[]);
        for set in ["bounding", "effective", "permitted", "inheritable", "ambient", "Ambient"] {
            check_file(
                |p| p["capabilities"][set] = json!(["CAP_SYS_ADMIN", "CAP_KILL", "CAP_BPF"]),
                &["CAP_BPF", "CAP_SYS_ADMIN"],
            );
        }
        check_file(|p| p["capabilities"]["effective"] = json!(["kill", "cap_chown"]), &[]);
        check_file(|p| p["capabilities"]["effective"] = json!(["sys_admin"]), &["CAP_SYS_ADMIN"]);
        check_file(|p| p["capabilities"]["effective"] = json!(["21"]), &["CAP_21"]);
        for none in [json!(null), json!(false)] {
            check_file(|p| p["noNewPrivileges"] = none, &["no_new_privs is not set"]);
        }
        check_file(|p| p["capabilities"] = json!(null), &["capabilities that are not named"]);
        check_file(
            |p| p["apparmorProfile"] = json!("unconfined"),
            &["AppArmor profile \"unconfined\" in place of \"docker-default\""],
        );
        check_file(
            |p| {
                p["apparmorProfile"] = json!("");
                p.as_object_mut().unwrap().remove("selinuxLabel");
            },
            &[
                "AppArmor profile \"\" in place of \"docker-default\"",
                "SELinux label \"\" in place of \"s0:c1\"",
            ],
        );
    }

    #[test]
    fn a_container_without_label_or_limit_may_have_any() {
        let process = json!({
            "user": {"uid": 7},
            "capabilities": {"bounding": ["CAP_KILL"]},
            "apparmorProfile": "a",
            "selinuxLabel": "b",
        });
        let limits = ExecRights {
            capabilities: Some(vec!["CAP_KILL".into()]),
            no_new_privileges: false,
            apparmor_profile: None,
            selinux_label: None,
        };
        let limits = ExecLimits { rights: Some(limits), user: None };
        assert_eq!(of_file(&limits, &process), Excess::default());
        assert_eq!(of_file(&ExecLimits::default(), &json!({})), Excess::default());
        // Without `capabilities` in the OCI config, the runtime gives the same to both.
        let limits = ExecLimits { rights: Some(ExecRights::default()), user: None };
        assert_eq!(of_file(&limits, &json!({})), Excess::default());
        assert_eq!(of_file(&limits, &process).rights, ["CAP_KILL"]);
    }

    #[test]
    fn another_user_is_found_where_users_are_limited() {
        let user = ExecUser { uid: 5, gid: 6, additional_gids: vec![7, 8] };
        let limits = ExecLimits { rights: None, user: Some(user) };
        for (user, expected) in [
            (json!({"uid": 5, "gid": 6, "additionalGids": [8, 6]}), &[][..]),
            (json!({"uid": 5, "gid": 6, "additionalGids": [0]}), &["group 0"]),
            (json!({"uid": 0, "gid": 6}), &["user 0 in place of 5"]),
            (json!({"uid": 5}), &["group 0 in place of 6"]),
            (json!(null), &["user 0 in place of 5", "group 0 in place of 6"]),
        ] {
            assert_eq!(of_file(&limits, &json!({"user": user})).user, expected, "{user}");
        }
        let flags = |user: Option<&'static str>, groups: &[&'static str]| RightsFlags {
            user: user.map(str::as_bytes),
            additional_gids: groups.iter().map(|id| id.as_bytes()).collect(),
            ..RightsFlags::default()
        };
        for (flags, expected) in [
            (flags(None, &[]), &[][..]),
            (flags(Some("5:6"), &["7,8", "6"]), &[]),
            (flags(Some("5"), &[]), &["group 0 in place of 6"]),
            (flags(Some("0:6"), &[]), &["user 0 in place of 5"]),
            (flags(None, &["7", "9"]), &["group 9"]),
            (flags(Some("root"), &[]), &["a user or group that is not a number"]),
        ] {
            assert_eq!(Excess::of(&limits, &flags, None).unwrap().user, expected, "{flags:?}");
        }
    }

    #[test]
    fn flags_with_more_rights_than_the_container_are_found() {
        let none = RightsFlags::default;
        for (flags, expected) in [
            (none(), &[][..]),
            (RightsFlags { caps: vec![&b"CAP_KILL"[..], b"chown"], ..none() }, &[]),
            (
                RightsFlags { caps: vec![&b"CAP_KILL, bpf"[..], b"SYS_ADMIN"], ..none() },
                &["CAP_BPF", "CAP_SYS_ADMIN"],
            ),
            (RightsFlags { new_privs: true, ..none() }, &["no_new_privs is not set"]),
            (RightsFlags { apparmor: Some(b"docker-default"), ..none() }, &[]),
            (
                RightsFlags { apparmor: Some(b""), process_label: Some(b"s0:c2"), ..none() },
                &[
                    "AppArmor profile \"\" in place of \"docker-default\"",
                    "SELinux label \"s0:c2\" in place of \"s0:c1\"",
                ],
            ),
            (RightsFlags { user: Some(b"0"), ..none() }, &[]),
        ] {
            assert_eq!(Excess::of(&rights(), &flags, None).unwrap().rights, expected, "{flags:?}");
        }
    }

    #[test]
    fn the_text_names_what_is_in_excess_and_the_keys() {
        let limits = ExecLimits { user: Some(ExecUser::default()), ..rights() };
        let flags =
            RightsFlags { caps: vec![&b"bpf"[..]], user: Some(b"1:0"), ..RightsFlags::default() };
        assert_eq!(
            Excess::of(&limits, &flags, None).unwrap().to_string(),
            "CAP_BPF ([exec] more_rights was \"refuse\" when the container was created); \
             user 1 in place of 0 ([exec] other_user was \"refuse\" when the container was created)"
        );
    }

    #[test]
    fn a_malformed_process_file_is_an_error() {
        let limits = ExecLimits { user: Some(ExecUser::default()), ..rights() };
        let mut valid = json!({"capabilities": {}, "noNewPrivileges": true});
        let mut check = |name: &'static str, value: Value| {
            valid[name] = value;
            let found = Excess::of(&limits, &RightsFlags::default(), Some(&valid));
            assert_eq!(found, Err(Malformed(name)), "{valid}");
            valid.as_object_mut().unwrap().remove(name);
        };
        for capabilities in [json!([]), json!({"bounding": "CAP_KILL"}), json!({"x": [7]})] {
            check("capabilities", capabilities);
        }
        check("noNewPrivileges", json!("true"));
        check("apparmorProfile", json!(1));
        check("selinuxLabel", json!([]));
        for user in [json!(0), json!({"uid": -1}), json!({"additionalGids": ["0"]})] {
            check("user", user);
        }
        let found = Excess::of(&limits, &RightsFlags::default(), Some(&json!([])));
        assert_eq!(found, Err(Malformed("process")));
    }
}
