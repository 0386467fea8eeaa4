//! Tests of the default validator, configured in `config.toml` and by annotations.

use nri_integration::*;

const HOOK: &str = "[[create.hooks]]\nstage = \"poststop\"\npath = \"/bin/true\"\n";
/// Annotation that names required plugins.
const REQUIRED_PLUGINS: &str = "required-plugins.noderesource.dev";

/// Configures the default validator with these rules and creates a container with this annotation.
/// A plugin `10-adjust` injects a hook. Returns the error of a refused creation, else `None`.
fn refusal(runtime: &Runtime, rules: &str, annotation: &str) -> Option<String> {
    let node = Node::new(runtime);
    node.configure(&format!("default_validator = {{ enable = true, {rules} }}"));
    let journal = node.launch("10-adjust", &Program::Adjust, HOOK);
    let id = node.id("c");
    let mut bundle = node.bundle(&id).arguments(&["/bin/true"]);
    if !annotation.is_empty() {
        bundle = bundle.annotation(annotation);
    }
    let bundle = bundle.make();
    let before = digest_tree(bundle.dir());
    let ended = node.create(&bundle, &id);
    if ended.code == Some(0) {
        return None;
    }
    assert_eq!(digest_tree(bundle.dir()), before, "the bundle has changed");
    assert!(node.state(&id).is_none());
    journal.wait_for("RemoveContainer", &id);
    Some(ended.refusal())
}

#[test]
fn the_default_validator_enforces_its_rules() {
    for_each_runtime("default validator", |runtime| {
        let check_refused = |rules: &str, annotation: &str, words: &[&str]| {
            let line = refusal(runtime, rules, annotation);
            let line = line.unwrap_or_else(|| panic!("{rules} {annotation}: not refused"));
            assert!(words.iter().all(|w| line.contains(w)), "{rules} {annotation}: {line}");
        };
        let check_created =
            |rules: &str, annotation: &str| assert_eq!(refusal(runtime, rules, annotation), None);
        check_created("", "");
        check_refused("reject_oci_hook_adjustment = true", "", &["10-adjust", "OCI hook"]);
        check_created("required_plugins = ['10-adjust', 'adjust']", "");
        check_refused("required_plugins = ['missing']", "", &["missing", "not present"]);
        check_refused(
            "",
            &format!("{REQUIRED_PLUGINS}=[ \"missing\" ]"),
            &["missing", "not present"],
        );
        check_created("", &format!("{REQUIRED_PLUGINS}=[ \"adjust\" ]"));
        let tolerate = "required_plugins = ['missing'], tolerate_missing_plugins_annotation = \
            'example.org/tolerate'";
        check_created(tolerate, "example.org/tolerate=true");
        check_refused(tolerate, "example.org/tolerate=false", &["missing"]);
    });
}
