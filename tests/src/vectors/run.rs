//! Runs a case through the merge, the validator and the adjustment of the OCI config.

use super::case::{Case, Expected, Op};
use super::compare;
use super::difference::Difference;
use super::refusal::{Refusal, difference};
use nri_api::proto::{
    Container, ContainerUpdate, CreateContainerResponse, OwningPlugins, UpdateContainerResponse,
};
use nri_merge::validator;
use nri_merge::{CreateMerge, UpdateMerge, UpdatesMerge};
use nri_spec::{ApplyContext, ContainerInfo, OciConfig};
use serde_json::Value;

/// Actual result of a case.
struct Outcome {
    spec: Option<Value>,
    owners: OwningPlugins,
    updates: Vec<Option<ContainerUpdate>>,
}

/// Runs a case and compares its result with the expected result.
///
/// # Errors
/// The first difference.
pub fn run(case: &Case) -> Result<(), Difference> {
    let outcome = match case.op {
        Op::Create => create(case),
        Op::Update => update(case),
        Op::Stop => stop(case),
    };
    match (&case.expected, outcome) {
        (Expected::Error { error, .. }, Ok(_)) => Err(difference(error, "no error")),
        (Expected::Error { error, stage }, Err(refusal)) => refusal.compare(error, stage),
        (Expected::Outcome { .. }, Err(refusal)) => {
            Err(difference("no error", &refusal.to_string()))
        }
        (Expected::Outcome { spec, owners, updates }, Ok(outcome)) => {
            if let Some(expected) = owners {
                compare::owners(expected, &outcome.owners)?;
            }
            if let Some(expected) = updates {
                compare::updates(expected, &outcome.updates)?;
            }
            match (spec, &outcome.spec) {
                (Some(expected), Some(got)) => compare::configs(expected, got),
                (Some(_), None) => Err(difference("an OCI config", "none")),
                (None, _) => Ok(()),
            }
        }
    }
}

fn create(case: &Case) -> Result<Outcome, Refusal> {
    let mut config = OciConfig::from_value(case.spec.clone())?;
    let mut merge = CreateMerge::new(case.pod.clone(), container(case, &config)?);
    for plugin in &case.plugins {
        let reply = CreateContainerResponse {
            adjust: plugin.adjust.clone().into(),
            update: plugin.updates.clone(),
            ..Default::default()
        };
        merge.reply(&plugin.id, reply)?;
    }
    let outcome = merge.finish();
    if let Some(config) = &case.validator {
        validator::validate(config, &outcome.validation())?;
    }
    let context = ApplyContext {
        blockio: &|class| case.blockio_classes.get(class).cloned(),
        rdt: &|class| case.rdt_classes.get(class).cloned(),
        ..Default::default()
    };
    nri_spec::apply(&mut config, &outcome.adjust, &context)?;
    Ok(Outcome {
        spec: Some(config.into_value()),
        owners: outcome.owners,
        updates: outcome.updates.into_iter().map(Some).collect(),
    })
}

fn update(case: &Case) -> Result<Outcome, Refusal> {
    let config = OciConfig::from_value(case.spec.clone())?;
    let container = container(case, &config)?;
    let mut merge = UpdateMerge::new(case.pod.clone(), container, case.resources.clone());
    for plugin in &case.plugins {
        let reply =
            UpdateContainerResponse { update: plugin.updates.clone(), ..Default::default() };
        merge.reply(&plugin.id, reply)?;
    }
    let outcome = merge.finish();
    let others = outcome.updates.into_iter().map(Some);
    Ok(Outcome {
        spec: None,
        owners: outcome.owners,
        updates: others.chain([outcome.merged_update]).collect(),
    })
}

fn stop(case: &Case) -> Result<Outcome, Refusal> {
    let mut merge = UpdatesMerge::new();
    for plugin in &case.plugins {
        merge.reply(&plugin.id, plugin.updates.clone())?;
    }
    let outcome = merge.finish();
    Ok(Outcome {
        spec: None,
        owners: outcome.owners,
        updates: outcome.updates.into_iter().map(Some).collect(),
    })
}

fn container(case: &Case, config: &OciConfig) -> Result<Container, Refusal> {
    let info = ContainerInfo {
        id: case.container_id.clone(),
        pod_sandbox_id: case.pod.id.clone(),
        name: case.container_id.clone(),
        ..Default::default()
    };
    Ok(nri_spec::to_container(config, &info)?)
}
