//! Tests of the built-in validator's rules.

use crate::cases::{adjusting, message, plugin};
use nri_api::proto::{Container, PodSandbox};
use nri_merge::CreateMerge;
use nri_merge::validator::{DefaultValidatorConfig, Rejection, validate};

fn validate_with(
    config: &DefaultValidatorConfig,
    container: &str,
    pod: &[(&str, &str)],
    adjust: &str,
) -> Result<(), Rejection> {
    let mut container: Container = message(container);
    (container.id, container.name) = ("me".to_owned(), "main".to_owned());
    let annotations = pod.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let mut merge = CreateMerge::new(PodSandbox { annotations, ..Default::default() }, container);
    merge.reply(&plugin("00-a"), adjusting(adjust)).unwrap();
    merge.consulted(&plugin("10-b"));
    validate(config, &merge.finish().validation())
}

#[test]
fn restricted_fields_are_rejected_by_their_rules() {
    let mut rules = DefaultValidatorConfig {
        reject_oci_hook_adjustment: true,
        reject_namespace_adjustment: true,
        reject_sysctl_adjustment: true,
        ..Default::default()
    };
    let check =
        |config: &DefaultValidatorConfig, container: &str, adjust: &str, error: Option<&str>| {
            let result = validate_with(config, container, &[], adjust).map_err(|e| e.to_string());
            assert_eq!(result.err().as_deref(), error, "{adjust}");
            assert_eq!(
                validate_with(&DefaultValidatorConfig::default(), container, &[], adjust),
                Ok(())
            );
        };
    check(&rules, "{}", r#"{"annotations": {"a": ""}, "linux": {"seccompPolicy": {}}}"#, None);
    check(
        &rules,
        "{}",
        r#"{"hooks": {"poststop": [{}]}}"#,
        Some("plugins \"00-a\" attempted restricted OCI hook injection"),
    );
    check(
        &rules,
        "{}",
        r#"{"linux": {"namespaces": [{"type": "-pid"}, {"type": "ipc"}]}}"#,
        Some(
            "attempted restricted namespace adjustment by plugin \"00-a\" \
             (namespace \"ipc\"), plugin \"00-a\" (namespace \"pid\")",
        ),
    );
    check(
        &rules,
        "{}",
        r#"{"linux": {"sysctl": {"a": "1"}}}"#,
        Some("attempted restricted sysctl adjustment by plugin \"00-a\" (sysctl \"a\")"),
    );
    let policy = r#"{"linux": {"seccompPolicy": {}}}"#;
    let profile = |kind| format!(r#"{{"linux": {{"seccompProfile": {{"profileType": {kind}}}}}}}"#);
    let error =
        |kind| format!("plugin \"00-a\" attempted restricted {kind} seccomp policy adjustment");
    rules.reject_unconfined_seccomp_adjustment = true;
    check(&rules, "{}", policy, Some(&error("unconfined")));
    check(&rules, &profile("\"UNCONFINED\""), policy, Some(&error("unconfined")));
    check(&rules, &profile("\"RUNTIME_DEFAULT\""), policy, None);
    check(&rules, &profile("\"LOCALHOST\""), policy, None);
    rules.reject_runtime_default_seccomp_adjustment = true;
    check(&rules, &profile("\"RUNTIME_DEFAULT\""), policy, Some(&error("runtime default")));
    rules.reject_custom_seccomp_adjustment = true;
    check(&rules, &profile("\"LOCALHOST\""), policy, Some(&error("custom")));
    // A profile type that this version does not know counts as a custom profile.
    check(&rules, &profile("77"), policy, Some(&error("custom")));
}

#[test]
fn creations_without_required_plugins_are_rejected() {
    const KEY: &str = "required-plugins.noderesource.dev";
    let check = |required: &[&str], pod: &[(&str, &str)], error: Option<&str>| {
        let config = DefaultValidatorConfig {
            required_plugins: required.iter().map(|name| name.to_string()).collect(),
            tolerate_missing_plugins_annotation: Some("tolerate".to_owned()),
            ..Default::default()
        };
        let result = validate_with(&config, "{}", pod, "{}").map_err(|e| e.to_string());
        assert_eq!(result.err().as_deref(), error, "{required:?} {pod:?}");
    };
    let missing = |names: &str| format!("required plugins [{names}] not present");
    check(&["a", "10-b"], &[], None);
    check(&["a", "11-b", "c"], &[], Some(&missing("\"11-b\", \"c\"")));
    check(&["c"], &[(KEY, "[d]")], Some(&missing("\"c\", \"d\"")));
    check(&[], &[(KEY, "- a\n- b")], None);
    check(&[], &[("required-plugins.noderesource.dev/container.main", "[a]"), (KEY, "[d]")], None);
    check(&[], &[("required-plugins.noderesource.dev/container.other", "[d]")], None);
    check(&["c"], &[("tolerate", "true"), (KEY, "[d]")], None);
    check(
        &["c"],
        &[("tolerate/container.main", "0"), ("tolerate", "true")],
        Some(&missing("\"c\"")),
    );
    check(
        &["a"],
        &[("tolerate/pod", "yes")],
        Some("annotation tolerate of the pod is \"yes\", which is not a boolean"),
    );
    check(
        &[],
        &[(KEY, "a")],
        Some(
            "annotation required-plugins.noderesource.dev of the pod is \"a\", \
             which is not a YAML list of plugin names",
        ),
    );
}
