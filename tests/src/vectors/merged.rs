//! Compares a merge that a runtime has made with the expected result of a case.

use super::case::{Case, Expected};
use super::compare;
use super::difference::Difference;
use super::refusal::difference;
use nri_api::proto::{ContainerAdjustment, ContainerUpdate, OwningPlugins};
use nri_spec::{ApplyContext, OciConfig};

/// What a runtime has merged the replies to a creation to, as it tells it to validators.
#[derive(Debug, Clone, Default)]
pub struct Merged {
    /// The merged adjustment.
    pub adjust: ContainerAdjustment,
    /// Owners of the fields, with the container of the case under the id of the case.
    pub owners: OwningPlugins,
    /// Updates of other containers.
    pub updates: Vec<ContainerUpdate>,
}

impl Merged {
    /// Compares the merge with the result of a creation. The adjustment is applied to the OCI
    /// config of the case, so that two adjustments with the same effect are equal.
    ///
    /// # Errors
    /// The first difference.
    pub fn compare(&self, case: &Case) -> Result<(), Difference> {
        let Expected::Outcome { spec, owners, updates } = &case.expected else {
            return Err(difference("an error", "none"));
        };
        if let Some(expected) = owners {
            compare::owners(expected, &self.owners)?;
        }
        if let Some(expected) = updates {
            let got: Vec<_> = self.updates.iter().cloned().map(Some).collect();
            compare::updates(expected, &got)?;
        }
        let Some(expected) = spec else { return Ok(()) };
        let invalid = |error: &dyn std::fmt::Display| difference("no error", &error.to_string());
        let mut config = OciConfig::from_value(case.spec.clone()).map_err(|e| invalid(&e))?;
        let context = ApplyContext {
            blockio: &|class| case.blockio_classes.get(class).cloned(),
            rdt: &|class| case.rdt_classes.get(class).cloned(),
            ..Default::default()
        };
        nri_spec::apply(&mut config, &self.adjust, &context).map_err(|e| invalid(&e))?;
        compare::configs(expected, &config.into_value())
    }
}
