//! Scope of a policy: the containers that a plugin is for, by attributes of their pods, images and
//! engines.
//!
//! Whether a container is in a scope depends on attributes that it has from its creation to its
//! removal, and on nothing else. What happens outside is decided in
//! [`crate::policy::plugin_policy`].

use nri_api::proto::{Container, PodSandbox};
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// The engine that created a container, or a pod, and the runtime that runs it. Empty: unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// Name of the engine, such as `docker`.
    pub engine: String,
    /// Name of the runtime, such as `crun`.
    pub runtime: String,
}

/// Pattern of a whole text: `*` stands for any characters, or none; all others for themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// Creates a pattern. Every text is one.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Whether the pattern matches all of the text.
    fn matches(&self, text: &str) -> bool {
        let Some((first, rest)) = self.0.split_once('*') else { return self.0 == text };
        let Some(mut text) = text.strip_prefix(first) else { return false };
        let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
        // The leftmost match of each part leaves the most text to those that follow.
        for part in middle.split('*') {
            let Some(at) = text.find(part) else { return false };
            text = &text[at + part.len()..];
        }
        text.ends_with(last)
    }
}

/// The containers that a plugin is for: those that have all attributes that are named here. The
/// default has all containers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scope {
    /// Namespaces of pods; `None`: any. One of the patterns must match, here and below.
    pub namespaces: Option<Vec<Pattern>>,
    /// Names of engines; `None`: any.
    pub engines: Option<Vec<Pattern>>,
    /// Names of runtimes; `None`: any.
    pub runtimes: Option<Vec<Pattern>>,
    /// Labels that a pod must have, with the patterns of their values. Those of a container do not
    /// count: they may be from its image.
    pub labels: BTreeMap<String, Pattern>,
    /// Names of images; `None`: any. A pod has none, and is in the scope if all else matches.
    pub images: Option<Vec<Pattern>>,
    /// What the plugin sees of other containers.
    pub outside: OutsideScope,
}

/// What a plugin sees of pods and containers outside its scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutsideScope {
    /// Nothing: the plugin gets neither their events nor them in `Synchronize`.
    #[default]
    Hidden,
    /// Everything, and the plugin changes and refuses nothing.
    ReadOnly,
}

/// What scopes are compared with: the attributes of a pod, or of a container and its pod.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    namespace: String,
    labels: HashMap<String, String>,
    /// `None` for a pod.
    image: Option<String>,
    origin: Origin,
}

impl Subject {
    pub(crate) fn new(pod: &PodSandbox, container: Option<&Container>, origin: Origin) -> Self {
        Self {
            namespace: pod.namespace.clone(),
            labels: pod.labels.clone(),
            image: container.map(|container| container.image.name.clone()),
            origin,
        }
    }
}

impl Scope {
    /// Whether a container is in the scope, or whether containers of a pod can be.
    pub(crate) fn contains(&self, subject: &Subject) -> bool {
        let Subject { namespace, labels, image, origin } = subject;
        let has_label = |(key, pattern): (&String, &Pattern)| {
            labels.get(key).is_some_and(|value| pattern.matches(value))
        };
        matches_any(&self.namespaces, namespace)
            && matches_any(&self.engines, &origin.engine)
            && matches_any(&self.runtimes, &origin.runtime)
            && self.labels.iter().all(has_label)
            && image.as_ref().is_none_or(|image| matches_any(&self.images, image))
    }
}

fn matches_any(patterns: &Option<Vec<Pattern>>, text: &str) -> bool {
    patterns.as_ref().is_none_or(|all| all.iter().any(|pattern| pattern.matches(text)))
}

