//! Work on `config.json`: read, adjust, write.

use crate::Merge;
use nri_api::proto::ContainerAdjustment;
use nri_spec::{ApplyContext, OciConfig, apply};

/// The `config.json` that containerd writes for a container of Kubernetes.
const TEXT: &[u8] =
    include_bytes!("../../../src/spec/tests/samples/containerd-cri-1.6.20.config.json");

/// A change of `config.json`.
#[derive(Debug)]
pub struct ConfigJson {
    adjust: ContainerAdjustment,
}

impl ConfigJson {
    /// Creates the change that some plugins request together.
    pub fn new(plugins: usize) -> Self {
        Self { adjust: Merge::new(plugins).run().adjust }
    }

    /// Parses, adjusts and writes `config.json`, and returns the new text.
    pub fn run(&self) -> Vec<u8> {
        let mut config = OciConfig::parse(TEXT).expect("the sample is valid");
        let applied = apply(&mut config, &self.adjust, &ApplyContext::default());
        assert!(applied.expect("nothing depends on the host").changed);
        config.to_bytes()
    }
}
