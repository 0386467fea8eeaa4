//! Where the cgroup of a container is. Below the cgroup of an engine, a container has only a part
//! of the weight of that cgroup, which the kernel divides among CPUs by load: where its neighbours
//! load other CPUs, little is left on the container's own, and each task of the host there comes
//! first. And below it, a container is idle among its neighbours, but not to the rest of the host.
//! Both end where the container's cgroup is at the root.

/// Cgroups of engines in which a container is if nothing else is asked for. Where an administrator
/// names another parent, or an orchestrator has one, its limits hold for the container.
const DEFAULT_PARENTS: [&str; 4] = ["docker", "libpod_parent", "default", "isulad"];

/// The same with systemd.
const DEFAULT_SLICES: [&str; 2] = ["system.slice", "machine.slice"];

/// The slice at the root.
const ROOT_SLICE: &str = "-.slice";

/// Where a cgroup is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Place {
    /// At the root.
    Root,
    /// Below an engine's default cgroup; with the path that it would have at the root.
    Engine(String),
    /// Anywhere else.
    #[default]
    Elsewhere,
}

impl Place {
    /// Returns where the cgroup of a container is that exists: it is not moved any more.
    pub fn of_existing(self) -> Self {
        if self == Self::Root { self } else { Self::Elsewhere }
    }
}

/// Returns where the cgroup of a container with an id is. `path` is the OCI config's
/// `linux.cgroupsPath`: a path, or SLICE:PREFIX:NAME.
pub fn place(path: &str, id: &str) -> Place {
    if let [slice, prefix, name] = path.split(':').collect::<Vec<_>>()[..] {
        return match slice {
            ROOT_SLICE => Place::Root,
            slice if DEFAULT_SLICES.contains(&slice) => {
                Place::Engine(format!("{ROOT_SLICE}:{prefix}:{name}"))
            }
            _ => Place::Elsewhere,
        };
    }
    // A relative path is relative to a cgroup that only the runtime knows.
    let Some(path) = path.strip_prefix('/') else { return Place::Elsewhere };
    match path.split('/').collect::<Vec<_>>()[..] {
        [name] if !name.is_empty() => Place::Root,
        [parent, name] if DEFAULT_PARENTS.contains(&parent) && !name.is_empty() => {
            // The name of the engine stays, for whoever looks at the cgroups.
            let name = if name == id { format!("{parent}-{name}") } else { name.to_owned() };
            Place::Engine(format!("/{name}"))
        }
        _ => Place::Elsewhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_default_cgroups_of_engines_are_left() {
        let check = |path: &str, expected: &str| {
            let found = match place(path, "abc") {
                Place::Root => "root".to_owned(),
                Place::Engine(path) => path,
                Place::Elsewhere => "elsewhere".to_owned(),
            };
            assert_eq!(found, expected, "{path}");
        };
        check("/docker/abc", "/docker-abc");
        check("/libpod_parent/libpod-abc", "/libpod-abc");
        check("/default/abc", "/default-abc");
        check("system.slice:docker:abc", "-.slice:docker:abc");
        check("machine.slice:libpod:abc", "-.slice:libpod:abc");
        check("/docker-abc", "root");
        check("-.slice:docker:abc", "root");
        for path in [
            "",
            "/",
            "abc",
            "docker/abc",
            "/docker/",
            "/docker/x/abc",
            "/tenant/abc",
            "/kubepods/burstable/pod1/abc",
            "kubepods-burstable-pod1.slice:cri-containerd:abc",
            "tenant.slice:docker:abc",
            "user.slice:libpod:abc",
        ] {
            check(path, "elsewhere");
        }
    }
}