/// Names the keys and their patterns, as in `namespaces team-a or b, labels tier=gold; others
/// hidden`.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = [
            ("namespaces", &self.namespaces),
            ("engines", &self.engines),
            ("runtimes", &self.runtimes),
            ("images", &self.images),
        ];
        let mut keys = Vec::new();
        for (name, patterns) in lists.into_iter().filter_map(|(n, p)| Some((n, p.as_ref()?))) {
            let texts: Vec<_> = patterns.iter().map(|pattern| pattern.0.as_str()).collect();
            let texts = if texts.is_empty() { "none".to_owned() } else { texts.join(" or ") };
            keys.push(format!("{name} {texts}"));
        }
        let labels: Vec<_> = self.labels.iter().map(|(key, p)| format!("{key}={}", p.0)).collect();
        if !labels.is_empty() {
            keys.push(format!("labels {}", labels.join(" and ")));
        }
        let keys = if keys.is_empty() { "all containers".to_owned() } else { keys.join(", ") };
        let outside = match self.outside {
            OutsideScope::Hidden => "hidden",
            OutsideScope::ReadOnly => "read-only",
        };
        write!(f, "{keys}; others {outside}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_api::proto::Image;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, matching, others) in [
            ("", &[""][..], &["a", "*"][..]),
            ("*", &["", "a", "a/b", "*"], &[]),
            ("a", &["a"], &["", "aa", "ba", "a*"]),
            ("team-*", &["team-", "team-a", "team-*"], &["team", "a-team-b", ""]),
            ("*.io/x", &[".io/x", "quay.io/x"], &["quay.io/x2", "quay.io"]),
            ("a*a", &["aa", "aba", "aaa"], &["a", "ab", "baa"]),
            ("a*b*c", &["abc", "aXbYc", "abbcc", "a-c-b-c"], &["acb", "ab", "ac", "bc"]),
            ("*ab*ab*", &["abab", "xabyabz"], &["ab", "aba", "abba"]),
            ("a**b", &["ab", "axb"], &["a", "b"]),
            ("ab*bc", &["abbc", "abXbc"], &["abc"]),
            ("ä*ß", &["äß", "äöß"], &["ä", "aß"]),
            ("[a?]", &["[a?]"], &["a", "ab"]),
        ] {
            let compiled = Pattern::new(pattern);
            for text in matching {
                assert!(compiled.matches(text), "{pattern} {text}");
            }
            for text in others {
                assert!(!compiled.matches(text), "{pattern} {text}");
            }
        }
    }

    fn patterns(texts: &[&str]) -> Option<Vec<Pattern>> {
        Some(texts.iter().map(|text| Pattern::new(*text)).collect())
    }

    fn subject(image: Option<&str>) -> Subject {
        let pod = PodSandbox {
            namespace: "team-a".into(),
            labels: [("tier".to_owned(), "gold-1".to_owned())].into(),
            ..PodSandbox::default()
        };
        let container = image.map(|name| Container {
            image: Some(Image { name: name.into(), ..Image::default() }).into(),
            // As an image may have it.
            labels: [("by".to_owned(), "image".to_owned())].into(),
            ..Container::default()
        });
        let origin = Origin { engine: "docker".into(), runtime: "crun".into() };
        Subject::new(&pod, container.as_ref(), origin)
    }

    #[test]
    fn all_keys_of_a_scope_must_match_and_one_pattern_of_each() {
        let label =
            |key: &str, pattern: &str| BTreeMap::from([(key.into(), Pattern::new(pattern))]);
        let all = Scope {
            namespaces: patterns(&["x", "team-*"]),
            engines: patterns(&["docker"]),
            runtimes: patterns(&["runc", "crun"]),
            labels: label("tier", "gold*"),
            images: patterns(&["registry.example.com/*"]),
            outside: OutsideScope::Hidden,
        };
        let container = subject(Some("registry.example.com/web"));
        assert!(all.contains(&container) && Scope::default().contains(&container));
        for other in [
            Scope { namespaces: patterns(&["team"]), ..all.clone() },
            Scope { namespaces: patterns(&[]), ..all.clone() },
            Scope { engines: patterns(&["podman"]), ..all.clone() },
            Scope { runtimes: patterns(&["runc"]), ..all.clone() },
            Scope { labels: label("tier", "silver"), ..all.clone() },
            Scope { labels: label("other", "*"), ..all.clone() },
            Scope { labels: label("by", "image"), ..all.clone() },
            Scope { images: patterns(&["other/*"]), ..all.clone() },
        ] {
            assert!(!other.contains(&container), "{other}");
        }
        let any_image = Scope { images: patterns(&["*"]), ..Scope::default() };
        assert!(any_image.contains(&subject(Some(""))));
    }

    #[test]
    fn a_pod_is_in_the_scope_whatever_images_its_containers_have() {
        let scope = Scope {
            namespaces: patterns(&["team-a"]),
            images: patterns(&["other"]),
            ..Scope::default()
        };
        assert!(scope.contains(&subject(None)) && !scope.contains(&subject(Some("web"))));
        let scope = Scope { namespaces: patterns(&["team-b"]), ..scope };
        assert!(!scope.contains(&subject(None)));
    }

    #[test]
    fn an_unknown_origin_matches_only_a_pattern_of_anything() {
        let mut unknown = subject(None);
        unknown.origin = Origin::default();
        let scope = |text| Scope { engines: patterns(&[text]), ..Scope::default() };
        assert!(scope("*").contains(&unknown) && !scope("docker").contains(&unknown));
    }

    #[test]
    fn a_scope_is_described_by_its_keys() {
        assert_eq!(Scope::default().to_string(), "all containers; others hidden");
        let scope = Scope {
            namespaces: patterns(&["a", "b*"]),
            engines: patterns(&[]),
            labels: [("k".into(), Pattern::new("v"))].into(),
            outside: OutsideScope::ReadOnly,
            ..Scope::default()
        };
        let expected = "namespaces a or b*, engines none, labels k=v; others read-only";
        assert_eq!(scope.to_string(), expected);
    }
}
