//! containerd, called through the container runtime interface, as a kubelet does.

use nri_integration::engines::*;
use serde_json::json;

#[test]
fn versions() {
    if !Containerd::has_cri("cri version") {
        return;
    }
    for_each_suite("cri version", "containerd", |suite| {
        let containerd = Containerd::start(suite);
        assert_eq!(containerd.cri("Version", &json!({}))["runtime_name"], "containerd");
    });
}
