//! Converts the configuration of plugins (`nri_config`) to that of the adaptation
//! (`nri_adaptation`).

use crate::{
    host::{delegation, descriptors},
    plugins::shared::SharedLaunch,
    settings::load::Settings,
};
use nri_adaptation::{
    AdaptationConfig, Budget, DefaultValidatorConfig, OnFailure, OutsideScope, Pattern, PeerPolicy,
    Permissions, PluginPolicy, Privileges, Scope,
};
use nri_files::reply_limit;
use nri_locate::{WASM_HOST, find_installed};
use std::path::PathBuf;

/// Variable of launched plugins: the names of the facts that the configuration gives, joined by
/// commas.
const FACTS: &str = "NRI_CONTAINER_RUNTIME_FACTS";

/// Returns the configuration of the adaptation.
pub fn adaptation_config(settings: &Settings, shared: &SharedLaunch) -> AdaptationConfig {
    let config = &settings.config;
    let dirs = &settings.plugin_dirs;
    let (plugin_path, other_runtime) = match shared {
        SharedLaunch::Launched(other) => (dirs.programs.clone(), other.clone()),
        SharedLaunch::Deferred(_) => (PathBuf::new(), None),
    };
    let peers = PeerPolicy {
        allow_uids: config.connections.allow_uids.clone(),
        allow_programs: config.connections.allow_programs.clone(),
        max_unregistered: config.connections.max_unregistered,
        max_plugins: config.connections.max_plugins,
    };
    let facts: Vec<_> = config.containers.facts.iter().map(|fact| fact.name()).collect();
    AdaptationConfig {
        plugin_path,
        own_plugin_path: if dirs.are_shared { dirs.enabled.clone() } else { PathBuf::new() },
        other_runtime,
        plugin_config_path: settings.plugin_dirs.configuration.clone(),
        disable_connections: config.disable_connections,
        registration_timeout: config.plugin_registration_timeout,
        request_timeout: config.plugin_request_timeout,
        synchronization_timeout: config.plugin_synchronization_timeout,
        reply_limit: reply_limit(config.longest_request_timeout()),
        restart_backoff: config.plugin_restart_backoff,
        restart_backoff_limit: config.plugin_restart_backoff_limit,
        peers,
        wasm_host: find_installed(WASM_HOST),
        plugin_cgroups: delegation::plugin_cgroups(),
        soft_nofile: descriptors::inherited_soft_limit(),
        plugin_variables: vec![(FACTS.to_owned(), facts.join(","))],
        runtime_name: "nri-container-runtime".to_owned(),
        runtime_version: env!("CARGO_PKG_VERSION").to_owned(),
        policies: config.plugin.iter().map(plugin_policy).collect(),
        default_validator: config
            .default_validator
            .enable
            .then(|| validator(&config.default_validator)),
        start_without_required: !settings.plugins_can_refuse(),
        ..AdaptationConfig::default()
    }
}

/// Returns texts about parts of policies that can be read in two ways
/// ([`Permissions::unambiguous`]), or that have no effect.
pub fn policy_warnings(config: &nri_config::Config) -> Vec<String> {
    let ambiguity = |p: &nri_config::PluginPolicy| {
        permissions(p).unambiguous(&p.pattern).err().map(|ambiguity| ambiguity.to_string())
    };
    let ambiguities = config.plugin.iter().filter_map(ambiguity);
    ambiguities.chain(config.plugin.iter().filter_map(|p| ineffective_budget(config, p))).collect()
}

/// Returns a text about a budget that limits no plugin, as far as the file says so: a plugin may
/// also ask for failed requests itself, which its status shows.
fn ineffective_budget(
    config: &nri_config::Config,
    policy: &nri_config::PluginPolicy,
) -> Option<String> {
    policy.budget?;
    let pattern = policy.pattern.as_str();
    let id = nri_api::PluginId::from_file_name(pattern).ok();
    let bare_name = id.as_ref().map_or(pattern, |id| id.name.as_str());
    let covers = |name: &String| [pattern, bare_name, "*"].contains(&&**name);
    let mut required = config.plugin.iter().filter(|p| p.required).map(|p| &p.pattern);
    let rules = &config.default_validator;
    let why = if required.any(covers) {
        "required"
    } else if policy.on_failure == nri_config::OnFailure::Fail {
        "on_failure = \"fail\""
    } else if rules.enable && rules.required_plugins.iter().any(covers) {
        "default_validator.required_plugins"
    } else {
        return None;
    };
    Some(format!("[[plugin]] match = {pattern:?}: budget has no effect because of {why}"))
}

