//! The engines that `nrictl install` supports, and facts about each that are not in its files.

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
    /// Command that makes the engine read its files; `None`: it reads them at each call.
    pub(crate) reload: Option<&'static str>,
    /// Command that makes the engine drop runtimes that its files no longer have.
    pub(crate) forget: Option<&'static str>,
    /// Whether some version has NRI of its own, so that `[engines]` has a key for it.
    pub(crate) has_nri: bool,
    /// Names of runtimes that it has without any configuration.
    pub(crate) reserved: &'static [&'static str],
}

const DOCKER: EngineFacts = EngineFacts {
    name: "docker",
    program: "dockerd",
    reload: Some("systemctl reload docker"),
    // A reload keeps runtimes that the file no longer has (observed with 20.10, 26.1 and 28.5).
    forget: Some("systemctl restart docker"),
    has_nri: true,
    reserved: &["runc", "io.containerd.runc.v2"],
};

const CONTAINERD: EngineFacts = EngineFacts {
    name: "containerd",
    program: "containerd",
    reload: Some("systemctl restart containerd"),
    forget: Some("systemctl restart containerd"),
    has_nri: true,
    reserved: &["runc"],
};

const PODMAN: EngineFacts = EngineFacts {
    name: "podman",
    program: "podman",
    reload: None,
    forget: None,
    has_nri: false,
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
    // A reload rereads runtimes, but not the keys of NRI (`cri-o: docs/crio.conf.5.md`).
    reload: Some("systemctl restart crio"),
    forget: Some("systemctl restart crio"),
    has_nri: true,
    reserved: &["runc", "crun"],
};

const ISULAD: EngineFacts = EngineFacts {
    name: "isulad",
    program: "isulad",
    reload: Some("systemctl restart isulad"),
    forget: Some("systemctl restart isulad"),
    has_nri: false,
    reserved: &["runc", "lcr", "kata-runtime", "runsc"],
};

const NERDCTL: EngineFacts = EngineFacts {
    name: "nerdctl",
    program: "nerdctl",
    reload: None,
    forget: None,
    has_nri: false,
    reserved: &[],
};

impl TargetEngine {
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

    /// Returns the engine's name.
    pub(crate) fn name(self) -> &'static str {
        self.facts().name
    }
}
