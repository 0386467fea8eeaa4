//! Description of a plugin's update for the log, by the names of its fields.

use nri_api::{Access, RESOURCE_FIELDS, entry_name, proto::ContainerUpdate};

/// Returns the fields that an update would set, with their values.
pub(super) fn described(update: &ContainerUpdate) -> String {
    let resources = &update.linux.resources;
    let mut fields = Vec::new();
    for row in RESOURCE_FIELDS {
        let name = row.name;
        match &row.access {
            Access::Int64(a) => {
                fields.extend((a.get)(resources).map(|value| format!("{name}={value}")));
            }
            Access::UInt64(a) => {
                fields.extend((a.get)(resources).map(|value| format!("{name}={value}")));
            }
            Access::Bool(a) => {
                fields.extend((a.get)(resources).map(|value| format!("{name}={value}")));
            }
            Access::Text(a) => {
                fields.extend((a.get)(resources).map(|value| format!("{name}={value:?}")));
            }
            Access::Entries(_) | Access::OciOnly => {}
        }
    }
    for limit in &resources.hugepage_limits {
        let name = entry_name("hugepageLimits", &limit.page_size);
        fields.push(format!("{name}={}", limit.limit));
    }
    for (file, value) in &resources.unified {
        fields.push(format!("{}={value:?}", entry_name("unified", file)));
    }
    if !resources.devices.is_empty() {
        fields.push(format!("resources.devices ({} rules)", resources.devices.len()));
    }
    fields.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_api::{opt, proto::HugepageLimit};

    #[test]
    fn an_update_is_described_by_the_names_of_its_fields() {
        let mut update = ContainerUpdate::new();
        assert_eq!(described(&update), "");
        let resources = update.linux.mut_or_insert_default().resources.mut_or_insert_default();
        resources.memory.mut_or_insert_default().limit = opt(Some(7));
        resources.cpu.mut_or_insert_default().cpus = "0-1".to_owned();
        resources.blockio_class = opt(Some("slow".to_owned()));
        resources.unified.insert("memory.high".to_owned(), "max".to_owned());
        resources.hugepage_limits.push(HugepageLimit {
            page_size: "2MB".to_owned(),
            limit: 4,
            ..Default::default()
        });
        resources.devices.push(Default::default());
        assert_eq!(
            described(&update),
            "memory.limit=7, cpu.cpus=\"0-1\", blockio_class=\"slow\", hugepageLimits[2MB]=4, \
             unified[memory.high]=\"max\", resources.devices (1 rules)"
        );
    }
}