fn plugin_policy(p: &nri_config::PluginPolicy) -> PluginPolicy {
    PluginPolicy {
        plugin: p.pattern.clone(),
        on_failure: match p.on_failure {
            nri_config::OnFailure::Ignore => OnFailure::Ignore,
            nri_config::OnFailure::Fail => OnFailure::Fail,
        },
        validation_failure: match p.validation_failure {
            nri_config::ValidationFailure::Ignore => OnFailure::Ignore,
            nri_config::ValidationFailure::Fail => OnFailure::Fail,
        },
        required: p.required,
        timeout: p.timeout,
        consecutive_timeouts: p.consecutive_timeouts,
        budget: p.budget.map(|nri_config::Budget { time, share, pause }| Budget {
            time,
            share,
            pause,
        }),
        restart: p.restart == nri_config::Restart::Always,
        restart_backoff: p.restart_backoff,
        permissions: permissions(p),
        privileges: privileges(p),
        digest: p.digest.as_ref().map(ToString::to_string),
        wasm_memory: u64::from(p.wasm_memory) << 20,
        single_instance: p.single_instance,
        dry_run: p.dry_run,
        uids: p.uids.clone(),
        observe: p.mode == nri_config::PluginMode::Observe,
        scope: p.scope.as_ref().map(|keys| scope(keys, p.outside_scope)),
    }
}

fn scope(keys: &nri_config::PluginScope, outside: nri_config::OutsideScope) -> Scope {
    let patterns = |texts: &Option<Vec<String>>| {
        texts.as_ref().map(|texts| texts.iter().map(Pattern::new).collect())
    };
    let label = |(key, value): (&String, &String)| (key.clone(), Pattern::new(value));
    Scope {
        namespaces: patterns(&keys.namespaces),
        engines: patterns(&keys.engines),
        runtimes: patterns(&keys.runtimes),
        labels: keys.labels.iter().map(label).collect(),
        images: patterns(&keys.images),
        outside: match outside {
            nri_config::OutsideScope::Hidden => OutsideScope::Hidden,
            nri_config::OutsideScope::ReadOnly => OutsideScope::ReadOnly,
        },
    }
}

fn permissions(p: &nri_config::PluginPolicy) -> Permissions {
    let allow = p.allow.as_ref().map(|groups| groups.iter().map(|group| group.name()));
    let permissions = Permissions::new(allow, p.deny.iter().map(|group| group.name()));
    // Cannot fail: a test checks that both crates have the same names. `none` is the safe fallback.
    permissions.unwrap_or_else(|_| Permissions::none())
}

fn privileges(p: &nri_config::PluginPolicy) -> Privileges {
    let limit = |limit: &nri_config::Limit| match limit {
        nri_config::Limit::Value(value) => Some(*value),
        nri_config::Limit::Unlimited => None,
    };
    let names =
        |all: &Vec<nri_config::Capability>| all.iter().map(|c| c.name().to_owned()).collect();
    Privileges {
        user: p.user.as_ref().map(|user| user.user.to_string()),
        group: p.user.as_ref().and_then(|user| user.group.as_ref()).map(ToString::to_string),
        capabilities: p.capabilities.as_ref().map(names),
        no_new_privs: p.no_new_privs,
        rlimits: p
            .rlimits
            .iter()
            .map(|(name, value)| (name.name().to_owned(), limit(value)))
            .collect(),
        cgroup_procs: None,
        soft_nofile: None,
        isolated: false,
        executable: None,
    }
}

