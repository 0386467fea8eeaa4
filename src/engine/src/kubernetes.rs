//! Parses names of kubelet's containers: `k8s_<container>_<pod>_<namespace>_<uid>_<attempt>`.
//! Names of CRI-O's sandboxes lack `<container>`. The names of Kubernetes objects have no
//! underscore, so underscores separate the parts. Sources: cri-dockerd, `core/naming.go`; CRI-O,
//! `internal/lib/sandbox/builder.go`.

use crate::{Map, Pod};

/// Label keys that kubelet sets on containers and sandboxes.
pub(crate) const POD_NAME: &str = "io.kubernetes.pod.name";
pub(crate) const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
pub(crate) const POD_UID: &str = "io.kubernetes.pod.uid";
pub(crate) const CONTAINER_NAME: &str = "io.kubernetes.container.name";

/// Container part of the name of a sandbox container.
pub(crate) const SANDBOX: &str = "POD";

/// Parts of the name that kubelet gives a container.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Names<'a> {
    pub(crate) container: &'a str,
    pub(crate) pod: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) uid: &'a str,
}

/// Parses the name of a container, with or without the random suffix that cri-dockerd appends if
/// the name is in use.
pub(crate) fn of_container(name: &str) -> Option<Names<'_>> {
    match name.split('_').collect::<Vec<_>>().as_slice() {
        &["k8s", container, pod, namespace, uid, _]
        | &["k8s", container, pod, namespace, uid, _, _] => {
            Some(Names { container, pod, namespace, uid })
        }
        _ => None,
    }
}

/// Parses the name of a sandbox. Clients other than kubelet may use underscores in the name of the
/// pod.
pub(crate) fn of_sandbox(name: &str) -> Option<Names<'_>> {
    match name.strip_prefix("k8s_")?.rsplitn(4, '_').collect::<Vec<_>>().as_slice() {
        &[_, uid, namespace, pod] => Some(Names { container: "", pod, namespace, uid }),
        _ => None,
    }
}

/// Sets name, namespace and uid of a pod from the parsed name of a container or sandbox, else from
/// kubelet's labels.
pub(crate) fn name_pod(pod: &mut Pod, names: Option<&Names<'_>>, labels: &Map) {
    let choose = |from_name: Option<&str>, key: &str| {
        from_name.map(str::to_owned).or_else(|| labels.get(key).cloned()).unwrap_or_default()
    };
    pod.name = choose(names.map(|n| n.pod), POD_NAME);
    pod.namespace = choose(names.map(|n| n.namespace), POD_NAMESPACE);
    pod.uid = choose(names.map(|n| n.uid), POD_UID);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_and_sandbox_names_are_parsed() {
        let web = Names { container: "nginx", pod: "web", namespace: "default", uid: "u-1" };
        assert_eq!(of_container("k8s_nginx_web_default_u-1_0").as_ref(), Some(&web));
        assert_eq!(of_container("k8s_nginx_web_default_u-1_0_1a2b3c4d").as_ref(), Some(&web));
        assert_eq!(of_sandbox("k8s_web_default_u-1_0"), Some(Names { container: "", ..web }));
        for name in ["", "web", "k8s_web", "x_nginx_web_default_u-1_0", "k8s_a_b_c_d_e_f_g"] {
            assert_eq!(of_container(name), None, "{name}");
        }
        assert_eq!(of_sandbox("k8s_my_web_default_u-1_0").unwrap().pod, "my_web");
        assert_eq!(
            (of_sandbox("k8s_default_u-1_0"), of_sandbox("web_default_u-1_0_0")),
            (None, None)
        );
    }
}
