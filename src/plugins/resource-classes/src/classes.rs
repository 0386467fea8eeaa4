//! Which RDT class and which block I/O class the annotations assign to a container, as containerd
//! and CRI-O decide it (goresctrl). What a class is, the runtime knows; see
//! [the plugin](crate::plugin).

use std::collections::HashMap;

/// Longest name of an RDT class, exclusive; a class is a directory of the resctrl file system.
const RDT_NAME_LIMIT: usize = 4096;

/// The annotations of a kind of classes.
pub(crate) struct Kind {
    /// Annotation of the container, from the CRI.
    container: &'static str,
    /// Prefix of the annotations of the pod: `pod` or `container.NAME` follows.
    pod_prefix: &'static str,
}

/// RDT classes.
pub(crate) const RDT: Kind = Kind {
    container: "io.kubernetes.cri.rdt-class",
    pod_prefix: "rdt.resources.beta.kubernetes.io/",
};

/// Block I/O classes.
pub(crate) const BLOCKIO: Kind = Kind {
    container: "io.kubernetes.cri.blockio-class",
    pod_prefix: "blockio.resources.beta.kubernetes.io/",
};

/// The name of an RDT class cannot be that of a resctrl group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("annotation {annotation} names RDT class {class:?}, which cannot be a resctrl group")]
pub(crate) struct InvalidClass {
    annotation: String,
    class: String,
}

/// A class, and the annotation that assigns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assigned {
    pub(crate) class: String,
    pub(crate) annotation: String,
}

impl Kind {
    /// Returns the class of a container: that of the container's annotation, else that of the
    /// pod's annotation for the container, else that of the pod's annotation for all containers.
    /// An empty value assigns no class, and hides those after it.
    pub(crate) fn assigned(
        &self,
        container: &str,
        of_container: &HashMap<String, String>,
        of_pod: &HashMap<String, String>,
    ) -> Option<Assigned> {
        let places = [
            (of_container, self.container.to_owned()),
            (of_pod, format!("{}container.{container}", self.pod_prefix)),
            (of_pod, format!("{}pod", self.pod_prefix)),
        ];
        let found = places.into_iter().find_map(|(annotations, annotation)| {
            let class = annotations.get(&annotation)?.clone();
            Some(Assigned { class, annotation })
        });
        found.filter(|assigned| !assigned.class.is_empty())
    }
}

impl Assigned {
    /// Checks the name of an RDT class. `/` and `system/default` are the root group.
    pub(crate) fn check_rdt(&self) -> Result<(), InvalidClass> {
        let class = self.class.as_str();
        let is_root = matches!(class, "/" | "system/default");
        let is_group = class.len() < RDT_NAME_LIMIT
            && !matches!(class, "." | "..")
            && !class.contains(['/', '\n']);
        if is_root || is_group {
            Ok(())
        } else {
            let annotation = self.annotation.clone();
            Err(InvalidClass { annotation, class: self.class.clone() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(entries: &[(&str, &str)]) -> HashMap<String, String> {
        entries.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn the_most_specific_annotation_assigns_the_class() {
        let check = |container: &[(&str, &str)], pod: &[(&str, &str)], expected: Option<&str>| {
            let assigned = BLOCKIO.assigned("c0", &map(container), &map(pod));
            assert_eq!(assigned.map(|a| a.class).as_deref(), expected, "{container:?} {pod:?}");
        };
        let for_pod = ("blockio.resources.beta.kubernetes.io/pod", "low");
        let for_c0 = ("blockio.resources.beta.kubernetes.io/container.c0", "high");
        let for_c1 = ("blockio.resources.beta.kubernetes.io/container.c1", "other");
        let of_cri = ("io.kubernetes.cri.blockio-class", "cri");
        check(&[], &[], None);
        check(&[], &[for_pod, for_c1], Some("low"));
        check(&[], &[for_pod, for_c0], Some("high"));
        check(&[of_cri], &[for_pod, for_c0], Some("cri"));
        check(&[], &[for_pod, (for_c0.0, "")], None);
        check(&[for_c0], &[], None);
        check(&[("io.kubernetes.cri.rdt-class", "rdt")], &[of_cri], None);
    }

    #[test]
    fn names_that_cannot_be_groups_are_refused() {
        let check = |class: &str| {
            let annotation = map(&[("rdt.resources.beta.kubernetes.io/pod", class)]);
            let assigned = RDT.assigned("c0", &HashMap::new(), &annotation).unwrap();
            assigned.check_rdt().map_err(|e| e.to_string())
        };
        for class in ["gold", "/", "system/default", "a.b", "..."] {
            assert_eq!(check(class), Ok(()), "{class}");
        }
        for class in [".", "..", "a/b", "a\nb", "x".repeat(4096).as_str()] {
            let expected = format!(
                "annotation rdt.resources.beta.kubernetes.io/pod names RDT class {class:?}, \
                 which cannot be a resctrl group"
            );
            assert_eq!(check(class), Err(expected));
        }
    }
}
