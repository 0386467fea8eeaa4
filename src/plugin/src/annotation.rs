//! Annotations of a pod that are meant for one of its containers.

use nri_api::proto::PodSandbox;

/// Returns the annotation of a pod that applies to the container of this name: that of the
/// container (`KEY/container.NAME`), else that of the pod (`KEY/pod`, else `KEY`).
///
/// ```
/// use nri_plugin::{effective_annotation, testing::pod};
///
/// let mut pod = pod("shop");
/// pod.annotations.insert("color.example.org".into(), "red".into());
/// pod.annotations.insert("color.example.org/container.web".into(), "blue".into());
/// assert_eq!(effective_annotation(&pod, "color.example.org", "web"), Some("blue"));
/// assert_eq!(effective_annotation(&pod, "color.example.org", "db"), Some("red"));
/// assert_eq!(effective_annotation(&pod, "size.example.org", "db"), None);
/// ```
pub fn effective_annotation<'a>(
    pod: &'a PodSandbox,
    key: &str,
    container: &str,
) -> Option<&'a str> {
    [format!("{key}/container.{container}"), format!("{key}/pod"), key.to_owned()]
        .iter()
        .find_map(|key| pod.annotations.get(key))
        .map(String::as_str)
}
