//! The kinds of findings, a constant each. Codes and severities are an interface of
//! `nrictl doctor --json`; docs/reference/troubleshooting.md describes each code.
//!
//! A test compares this file with that page, and searches the tests for each code
//! (`tests/tests/tidy/findings.rs`).

use serde::Serialize;

/// Severity of a finding. Only a problem changes the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// The check passed.
    Ok,
    /// A fact that an administrator may want to know, also on a healthy host.
    Info,
    /// Something is probably not as it was meant; containers can be created.
    Warning,
    /// Something is broken, or is not effective.
    Problem,
}

/// Kind of a finding.
#[derive(Debug, Clone, Copy)]
pub(super) struct FindingKind {
    /// Stable name.
    pub(super) code: &'static str,
    /// Subject of the check.
    pub(super) about: &'static str,
    pub(super) severity: Severity,
}

const fn ok(code: &'static str, about: &'static str) -> FindingKind {
    FindingKind { code, about, severity: Severity::Ok }
}

const fn info(code: &'static str, about: &'static str) -> FindingKind {
    FindingKind { code, about, severity: Severity::Info }
}

const fn warning(code: &'static str, about: &'static str) -> FindingKind {
    FindingKind { code, about, severity: Severity::Warning }
}

const fn problem(code: &'static str, about: &'static str) -> FindingKind {
    FindingKind { code, about, severity: Severity::Problem }
}

// Configuration and programs.
pub(super) const BYPASS_ON: FindingKind = warning("bypass-on", "bypass");
pub(super) const BYPASS_UNTRUSTED: FindingKind = problem("bypass-untrusted", "bypass");
pub(super) const CONFIG_READ: FindingKind = ok("configuration-read", "configuration");
pub(super) const CONFIG_INVALID: FindingKind = problem("configuration-invalid", "configuration");
pub(super) const CONFIG_MISTAKE: FindingKind = problem("configuration-mistake", "configuration");
pub(super) const CONFIG_DISABLED: FindingKind = warning("configuration-disabled", "configuration");
pub(super) const PATH_MISSING: FindingKind = problem("path-missing", "configuration");
pub(super) const NRID_FOUND: FindingKind = ok("nrid-found", "nrid");
pub(super) const NRID_NOT_FOUND: FindingKind = problem("nrid-not-found", "nrid");
pub(super) const NRID_UNUSABLE: FindingKind = problem("nrid-unusable", "nrid");
pub(super) const HOOK_NOT_FOUND: FindingKind = problem("hook-not-found", "nri-oci-hook");
pub(super) const RUNTIME_FOUND: FindingKind = ok("runtime-found", "runtime");
pub(super) const RUNTIME_NOT_FOUND: FindingKind = problem("runtime-not-found", "runtime");
pub(super) const RUNTIME_UNUSABLE: FindingKind = problem("runtime-unusable", "runtime");

// The state directory.
pub(super) const STATE_DIR_WRITABLE: FindingKind = ok("state-dir-writable", "state directory");
pub(super) const STATE_DIR_NOT_WRITABLE: FindingKind =
    problem("state-dir-not-writable", "state directory");
pub(super) const STATE_DIR_UNTRUSTED: FindingKind =
    problem("state-dir-untrusted", "state directory");

// Users without root.
pub(super) const ROOTLESS_CGROUPS: FindingKind = warning("rootless-cgroups", "rootless");
pub(super) const ROOTLESS_DELEGATED: FindingKind = ok("rootless-delegated", "rootless");
pub(super) const ROOTLESS_LIMITS: FindingKind = info("rootless-limits", "rootless");
pub(super) const ROOTLESS_SESSION: FindingKind = info("rootless-session", "rootless");

// The running nrid.
pub(super) const NRID_RUNNING: FindingKind = ok("nrid-running", "nrid");
pub(super) const NRID_NOT_RUNNING: FindingKind = info("nrid-not-running", "nrid");
pub(super) const NRID_MISSING: FindingKind = problem("nrid-missing", "nrid");
pub(super) const NRID_ENDED: FindingKind = warning("nrid-ended", "nrid");
pub(super) const NRID_ENDED_EARLIER: FindingKind = info("nrid-ended-earlier", "nrid");
pub(super) const NRID_START_FAILED: FindingKind = problem("nrid-start-failed", "nrid");
pub(super) const NRID_UNRESPONSIVE: FindingKind = problem("nrid-unresponsive", "nrid");
pub(super) const NRID_RESTART_FAILED: FindingKind = problem("nrid-restart-failed", "nrid");
pub(super) const NRID_REPLACED: FindingKind = problem("nrid-program-replaced", "nrid");
pub(super) const NRID_OTHER_VERSION: FindingKind = problem("nrid-other-version", "nrid");
pub(super) const NRID_OTHER_PROGRAM: FindingKind = info("nrid-other-program", "nrid");
pub(super) const NRID_LIMITED: FindingKind = problem("nrid-limited", "nrid");
pub(super) const BUNDLES_EDITED: FindingKind = info("bundles-edited", "nrid");
pub(super) const SHADOW_MODE: FindingKind = info("shadow-mode", "mode");
pub(super) const INHERITED: FindingKind = info("inherited-restriction", "inherited");
pub(super) const CONFIG_OTHER_FILE: FindingKind =
    problem("configuration-other-file", "configuration");
pub(super) const CONFIG_OUTDATED: FindingKind = problem("configuration-outdated", "configuration");

// Resources of containers.
pub(super) const RESOURCES_EFFECTIVE: FindingKind = ok("resources-effective", "resources");
pub(super) const RESOURCES_DIFFER: FindingKind = problem("resources-differ", "resources");
pub(super) const RESOURCES_OF_ENGINE: FindingKind = info("resources-of-engine", "resources");
pub(super) const RESOURCES_UNKNOWN: FindingKind = warning("resources-unknown", "resources");

