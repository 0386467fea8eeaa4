//! What a user's `nrid` and rootless engines cannot do, for `nrictl doctor` and `nrictl install
//! --user`.

use nri_host::{UserControllers, user_controllers};
use nri_locate::{Environment, NridOwner, UserDirs};
use rustix::process::{Resource, getrlimit};
use std::{fs, path::Path};

/// Controllers of the resources that plugins set, without `hugetlb`, which systemd does not
/// delegate.
const CONTROLLERS: [&str; 5] = ["cpu", "cpuset", "io", "memory", "pids"];

/// The directory exists if the machine has systemd.
const SYSTEMD: &str = "/run/systemd/system";
/// Directory with a file for each user whose services run without a session.
const LINGERING: &str = "/var/lib/systemd/linger";

/// A user without root, and the limits of the user's engines.
#[derive(Debug)]
pub(crate) struct RootlessUser {
    /// `None`: not known.
    controllers: Option<UserControllers>,
    /// Name of the user, if the environment has it.
    name: Option<String>,
}

impl RootlessUser {
    /// Returns the user that this process runs as; `None` for root.
    pub(crate) fn of_this_process() -> Option<Self> {
        let environment = Environment::of_this_process();
        UserDirs::of_this_process(&environment)?;
        let NridOwner::User { uid, outer, .. } = NridOwner::of_this_process(&environment) else {
            return None;
        };
        let name = environment.var("USER").and_then(|name| name.to_str()).map(str::to_owned);
        Some(Self { controllers: user_controllers(outer.unwrap_or(uid)), name })
    }

    /// Whether all controllers of resources are delegated to the user; `None` if that is not known.
    pub(crate) fn has_controllers(&self) -> Option<bool> {
        self.controllers.as_ref().map(|known| missing(known).is_empty())
    }

    /// Returns which resources cannot be set, and what to do about it; `None` if all can, or if it
    /// is not known.
    pub(crate) fn without_cgroups(&self) -> Option<(String, &'static str)> {
        const EFFECT: &str = "a creation in which a plugin sets their resources is refused";
        let known = self.controllers.as_ref()?;
        if !known.cgroup_v2 {
            let text = format!(
                "this host has cgroup v1, where rootless engines have no cgroup controllers ({}): \
                 {EFFECT}",
                CONTROLLERS.join(", ")
            );
            let advice = "Boot with cgroup v2: `systemd.unified_cgroup_hierarchy=1` on the command \
                          line of the kernel.";
            return Some((text, advice));
        }
        let missing = missing(known);
        let text = format!(
            "cgroup controllers that are not delegated to this user: {}; {EFFECT}",
            missing.join(", ")
        );
        let advice = "As root: `systemctl edit user@.service`, with `[Service]` and `Delegate=cpu \
                      cpuset io memory pids`; then log in again.";
        (!missing.is_empty()).then_some((text, advice))
    }

    /// Returns what no engine of a user can do.
    pub(crate) fn limits() -> String {
        let score = fs::read_to_string("/proc/self/oom_score_adj").unwrap_or_default();
        let hard = |resource| {
            let limit = getrlimit(resource).maximum;
            limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string())
        };
        format!(
            "what a user cannot do, also if a plugin asks for it: RDT classes, devices without a \
             node on this host, network devices of the host, mounts of block devices, real-time \
             scheduling, oom_score_adj below {}, limits above the hard ones (open files: {}, \
             processes: {})",
            score.trim(),
            hard(Resource::Nofile),
            hard(Resource::Nproc)
        )
    }

    /// Returns the name of a user whose `nrid` ends with the last session.
    pub(crate) fn ends_with_session(&self) -> Option<&str> {
        let name = self.name.as_deref().filter(|_| Path::new(SYSTEMD).exists())?;
        (!Path::new(LINGERING).join(name).exists()).then_some(name)
    }
}

/// Returns the controllers that are not delegated.
fn missing(known: &UserControllers) -> Vec<&'static str> {
    CONTROLLERS.into_iter().filter(|name| !known.delegated.contains(*name)).collect()
}
