//! Upstream's sample pods, from a checkout.

use crate::{pods, pods::Case, random::Random};
use serde_json::Value;
use std::path::Path;

/// Reads all sample pods; each of their containers is a case.
pub(crate) fn read(checkout: &Path) -> Vec<Case> {
    let mut files: Vec<_> = std::fs::read_dir(checkout.join("plugins"))
        .unwrap()
        .map(|plugin| plugin.unwrap().path())
        .filter(|plugin| plugin.is_dir())
        .flat_map(|plugin| std::fs::read_dir(plugin).unwrap())
        .map(|file| file.unwrap().path())
        .filter(|file| file.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} has no sample pods", checkout.display());
    files.iter().flat_map(|file| pod(file)).collect()
}

fn pod(file: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(file).unwrap();
    let pods: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let mut random = Random::new(1);
    let mut cases = Vec::new();
    for pod in pods.iter().filter(|pod| pod["kind"] == "Pod") {
        let annotations = pod["metadata"]["annotations"].as_object();
        for container in pod["spec"]["containers"].as_array().into_iter().flatten() {
            let mut case = pods::any(&mut random);
            case.pod.name = pod["metadata"]["name"].as_str().unwrap().to_owned();
            case.container.name = container["name"].as_str().unwrap().to_owned();
            let values = annotations.into_iter().flatten();
            case.pod.annotations =
                values.map(|(k, v)| (k.clone(), v.as_str().unwrap().to_owned())).collect();
            cases.push(case);
        }
    }
    assert!(!cases.is_empty(), "{} has no pod", file.display());
    cases
}
