//! Cgroups of a user: the controllers that root has delegated to the user's service manager, and
//! that rootless engines can therefore use.

use std::{collections::BTreeSet, fs, path::Path};

/// Where cgroups are mounted.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Controllers that rootless engines of a user can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserControllers {
    /// Whether the host has cgroup v2 only. In other layouts, engines of users have no cgroups.
    pub cgroup_v2: bool,
    /// Names of the controllers.
    pub delegated: BTreeSet<String>,
}

/// Returns the controllers that the user with this id, as outside of user namespaces, can use;
/// `None` on cgroup v2 if systemd manages no services of the user, so that they are not known.
pub fn user_controllers(uid: u32) -> Option<UserControllers> {
    controllers_in(Path::new(CGROUPS), uid)
}

fn controllers_in(cgroups: &Path, uid: u32) -> Option<UserControllers> {
    if !cgroups.join("cgroup.controllers").exists() {
        return Some(UserControllers { cgroup_v2: false, delegated: BTreeSet::new() });
    }
    let file = format!("user.slice/user-{uid}.slice/user@{uid}.service/cgroup.controllers");
    let names = fs::read_to_string(cgroups.join(file)).ok()?;
    let delegated = names.split_whitespace().map(str::to_owned).collect();
    Some(UserControllers { cgroup_v2: true, delegated })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_of_the_service_manager_are_those_of_its_user() {
        let dir = tempfile::tempdir().unwrap();
        let of = |uid| controllers_in(dir.path(), uid);
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let v1 = UserControllers { cgroup_v2: false, delegated: names(&[]) };
        assert_eq!(of(1000), Some(v1));
        fs::write(dir.path().join("cgroup.controllers"), "cpuset cpu io memory pids\n").unwrap();
        assert_eq!(of(1000), None);
        let manager = dir.path().join("user.slice/user-1000.slice/user@1000.service");
        fs::create_dir_all(&manager).unwrap();
        fs::write(manager.join("cgroup.controllers"), "memory pids\n").unwrap();
        let v2 = UserControllers { cgroup_v2: true, delegated: names(&["memory", "pids"]) };
        assert_eq!((of(1000), of(1001)), (Some(v2), None));
    }
}
