//! Hosts whose kernel does not limit swap (`swapaccount=0`, or a kernel without it): the limit of
//! swap that follows from a memory limit of a plugin has no place there, and is left out.

use crate::{check_verified, update};
use nri_integration::*;
use serde_json::json;

const LIMIT: u64 = 64 << 20;

#[test]
fn a_memory_limit_is_set_where_the_kernel_does_not_limit_swap() {
    let name = "memory limit without swap accounting";
    let Some(go_plugin) = go_plugin(name) else { return };
    for_each_runtime(name, |runtime| {
        let node = Node::new(runtime);
        let bare = node.id("bare");
        node.create(&node.bundle(&bare).make(), &bare).success();
        let files = ("memory.memsw.limit_in_bytes", "memory.swap.max");
        if node.try_cgroup_file(&bare, "memory", files.0, files.1).is_ok() {
            return limitation(name, "this kernel limits swap");
        }
        node.ctl(&["stop"]).success();
        let memory = json!({"limit": {"value": LIMIT}});
        let rules = json!([{"adjust": {"linux": {"resources": {"memory": memory}}}}]);
        let plugin = json!({"rules": rules}).to_string();
        let _journal = node.launch("10-go", &go_plugin, &plugin);
        let id = node.id("c");
        node.create(&node.bundle(&id).make(), &id).success();
        let check = |expected: u64, when: &str| {
            let limit = node.cgroup_file(&id, "memory", "memory.limit_in_bytes", "memory.max");
            assert_eq!(limit, expected.to_string(), "{when}");
            check_verified(&node);
        };
        check(LIMIT, "after the creation");
        update(&node, &id, &json!({"memory": {"limit": 2 * LIMIT}})).success();
        check(2 * LIMIT, "after an update of the engine");
        update(&node, &id, &json!({"pids": {"limit": 100}})).success();
        check(2 * LIMIT, "after an update of another field");
    });
}