fn validator(rules: &nri_config::ValidatorSettings) -> DefaultValidatorConfig {
    DefaultValidatorConfig {
        reject_oci_hook_adjustment: rules.reject_oci_hook_adjustment,
        reject_runtime_default_seccomp_adjustment: rules.reject_runtime_default_seccomp_adjustment,
        reject_unconfined_seccomp_adjustment: rules.reject_unconfined_seccomp_adjustment,
        reject_custom_seccomp_adjustment: rules.reject_custom_seccomp_adjustment,
        reject_namespace_adjustment: rules.reject_namespace_adjustment,
        reject_sysctl_adjustment: rules.reject_sysctl_adjustment,
        required_plugins: rules.required_plugins.clone(),
        tolerate_missing_plugins_annotation: rules.tolerate_missing_plugins_annotation.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_adaptation::{field_groups, launcher};

    #[test]
    fn configuration_and_adaptation_have_the_same_names() {
        let named: std::collections::BTreeSet<_> =
            nri_config::FIELD_GROUPS.iter().copied().collect();
        assert_eq!(named, field_groups());
        for name in nri_config::CAPABILITIES {
            assert!(launcher::knows_capability(name), "{name}");
        }
        for name in nri_config::RLIMITS {
            assert!(launcher::knows_rlimit(name), "{name}");
        }
        assert!(!launcher::knows_capability("nonsense") && !launcher::knows_rlimit("nonsense"));
    }

    /// An unset key and a written one differ: the plugin may decide where the key is unset.
    #[test]
    fn a_policy_says_whether_the_administrator_has_decided() {
        let policy = |keys: &str| {
            let text = format!("[[plugin]]\nmatch = 'a'\n{keys}\n");
            let config = nri_config::Config::parse(&text).unwrap();
            plugin_policy(&config.plugin[0])
        };
        let unset = policy("");
        assert_eq!((unset.on_failure, unset.consecutive_timeouts), (OnFailure::Ignore, None));
        assert_eq!(unset.validation_failure, OnFailure::Fail);
        assert_eq!(policy("on_failure = 'ignore'"), unset);
        assert_eq!(policy("on_failure = 'fail'").on_failure, OnFailure::Fail);
        let ignored = policy("validation_failure = 'ignore'").validation_failure;
        assert_eq!(ignored, OnFailure::Ignore);
        for n in [0, 1, 3] {
            let written = policy(&format!("consecutive_timeouts = {n}"));
            assert_eq!(written.consecutive_timeouts, Some(n));
        }
    }

    #[test]
    fn a_policy_sets_mode_and_scope() {
        let policy = |keys: &str| {
            let text = format!("[[plugin]]\nmatch = 'a'\n{keys}\n");
            plugin_policy(&nri_config::Config::parse(&text).unwrap().plugin[0])
        };
        assert_eq!((policy("").observe, policy("").scope), (false, None));
        assert!(policy("mode = 'observe'").observe);
        let scope = policy(
            "scope = { namespaces = ['n'], engines = ['e'], runtimes = ['r'], labels.k = 'v', \
             images = ['i', 'j*'] }\noutside_scope = 'read_only'",
        )
        .scope
        .unwrap();
        let expected = "namespaces n, engines e, runtimes r, images i or j*, labels k=v; others \
                        read-only";
        assert_eq!(scope.to_string(), expected);
        assert_eq!(policy("scope = {}").scope, Some(Scope::default()));
    }

    #[test]
    fn a_budget_without_effect_is_a_warning() {
        let warnings = |keys: &str| {
            let text = format!("[[plugin]]\nmatch = 'a'\n{keys}\n");
            policy_warnings(&nri_config::Config::parse(&text).unwrap())
        };
        let budget = "budget = { time = '1s' }";
        assert_eq!(warnings(budget), [""; 0]);
        assert_eq!(warnings("required = true\non_failure = 'fail'"), [""; 0]);
        for (key, why) in [
            ("required = true", "required"),
            ("on_failure = 'fail'", "on_failure = \"fail\""),
            ("[[plugin]]\nmatch = '*'\nrequired = true", "required"),
            (
                "[default_validator]\nenable = true\nrequired_plugins = ['a']",
                "default_validator.required_plugins",
            ),
        ] {
            let text = format!("[[plugin]] match = \"a\": budget has no effect because of {why}");
            assert_eq!(warnings(&format!("{budget}\n{key}")), [text]);
        }
    }

    #[test]
    fn a_policy_sets_privileges_and_permissions() {
        let text = "[[plugin]]\nmatch = 'a'\nuser = 'nobody:7'\n\
                    capabilities = ['CAP_KILL']\nno_new_privs = true\n\
                    rlimits = { core = 0, as = 'unlimited' }\nallow = ['mounts']\n\
                    deny = ['hooks']\nrestart = 'never'\n";
        let config = nri_config::Config::parse(text).unwrap();
        let expected = Privileges {
            user: Some("nobody".into()),
            group: Some("7".into()),
            capabilities: Some(vec!["kill".into()]),
            no_new_privs: true,
            rlimits: vec![("as".into(), None), ("core".into(), Some(0))],
            cgroup_procs: None,
            soft_nofile: None,
            isolated: false,
            executable: None,
        };
        assert_eq!(privileges(&config.plugin[0]), expected);
        let expected = Permissions::new(Some(["mounts"]), ["hooks"]).unwrap();
        assert_eq!(permissions(&config.plugin[0]), expected);
        let config = nri_config::Config::parse("[[plugin]]\nmatch = 'a'\n").unwrap();
        assert_eq!(privileges(&config.plugin[0]), Privileges::default());
        assert_eq!(permissions(&config.plugin[0]), Permissions::default());
    }
}