// Plugins.
pub(super) const PLUGIN_ACTIVE: FindingKind = ok("plugin-active", "plugin");
pub(super) const PLUGIN_FAILED: FindingKind = warning("plugin-failed", "plugin");
pub(super) const PLUGIN_LIMITED: FindingKind = warning("plugin-limited", "plugin");
pub(super) const PLUGIN_STARTING: FindingKind = info("plugin-starting", "plugin");
pub(super) const PLUGIN_NOT_ACTIVE: FindingKind = problem("plugin-not-active", "plugin");
pub(super) const PLUGIN_MISSED: FindingKind = warning("plugin-missed", "plugin");
pub(super) const PLUGIN_LEFT: FindingKind = info("plugin-left", "plugin");
pub(super) const PLUGIN_REFUSED: FindingKind = warning("plugin-refused", "plugin");
pub(super) const PLUGIN_TWICE: FindingKind = warning("plugin-twice", "plugin");
pub(super) const PLUGIN_UNUSABLE: FindingKind = problem("plugin-unusable", "plugin");
pub(super) const PLUGIN_RUNS_UNUSABLE: FindingKind = problem("plugin-runs-unusable", "plugin");
pub(super) const PLUGIN_WARNING: FindingKind = warning("plugin-warning", "plugin");
pub(super) const PLUGIN_CONFIG_HIDDEN: FindingKind =
    warning("plugin-configuration-hidden", "plugin");
pub(super) const PLUGIN_WITHHELD: FindingKind = warning("plugin-withheld", "plugin");
pub(super) const PLUGIN_IGNORED: FindingKind = info("plugin-ignored", "plugin");
pub(super) const PLUGIN_RELOAD_DUE: FindingKind = warning("plugin-reload-due", "plugin");
pub(super) const PLUGIN_CONFIG_REFUSED: FindingKind =
    problem("plugin-configuration-refused", "plugin");
pub(super) const PLUGIN_REQUIRED_MISSING: FindingKind =
    problem("plugin-required-missing", "plugin");
pub(super) const PLUGIN_NOT_REQUIRED: FindingKind = warning("plugin-not-required", "plugin");
pub(super) const PLUGIN_DIR_UNREADABLE: FindingKind =
    problem("plugin-directory-unreadable", "plugin directory");
pub(super) const PLUGIN_UNLIMITED: FindingKind = warning("plugin-unlimited", "privileges");
pub(super) const POLICY_UNMATCHED: FindingKind = info("policy-unmatched", "policy");
pub(super) const LAUNCHED_BY_NRID: FindingKind = ok("plugins-launched-by-nrid", "plugins");
pub(super) const LAUNCHED_LATER: FindingKind = info("plugins-launched-later", "plugins");
pub(super) const LAUNCHED_BY_BOTH: FindingKind = info("plugins-launched-by-both", "plugins");
pub(super) const PLUGINS_UNCALLED: FindingKind = problem("plugins-uncalled", "plugins");

// Sockets for plugins.
pub(super) const SOCKET_OURS: FindingKind = ok("socket-ours", "socket");
pub(super) const SOCKET_OF_OTHER: FindingKind = info("socket-of-other", "socket");
pub(super) const SOCKET_REPLACED: FindingKind = problem("socket-replaced", "socket");
pub(super) const SOCKET_REMOVED: FindingKind = problem("socket-removed", "socket");
pub(super) const SOCKET_UNUSED: FindingKind = info("socket-unused", "socket");

// Engines.
pub(super) const ENGINE_NONE: FindingKind = info("engine-none", "engine");
pub(super) const ENGINE_RUNTIME: FindingKind = ok("engine-runtime", "engine");
pub(super) const ENGINE_RUNTIME_DEFAULT: FindingKind = ok("engine-runtime-default", "engine");
pub(super) const ENGINE_FILE_UNREAD: FindingKind = problem("engine-file-unread", "engine");
pub(super) const ENGINE_SILENT: FindingKind = info("engine-silent", "engine");
pub(super) const ENGINE_PROGRAM_MISSING: FindingKind = problem("engine-program-missing", "engine");
pub(super) const ENGINE_OTHER_FILES: FindingKind = warning("engine-other-files", "engine");
pub(super) const ENGINE_UNINSTALLED: FindingKind = warning("engine-uninstalled", "engine");
pub(super) const ENGINE_UNREADABLE: FindingKind = warning("engine-unreadable", "engine");
pub(super) const ENGINE_OWN_MOUNTS: FindingKind = info("engine-own-mounts", "engine");
pub(super) const ENGINE_STATE_DIR: FindingKind = problem("engine-state-dir-hidden", "engine");
pub(super) const CONTAINERS_WITHOUT_WRAPPER: FindingKind =
    info("containers-without-wrapper", "containers");
pub(super) const CONTAINERS_KEEP_RUNTIME: FindingKind =
    warning("containers-keep-runtime", "containers");
pub(super) const CONTAINERS_PASSED: FindingKind =
    warning("containers-passed-through", "containers");
pub(super) const CONTAINERS_UNREAD: FindingKind = warning("containers-unread", "containers");
pub(super) const ADAPTED_BY_NRID: FindingKind = ok("adapted-by-nrid", "in charge");
pub(super) const ADAPTED_BY_ENGINE: FindingKind = info("adapted-by-engine", "in charge");
pub(super) const ADAPTED_BY_DOCKER_TOO: FindingKind = warning("adapted-by-docker-too", "in charge");
pub(super) const ADAPTED_BY_BOTH: FindingKind = problem("adapted-by-both", "in charge");
pub(super) const ADAPTED_BY_NONE: FindingKind = problem("adapted-by-none", "in charge");
