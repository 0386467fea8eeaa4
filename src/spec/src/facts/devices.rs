//! The fact `device_access`: the devices that the rules of `linux.resources.devices` allow.
//!
//! Runtimes apply the rules in their order, and then rules of their own. They differ in details:
//! runc follows the kernel's devices controller of cgroup v1, in which a rule for all devices
//! ignores numbers and access, and a rule removes only an earlier one of the same numbers; crun
//! takes the last rule that matches all of a request. What either of them allows is allowed here.
//! Entries of `linux.devices` add no rules.

use crate::{OciConfig, capability::RuntimeKind};
use serde_json::Value;
use std::{collections::BTreeMap, fmt};

const READ: u8 = 1;
const WRITE: u8 = 2;
const MKNOD: u8 = 4;
const ALL: u8 = READ | WRITE | MKNOD;

/// Letters of accesses.
const LETTERS: [(char, u8); 3] = [('r', READ), ('w', WRITE), ('m', MKNOD)];

/// Rules that runtimes append, of any of runc 1.1 to 1.3, crun and youki. All allow nodes of any
/// device to be made, but not opened.
const OF_RUNTIMES: [(Device, u8); 12] = [
    (Device('b', None, None), MKNOD),
    (Device('c', None, None), MKNOD),
    (Device('c', Some(1), Some(3)), ALL),
    (Device('c', Some(1), Some(5)), ALL),
    (Device('c', Some(1), Some(7)), ALL),
    (Device('c', Some(1), Some(8)), ALL),
    (Device('c', Some(1), Some(9)), ALL),
    (Device('c', Some(5), Some(0)), ALL),
    (Device('c', Some(5), Some(1)), ALL),
    (Device('c', Some(5), Some(2)), ALL),
    (Device('c', Some(10), Some(200)), ALL),
    (Device('c', Some(136), None), ALL),
];

/// Kind, major and minor number of devices; `None` is any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Device(char, Option<i64>, Option<i64>);

/// Access to devices. [`fmt::Display`] writes the value of the annotation.
#[derive(Debug, Default)]
pub(super) struct DeviceAccess(BTreeMap<Device, u8>);

impl DeviceAccess {
    /// Evaluates the rules. Without any, runc denies what its own rules do not allow, and crun
    /// allows all.
    pub(super) fn of(config: &OciConfig, kind: Option<RuntimeKind>) -> Self {
        let rules = config.get(&["linux", "resources", "devices"]).and_then(Value::as_array);
        let mut access = Self::default();
        match rules.filter(|rules| !rules.is_empty()) {
            Some(rules) => rules.iter().for_each(|rule| access.apply(rule)),
            None if kind == Some(RuntimeKind::Runc) => {}
            None => access.allow_all(),
        }
        for (device, allowed) in OF_RUNTIMES {
            access.allow(device, allowed);
        }
        access
    }

    /// Whether all block devices, or all character devices, may be opened and written.
    pub(super) fn has_all_of_a_kind(&self) -> bool {
        ['b', 'c'].into_iter().any(|kind| self.has_all(kind))
    }

    fn has_all(&self, kind: char) -> bool {
        self.0.get(&Device(kind, None, None)) == Some(&ALL)
    }

    fn apply(&mut self, rule: &Value) {
        // Missing and negative numbers stand for any.
        let number = |key: &str| rule.get(key).and_then(Value::as_i64).filter(|n| *n >= 0);
        let (major, minor) = (number("major"), number("minor"));
        let text = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or_default();
        let named = LETTERS.into_iter().filter(|(letter, _)| text("access").contains(*letter));
        let named = named.fold(0, |access, (_, bit)| access | bit);
        let kind = text("type").chars().next().unwrap_or('a');
        match (rule.get("allow") == Some(&Value::Bool(true)), kind) {
            (true, 'a') => self.allow_all(),
            // No runtime allows more than all if the access is missing.
            (true, _) => {
                self.allow(device(kind, major, minor), if named == 0 { ALL } else { named })
            }
            (false, 'a') => {
                if (major, minor, named) == (None, None, ALL) {
                    self.0.clear();
                }
            }
            (false, _) => self.deny(device(kind, major, minor), named),
        }
    }

    /// Allows all devices, as without a cgroup.
    pub(super) fn allow_all(&mut self) {
        self.0.clear();
        for kind in ['b', 'c'] {
            self.allow(Device(kind, None, None), ALL);
        }
    }

    fn allow(&mut self, device: Device, access: u8) {
        *self.0.entry(device).or_default() |= access;
    }

    /// Removes access to exactly `device`. To read and write at once needs one rule of crun that
    /// has both: without reading alone, a device can still be read that way.
    fn deny(&mut self, device: Device, access: u8) {
        let Some(allowed) = self.0.get_mut(&device) else { return };
        let data = *allowed & (READ | WRITE);
        if access & data == data {
            *allowed &= !data;
        }
        *allowed &= !(access & MKNOD);
        if *allowed == 0 {
            self.0.remove(&device);
        }
    }

    /// Returns the access that entries for more devices give to `device`.
    fn of_wider(&self, Device(kind, major, minor): Device) -> u8 {
        let wider = [(None, None), (major, None), (None, minor)];
        let wider = wider.into_iter().filter(|numbers| *numbers != (major, minor));
        let access = wider.filter_map(|(major, minor)| self.0.get(&Device(kind, major, minor)));
        access.fold(0, |all, access| all | access)
    }
}

/// Returns the devices of a rule. crun takes each kind but `b` for character devices; runc refuses
/// unknown kinds.
fn device(kind: char, major: Option<i64>, minor: Option<i64>) -> Device {
    Device(if kind == 'b' { 'b' } else { 'c' }, major, minor)
}

