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
    /// Name of the engine in the command line, in `[engines]` and in our record.
    pub(crate) name: &'static str,
    /// Directory of its files, which its package creates; `None`: it has none.
    pub(crate) config_dir: Option<&'static str>,
    /// Versions that have NRI of their own; `None`: no version, and `[engines]` has no key for the
    /// engine.
    pub(crate) nri: Option<OwnNriSince>,
    /// What happens to running containers of the wrapper once it is no longer in the engine's
    /// files, and how to end these containers.
    pub(crate) orphans: (&'static str, &'static str),
    /// Names of runtimes that the engine has without any configuration.
    pub(crate) reserved: &'static [&'static str],
}

/// Major and minor version.
pub(crate) type EngineVersion = (u32, u32);

/// First version of an engine that has NRI, and first version that has it on by default.
pub(crate) type OwnNriSince = (EngineVersion, Option<EngineVersion>);

const DOCKER: EngineFacts = EngineFacts {
    name: "docker",
    config_dir: Some("/etc/docker"),
    // Experimental, and off by default (`moby: daemon/internal/nri`).
    nri: Some(((29, 0), None)),
    // dockerd looks up the name in `HostConfig.Runtime` when it starts a container; containerd has
    // the path for the rest of the container's life (observed with 20.10, 26.1 and 28.5).
    orphans: (
        "after its restart, Docker can stop and remove them, but neither restart nor start them \
         again",
        "Remove them with `docker rm --force NAME`",
    ),
    reserved: &["runc", "io.containerd.runc.v2"],
};

const CONTAINERD: EngineFacts = EngineFacts {
    name: "containerd",
    config_dir: Some("/etc/containerd"),
    // `containerd: docs/NRI.md`
    nri: Some(((1, 7), Some((2, 0)))),
    // The shim of a container has the path of its runtime, but the CRI plugin looks up the handler
    // for each further container of a pod.
    orphans: (
        "containerd can stop and remove them, but create no more containers in their pods",
        "Delete their pods",
    ),
    reserved: &["runc"],
};

const PODMAN: EngineFacts = EngineFacts {
    name: "podman",
    config_dir: Some("/etc/containers"),
    nri: None,
    // Podman's database has the name of each container's runtime, and `containers.conf` its path.
    orphans: (
        "Podman could not stop them, and `podman rm --force` would remove its record of a \
         container and leave the processes running",
        "Remove them with `podman rm --force NAME`",
    ),
    #[rustfmt::skip]
    reserved: &[
        "crun", "runc", "kata", "runsc", "youki", "krun", "ocijail", "crun-vm", "crun-wasm", "runj",
    ],
};

const CRIO: EngineFacts = EngineFacts {
    name: "crio",
    config_dir: Some("/etc/crio"),
    // `cri-o: internal/config/nri/nri.go`
    nri: Some(((1, 26), Some((1, 30)))),
    // CRI-O looks up the handler at each call of the runtime (`cri-o: internal/oci/oci.go`).
    orphans: ("after its restart, CRI-O could neither stop nor remove them", "Delete their pods"),
    reserved: &["runc", "crun"],
};

const ISULAD: EngineFacts = EngineFacts {
    name: "isulad",
    config_dir: Some("/etc/isulad"),
    nri: Some(((0, 0), None)),
    // iSulad stores the name of each container's runtime (`iSulad:
    // src/daemon/modules/runtime/isula/isula_rt_ops.c`).
    orphans: (
        "after its restart, iSulad could neither stop nor remove them",
        "Remove them with `isula rm --force NAME`",
    ),
    reserved: &["runc", "lcr", "kata-runtime", "runsc"],
};

const NERDCTL: EngineFacts = EngineFacts {
    name: "nerdctl",
    config_dir: None,
    nri: None,
    orphans: ("nothing changes for them", "Nothing has to be done"),
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

    /// Returns the program that prints the engine's version.
    pub(crate) fn program(self) -> &'static str {
        if self == Self::Docker { "dockerd" } else { self.name() }
    }

    /// Whether `--user` configures a rootless engine: it needs files of the user, or none at all.
    pub(crate) fn has_user_files(self) -> bool {
        matches!(self, Self::Docker | Self::Podman | Self::Nerdctl)
    }

    /// Returns the command that makes the engine read its files; `None`: it reads them at each
    /// call.
    ///
    /// A reload keeps runtimes that the file of Docker no longer has (observed with 20.10, 26.1 and
    /// 28.5). A reload of CRI-O rereads runtimes, but not the keys of NRI (`cri-o:
    /// docs/crio.conf.5.md`).
    pub(crate) fn reload(self, is_install: bool) -> Option<String> {
        match self {
            Self::Podman | Self::Nerdctl => None,
            Self::Docker if is_install => Some("systemctl reload docker".to_owned()),
            _ => Some(format!("systemctl restart {}", self.name())),
        }
    }
}
