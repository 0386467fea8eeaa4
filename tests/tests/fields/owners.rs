//! Ownership in the merge: each field, set alone, must be in the merged adjustment, have an owner,
//! and be in the container that the next plugin receives, if a container has this field.

use crate::protocol::{KEY, fixed, has_field, only, paths};
use crate::table::Claim::{Clears, Of, Unowned};
use crate::table::{ROWS, Row};
use nri_api::proto::{
    Container, ContainerAdjustment, CreateContainerResponse, Field, OwningPlugins,
};
use nri_api::proto::{ContainerUpdate, LinuxResources};
use nri_api::{FieldKind, PluginId, field_kind};
use nri_merge::{CreateMerge, UpdatesMerge};
use protobuf::Enum;
use std::collections::BTreeSet;

/// Field that plugins see when it is applied, and not in the container that is merged.
const NOT_IN_CONTAINERS: &str = "CDI_devices";

/// Paths of `LinuxResources` that an update ignores.
const NOT_IN_UPDATES: &[&str] = &["devices"];

const PLUGIN: &str = "00-p";

#[test]
fn every_field_of_an_adjustment_is_merged_and_owned() {
    let id = PluginId::from_file_name(PLUGIN).unwrap();
    for Row { path, claim, .. } in ROWS.iter() {
        let requested: ContainerAdjustment = only(path, &mut fixed);
        assert_ne!(requested, ContainerAdjustment::new(), "{path}");
        let mut before = Container { id: "me".to_owned(), ..Default::default() };
        // `linux.rdt.remove` changes nothing in a container without RDT settings.
        before.linux.mut_or_insert_default().rdt.mut_or_insert_default();
        let mut merge = CreateMerge::new(Default::default(), before.clone());
        let reply = CreateContainerResponse {
            adjust: Some(requested.clone()).into(),
            ..Default::default()
        };
        merge.reply(&id, reply.clone()).unwrap();
        let second_reply = merge.clone().reply(&id, reply);
        let outcome = merge.finish();
        assert_eq!(outcome.adjust, requested, "{path}");
        assert_eq!(
            outcome.container == before,
            path == NOT_IN_CONTAINERS || !has_field::<Container>(path),
            "{path}: {}",
            outcome.container
        );
        assert_eq!(outcome.ignored, [], "{path}");
        let claimed = claims(&outcome.owners, "me");
        let (expected, is_exclusive) = match claim {
            Unowned => (BTreeSet::new(), false),
            Of(field) => {
                let is_exclusive = field_kind(*field) != Some(FieldKind::Accumulated);
                ([(field.value(), PLUGIN.to_owned())].into(), is_exclusive)
            }
            Clears(fields) => {
                (fields.iter().map(|f| (f.value(), format!("-{PLUGIN}"))).collect(), false)
            }
        };
        assert_eq!(claimed, expected, "{path}");
        assert_eq!(
            second_reply.is_err(),
            is_exclusive,
            "{path}: a field with an owner cannot be set twice"
        );
    }
}

#[test]
fn every_ownable_field_can_be_adjusted() {
    let adjustable: BTreeSet<i32> = ROWS
        .iter()
        .filter_map(|row| if let Of(field) = row.claim { Some(field.value()) } else { None })
        .collect();
    let fields: BTreeSet<i32> = Field::VALUES.iter().map(Enum::value).filter(|f| *f != 0).collect();
    assert_eq!(adjustable, fields);
}

#[test]
fn every_field_of_an_update_is_merged_and_owned_or_reported() {
    let id = PluginId::from_file_name(PLUGIN).unwrap();
    for path in paths::<LinuxResources>() {
        let resources: LinuxResources = only(&path, &mut fixed);
        let mut requested = ContainerUpdate { container_id: "c".to_owned(), ..Default::default() };
        requested.linux.mut_or_insert_default().resources = Some(resources).into();
        let mut merge = UpdatesMerge::new();
        merge.reply(&id, vec![requested.clone()]).unwrap();
        let outcome = merge.finish();
        if NOT_IN_UPDATES.contains(&path.as_str()) {
            assert_eq!(outcome.ignored.len(), 1, "{path}");
            continue;
        }
        assert_eq!(outcome.updates, [requested], "{path}");
        assert_eq!(outcome.ignored, [], "{path}");
        let adjusted = format!("linux.resources.{path}");
        let expected = ROWS.iter().find_map(|row| match row.claim {
            Of(field) if row.path == adjusted => Some((field.value(), PLUGIN.to_owned())),
            _ => None,
        });
        assert_eq!(claims(&outcome.owners, "c"), expected.into_iter().collect(), "{path}");
    }
}

/// Returns the fields of a container and their owners. The key of a compound field must be [`KEY`],
/// the text that [`fixed`] chooses.
fn claims(owners: &OwningPlugins, container: &str) -> BTreeSet<(i32, String)> {
    let fields = owners.owners.get(container).cloned().unwrap_or_default();
    let compound = fields.compound.iter().flat_map(|(field, keys)| {
        keys.owners.iter().map(|(key, owner)| {
            assert_eq!(key, KEY, "{owners}");
            (*field, owner.clone())
        })
    });
    fields.simple.iter().map(|(field, owner)| (*field, owner.clone())).chain(compound).collect()
}
