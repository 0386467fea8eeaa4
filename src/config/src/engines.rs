//! `[engines]`: which NRI adjusts the containers of engines that have NRI of their own.

use crate::reference::{choices, section};
use serde::Deserialize;

section! {
    /// Which NRI adjusts the containers of an engine that has NRI of its own. With `"ours"`, switch
    /// the engine's NRI off (`nrictl install ENGINE --nri ours` does), or both adjust its
    /// containers.
    #[section("[engines]", "Engines with NRI of their own")]
    #[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct EngineSettings {
        /// Containers of containerd's CRI.
        #[key(Choice(AdaptedBy::CHOICES), Value("\"auto\""), "\"ours\"")]
        pub containerd: AdaptedBy,
        /// Containers of CRI-O.
        #[key(Choice(AdaptedBy::CHOICES), Value("\"auto\""), "\"ours\"")]
        pub crio: AdaptedBy,
        /// Containers of Docker.
        #[key(Choice(DOCKER_CHOICES), Value("\"auto\""), "\"ours\"")]
        pub docker: AdaptedBy,
        /// Containers of iSulad's CRI.
        #[key(Choice(AdaptedBy::CHOICES), Value("\"auto\""), "\"ours\"")]
        pub isulad: AdaptedBy,
    }
}

choices! {
    /// The NRI that adjusts the containers of an engine.
    pub enum AdaptedBy {
        /// The engine's NRI while it is on, else `nrid`.
        Auto = "auto",
        /// The engine's NRI; the wrapper passes the containers through unchanged.
        Engine = "engine",
        /// `nrid`, even while the engine's NRI is on.
        Nrid = "ours",
    }
}

/// Effects of [`AdaptedBy`] for Docker.
const DOCKER_CHOICES: &[(&str, &str)] = &[
    ("auto", "`nrid`, even while Docker's NRI is on, which applies only a part of an adjustment"),
    ("engine", "Docker's NRI; the wrapper passes the containers through unchanged"),
    ("ours", "`nrid`, as with `\"auto\"`"),
];