impl fmt::Display for DeviceAccess {
    /// Writes entries as in `devices.list`, joined by commas: each with the whole access to its
    /// devices, and none that others contain.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.has_all('b') && self.has_all('c') {
            return f.write_str("a *:* rwm");
        }
        let mut separator = "";
        for (device, own) in &self.0 {
            let wider = self.of_wider(*device);
            if own | wider == wider {
                continue;
            }
            let number = |n: Option<i64>| n.map_or_else(|| "*".to_owned(), |n| n.to_string());
            let Device(kind, major, minor) = device;
            let letters = LETTERS.into_iter().filter(|(_, bit)| (own | wider) & bit != 0);
            let access: String = letters.map(|(letter, _)| letter).collect();
            write!(f, "{separator}{kind} {}:{} {access}", number(*major), number(*minor))?;
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What runtimes always allow, before and after the place of `c 2:…` to `c 4:…`.
    const FIRST: &str = "b *:* m,c *:* m,c 1:3 rwm,c 1:5 rwm,c 1:7 rwm,c 1:8 rwm,c 1:9 rwm";
    const LAST: &str = "c 5:0 rwm,c 5:1 rwm,c 5:2 rwm,c 10:200 rwm,c 136:* rwm";

    fn of(rules: &Value, kind: Option<RuntimeKind>) -> DeviceAccess {
        let config = json!({"linux": {"resources": {"devices": rules}}});
        DeviceAccess::of(&OciConfig::from_value(config).unwrap(), kind)
    }

    /// Evaluates rules of the form `+c 1:3 rwm`.
    fn rules(texts: &[&str]) -> DeviceAccess {
        let rule = |text: &&str| {
            let fields: Vec<_> = text[1..].split([' ', ':']).collect();
            let number = |n: &str| n.parse::<i64>().unwrap_or(-1);
            json!({
                "allow": text.starts_with('+'), "type": fields[0], "major": number(fields[1]),
                "minor": number(fields[2]), "access": fields[3],
            })
        };
        of(&texts.iter().map(rule).collect(), None)
    }

    fn check(texts: &[&str], expected: &str) {
        assert_eq!(rules(texts).to_string(), expected, "{texts:?}");
    }

    #[test]
    fn the_result_has_what_is_allowed_in_the_end_and_the_rules_of_runtimes() {
        let usual = format!("{FIRST},{LAST}");
        check(&["-a *:* rwm"], &usual);
        check(&["-a *:* rwm", "+c 1:3 rwm", "+c 5:0 r"], &usual);
        check(&["+b 8:0 rwm", "-a *:* rwm", "+c 4:7 r"], &format!("{FIRST},c 4:7 rm,{LAST}"));
        check(&["+c 4:7 rw", "-c 4:7 rwm"], &usual);
        check(&["+c 4:7 rw", "-c 4:7 rwm", "+c 4:7 w"], &format!("{FIRST},c 4:7 wm,{LAST}"));
        let of_8 = FIRST.replace(",c *", ",b 8:* rwm,c *");
        check(&["+b 8:* rw", "+b 8:1 rwm"], &format!("{of_8},{LAST}"));
    }

    #[test]
    fn all_devices_are_recognized_however_they_are_allowed() {
        for all in [
            &["+a *:* rwm"][..],
            &["-a *:* rwm", "+b *:* rwm", "+c *:* rwm"],
            &["+c *:* r", "+c *:* w", "+b *:* rw"],
            // runc allows all of it.
            &["-a *:* rwm", "+a 1:3 r"],
            &["+a *:* rwm", "-c 1:3 rwm"],
            &["+a *:* rwm", "-a 8:* rwm"],
            // crun allows reading and writing at once.
            &["+a *:* rwm", "-b *:* r", "-c *:* w"],
        ] {
            check(all, "a *:* rwm");
            assert!(rules(all).has_all_of_a_kind());
        }
        let of_a_kind = rules(&["-a *:* rwm", "+b *:* rw"]);
        assert!(of_a_kind.has_all_of_a_kind());
        let expected = FIRST.replace("b *:* m", "b *:* rwm");
        assert_eq!(of_a_kind.to_string(), format!("{expected},{LAST}"));
        let none = [
            &["+a *:* rwm", "-a *:* rwm"][..],
            &["+a *:* rwm", "-b *:* rw", "-c *:* rwm"],
            &["-a *:* rwm", "+b *:* r", "+c 1:* rwm"],
        ];
        for rest in none {
            assert!(!rules(rest).has_all_of_a_kind(), "{rest:?}");
        }
    }

    #[test]
    fn missing_members_of_a_rule_stand_for_all() {
        assert!(of(&json!([{"allow": true}]), None).has_all_of_a_kind());
        let usual = of(&json!([{"allow": false, "access": "rwm"}]), None);
        assert!(!usual.has_all_of_a_kind());
        assert!(of(&json!([{"allow": true, "type": "b"}]), None).has_all_of_a_kind());
        let numbers = json!([{"allow": true, "type": "c", "major": 4, "access": "rw"}]);
        assert!(of(&numbers, None).to_string().contains("c 4:* rwm"));
    }

    #[test]
    fn without_rules_the_runtime_decides() {
        for rules in [json!([]), Value::Null] {
            let runc = of(&rules, Some(RuntimeKind::Runc));
            assert_eq!(runc.to_string(), format!("{FIRST},{LAST}"));
            for kind in [Some(RuntimeKind::Crun), Some(RuntimeKind::Youki), None] {
                assert_eq!(of(&rules, kind).to_string(), "a *:* rwm");
            }
        }
    }
}
