//! Checks that each type name is defined once in the workspace, so that a search finds one type.
//!
//! Private types of a file may have any name.

use crate::clean;
use crate::source::{Source, rust};
use std::collections::BTreeMap;
use syn::{Item, Visibility};

/// Names that may be defined more than once, with the things that have this name.
const SHARED: &[(&str, &str)] = &[
    ("Claims", "of fields in the merge, of ids in nrid"),
    ("Creation", "of the plugin SDK, of nrid"),
    ("Delivery", "of events to plugins, of bytes in the trunk"),
    ("Error", "the top-level error of each program"),
    ("FileError", "of edited files, of structured files"),
    ("FrameError", "of two protocols that share nothing"),
    ("LaunchError", "of plugins, of nrid"),
    ("OnFailure", "of the configuration, of the adaptation"),
    ("Owners", "of fields in the merge, of files in nri-trust"),
    ("OwnNri", "of the host, of the request to install"),
    ("Plan", "of cgroup writes, of merged updates"),
    ("Plugin", "the trait of the plugin SDK, the handle of the adaptation"),
    ("PluginPolicy", "of the configuration, of the adaptation"),
    ("PluginStatus", "of the adaptation, of the control protocol"),
    ("Process", "of a plugin, of a container"),
    ("Program", "of Podman's catatonit, of nrid's next version"),
    ("Update", "of the plugin SDK, of fields that can be updated, of nrid"),
];

/// Returns the visible types of a file, including those of inline modules.
fn types(source: &Source) -> Vec<String> {
    fn collect(items: &[Item], found: &mut Vec<String>) {
        for item in items {
            let (visibility, name) = match item {
                Item::Enum(item) => (&item.vis, &item.ident),
                Item::Struct(item) => (&item.vis, &item.ident),
                Item::Trait(item) => (&item.vis, &item.ident),
                Item::Union(item) => (&item.vis, &item.ident),
                Item::Mod(module) => {
                    let items = module.content.as_ref().map(|(_, items)| items.as_slice());
                    collect(items.unwrap_or_default(), found);
                    continue;
                }
                _ => continue,
            };
            if !matches!(visibility, Visibility::Inherited) {
                found.push(name.to_string());
            }
        }
    }
    let mut found = vec![];
    collect(&syn::parse_file(&source.text).unwrap().items, &mut found);
    found
}

/// Returns names that are defined twice, and exceptions that are no longer needed.
fn repeated(sources: &[&Source], shared: &[(&str, &str)]) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for source in sources {
        for name in types(source) {
            places.entry(name).or_default().push(&source.path);
        }
    }
    places.retain(|_, places| places.len() > 1);
    let is_listed = |name: &str| shared.iter().any(|(other, _)| *other == name);
    let mut found: Vec<String> = places
        .iter()
        .filter(|(name, _)| !is_listed(name))
        .map(|(name, places)| format!("{name}: {}", places.join(", ")))
        .collect();
    let unneeded = shared.iter().filter(|(name, _)| !places.contains_key(*name));
    found.extend(unneeded.map(|(name, _)| format!("{name} needs no exception")));
    found
}

#[test]
fn no_type_name_is_defined_twice() {
    let check = |a: &str, b: &str, shared: &[(&str, &str)], expected: &[&str]| {
        let (a, b) = (Source::new("a.rs", a), Source::new("b.rs", b));
        assert_eq!(repeated(&[&a, &b], shared), expected);
    };
    check("pub struct A;", "pub(crate) enum A {}", &[], &["A: a.rs, b.rs"]);
    check("pub struct A;", "mod c { pub trait A {} }", &[], &["A: a.rs, b.rs"]);
    check("pub struct A;", "struct A;\nfn f() { pub struct A; }", &[], &[]);
    check("pub struct A;", "pub use a::A;\npub type B = A;", &[], &[]);
    check("pub struct A;", "pub struct A;", &[("A", "why")], &[]);
    check("pub struct A;", "", &[("A", "why")], &["A needs no exception"]);

    let products = rust().iter().filter(|source| {
        let parts: Vec<&str> = source.path.split('/').collect();
        matches!(parts[..], ["src", _, "src", ..] | ["shim" | "hooks", "src", ..])
            && !source.is_generated()
    });
    clean(repeated(&products.collect::<Vec<_>>(), SHARED));
}
