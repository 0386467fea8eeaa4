//! Files of block I/O and RDT classes: each class of a valid file resolves to values that the OCI
//! specification allows.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nri_fuzz::{
    Input,
    json::{self, nulls},
};
use nri_spec::{BlockIoClasses, RdtClasses};
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    if let Some(config) = json::parse(input.part()) {
        if let Ok(classes) = BlockIoClasses::parse(&config) {
            for name in classes.names() {
                check_blockio(&classes.resolve(name, &devices).expect("a listed class resolves"));
            }
        }
        if let Ok(classes) = RdtClasses::parse(&config) {
            for name in classes.names().chain(["system/default"]) {
                let class = classes.resolve(name).expect("a listed class resolves");
                assert!(class["closID"].is_string() && nulls(&class) == 0);
            }
        }
    }
});

/// Returns the devices that match a pattern: none to three, depending on the pattern's length.
fn devices(pattern: &str) -> Vec<(i64, i64)> {
    (0..pattern.len() as i64 % 4).map(|minor| (8, minor)).collect()
}

fn check_blockio(class: &Value) {
    let in_range = |weight: &Value| weight.as_u64().is_some_and(|w| (10..=1000).contains(&w));
    for (key, value) in class.as_object().expect("an object") {
        let entries = value.as_array().into_iter().flatten();
        match key.as_str() {
            "weight" => assert!(in_range(value), "{class}"),
            "weightDevice" => assert!(entries.clone().all(|e| in_range(&e["weight"])), "{class}"),
            _ => assert!(entries.clone().all(|e| e["rate"].as_i64().is_some()), "{class}"),
        }
        let mut devices: Vec<_> =
            entries.map(|e| (e["major"].as_i64(), e["minor"].as_i64())).collect();
        let all = devices.len();
        devices.dedup();
        assert_eq!(devices.len(), all, "each device once: {class}");
    }
}
