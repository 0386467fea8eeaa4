//! The engines that `nrictl install` supports, and facts about each engine that its files do not
//! tell.

use clap::ValueEnum;

/// An engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TargetEngine {
    Docker,
    Containerd,
    Podman,
    Crio,
    Isulad,
    Nerdctl,
}

/// Facts about an engine.
#[derive(Debug)]
pub(crate) struct EngineFacts {
    /// Name of the engine in the command line, in `[engines]` and in the manifest.
    pub(crate) name: &'static str,
    /// The program that prints the engine's version.
    pub(crate) program: &'static str,
    /// Directory of its files, which its package creates; `None`: it has none.
    pub(crate) config_dir: Option<&'static str>,
    /// Command that makes the engine read its files; `None`: the engine reads them at each call.
    pub(crate) reload: Option<&'static str>,
    /// Command that makes the engine drop runtimes that its files no longer have.
    pub(crate) forget: Option<&'static str>,
    /// Whether some version of the engine has NRI of its own, so that `[engines]` has a key for the
    /// engine.
    pub(crate) has_nri: bool,
    /// Whether `--user` configures a rootless engine: it needs files of the user, or none at all.
    pub(crate) has_user_files: bool,
    /// What happens to running containers of the wrapper once it is no longer in the engine's
    /// files.
    pub(crate) orphans: &'static str,
    /// How to end these containers.
    pub(crate) remedy: &'static str,
    /// Names of runtimes that the engine has without any configuration.
    pub(crate) reserved: &'static [&'static str],
}

const DOCKER: EngineFacts = EngineFacts {
    name: "docker",
    program: "dockerd",
    config_dir: Some("/etc/docker"),
    reload: Some("systemctl reload docker"),
    // A reload keeps runtimes that the file no longer has (observed with 20.10, 26.1 and 28.5).
    forget: Some("systemctl restart docker"),
    has_nri: true,
    has_user_files: true,
    // dockerd looks up the name in `HostConfig.Runtime` when it starts a container; containerd has
    // the path for the rest of the container's life (observed with 20.10, 26.1 and 28.5).
    orphans: "after its restart, Docker can stop and remove them, but neither restart nor start \
              them again",
    remedy: "Remove them with `docker rm --force NAME`",
    reserved: &["runc", "io.containerd.runc.v2"],
};

const CONTAINERD: EngineFacts = EngineFacts {
    name: "containerd",
    program: "containerd",
    config_dir: Some("/etc/containerd"),
    reload: Some("systemctl restart containerd"),
    forget: Some("systemctl restart containerd"),
    has_nri: true,
    has_user_files: false,
    // The shim of a container has the path of its runtime, but the CRI plugin looks up the handler
    // for each further container of a pod.
    orphans: "containerd can stop and remove them, but create no more containers in their pods",
    remedy: "Delete their pods",
    reserved: &["runc"],
};

const PODMAN: EngineFacts = EngineFacts {
    name: "podman",
    program: "podman",
    config_dir: Some("/etc/containers"),
    reload: None,
    forget: None,
    has_nri: false,
    has_user_files: true,
    // Podman's database has the name of each container's runtime, and `containers.conf` its path.
    orphans: "Podman could not stop them, and `podman rm --force` would remove its record of a \
              container and leave the processes running",
    remedy: "Remove them with `podman rm --force NAME`",
    reserved: &[
        "crun",
        "runc",
        "kata",
        "runsc",
        "youki",
        "krun",
        "ocijail",
        "crun-vm",
        "crun-wasm",
        "runj",
    ],
};

const CRIO: EngineFacts = EngineFacts {
    name: "crio",
    program: "crio",
    config_dir: Some("/etc/crio"),
    // A reload rereads runtimes, but not the keys of NRI (`cri-o: docs/crio.conf.5.md`).
    reload: Some("systemctl restart crio"),
    forget: Some("systemctl restart crio"),
    has_nri: true,
    has_user_files: false,
    // CRI-O looks up the handler at each call of the runtime (`cri-o: internal/oci/oci.go`).
    orphans: "after its restart, CRI-O could neither stop nor remove them",
    remedy: "Delete their pods",
    reserved: &["runc", "crun"],
};

const ISULAD: EngineFacts = EngineFacts {
    name: "isulad",
    program: "isulad",
    config_dir: Some("/etc/isulad"),
    reload: Some("systemctl restart isulad"),
    forget: Some("systemctl restart isulad"),
    has_nri: true,
    has_user_files: false,
    // iSulad stores the name of each container's runtime (`iSulad:
    // src/daemon/modules/runtime/isula/isula_rt_ops.c`).
    orphans: "after its restart, iSulad could neither stop nor remove them",
    remedy: "Remove them with `isula rm --force NAME`",
    reserved: &["runc", "lcr", "kata-runtime", "runsc"],
};

const NERDCTL: EngineFacts = EngineFacts {
    name: "nerdctl",
    program: "nerdctl",
    config_dir: None,
    reload: None,
    forget: None,
    has_nri: false,
    has_user_files: true,
    orphans: "nothing changes for them",
    remedy: "Nothing has to be done",
    reserved: &[],
};

impl TargetEngine {
    /// The engines that have files with runtimes.
    pub(crate) const WITH_FILES: [Self; 5] =
        [Self::Docker, Self::Containerd, Self::Podman, Self::Crio, Self::Isulad];

    /// Returns the facts about the engine.
    pub(crate) fn facts(self) -> &'static EngineFacts {
        match self {
            Self::Docker => &DOCKER,
            Self::Containerd => &CONTAINERD,
            Self::Podman => &PODMAN,
            Self::Crio => &CRIO,
            Self::Isulad => &ISULAD,
            Self::Nerdctl => &NERDCTL,
        }
    }

    /// Returns the engine on whose configuration the containers of an engine kind depend. `None`
    /// for `ctr`, nerdctl and BuildKit, which take the path of the wrapper at each call.
    pub(crate) fn of_container(kind: &str) -> Option<Self> {
        match kind {
            "docker" | "cri-dockerd" => Some(Self::Docker),
            "containerd" => Some(Self::Containerd),
            "podman" => Some(Self::Podman),
            "cri-o" => Some(Self::Crio),
            "isulad" => Some(Self::Isulad),
            _ => None,
        }
    }

    /// Returns the engine's name.
    pub(crate) fn name(self) -> &'static str {
        self.facts().name
    }
}
