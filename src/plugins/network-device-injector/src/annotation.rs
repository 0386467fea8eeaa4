//! The annotation of a pod: which network devices the pod gets, and how they are configured.

use nri_plugin::from_go_yaml;
use serde::Deserialize;
use std::{collections::HashMap, net::IpAddr};

/// Keys of the annotation; the first one that is set applies. The code of upstream's plugin has the
/// first four, its documentation the last two.
const KEYS: [&str; 6] = [
    "netdevice.noderesource.dev/pod",
    "netdevices.nri.containerd.io/pod",
    "netdevice.noderesource.dev",
    "netdevices.nri.containerd.io",
    "netdevices.noderesource.dev/pod",
    "netdevices.noderesource.dev",
];

/// Longest name of a network device, in bytes (`IFNAMSIZ` without the end of the string).
const MAX_NAME: usize = 15;

/// A network device, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Device {
    /// Name on the host.
    pub(crate) host_name: String,
    /// Name in the pod.
    pub(crate) name: String,
    /// Address in the pod, and the length of its prefix.
    pub(crate) address: Option<(IpAddr, u8)>,
    pub(crate) mtu: Option<u32>,
}

/// The annotation is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid annotation {key}: {reason}")]
pub(crate) struct InvalidAnnotation {
    key: String,
    reason: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Annotated {
    name: String,
    new_name: String,
    address: String,
    prefix: u8,
    mtu: u32,
}

/// Reads the devices of a pod.
pub(crate) fn devices(
    annotations: &HashMap<String, String>,
) -> Result<Vec<Device>, InvalidAnnotation> {
    let Some((key, text)) = KEYS.iter().find_map(|key| annotations.get_key_value(*key)) else {
        return Ok(Vec::new());
    };
    let invalid = |reason| InvalidAnnotation { key: key.clone(), reason };
    let annotated: Option<Vec<Annotated>> =
        from_go_yaml(text).map_err(|e| invalid(e.to_string()))?;
    let annotated = annotated.unwrap_or_default().into_iter();
    annotated.map(Annotated::checked).collect::<Result<_, _>>().map_err(invalid)
}

impl Annotated {
    fn checked(self) -> Result<Device, String> {
        let name = if self.new_name.is_empty() { self.name.clone() } else { self.new_name };
        for name in [&self.name, &name] {
            let is_valid = !name.is_empty() && name.len() <= MAX_NAME && !name.contains('/');
            if !is_valid || name.contains(char::is_whitespace) {
                return Err(format!("{name:?} is no name of a network device"));
            }
        }
        let address = match self.address.as_str() {
            "" => None,
            text => {
                let address: IpAddr =
                    text.parse().map_err(|_| format!("{text:?} is no IP address"))?;
                let longest = if address.is_ipv4() { 32 } else { 128 };
                let prefix = if self.prefix == 0 { longest } else { self.prefix };
                if prefix > longest {
                    return Err(format!("prefix {prefix} of {address} is longer than {longest}"));
                }
                Some((address, prefix))
            }
        };
        let mtu = (self.mtu != 0).then_some(self.mtu);
        Ok(Device { host_name: self.name, name, address, mtu })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(annotations: &[(&str, &str)]) -> Result<Vec<Device>, String> {
        let owned = annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        devices(&owned.collect()).map_err(|e| e.to_string())
    }

    #[test]
    fn the_first_key_applies() {
        let mut annotations = Vec::new();
        for key in KEYS.iter().rev() {
            let value = format!("- name: eth{}", annotations.len());
            let expected = format!("eth{}", annotations.len());
            annotations.push((*key, value));
            let all: Vec<_> = annotations.iter().map(|(k, v)| (*k, v.as_str())).collect();
            assert_eq!(read(&all).unwrap()[0].host_name, expected, "{key}");
        }
        assert_eq!(read(&[]), Ok(vec![]));
        assert_eq!(read(&[("netdevices.noderesource.dev/pod", "")]), Ok(vec![]));
    }

    #[test]
    fn devices_have_defaults() {
        let text = "- {name: enp2s2f0, new_name: eth1, address: 192.168.2.2, prefix: 24, \
                    mtu: 1400}\n- {name: a, address: 10.0.0.1}\n- {name: b, address: '::1'}\n";
        let read = read(&[("netdevices.noderesource.dev", text)]).unwrap();
        let expected = Device {
            host_name: "enp2s2f0".into(),
            name: "eth1".into(),
            address: Some(("192.168.2.2".parse().unwrap(), 24)),
            mtu: Some(1400),
        };
        assert_eq!(read[0], expected);
        assert_eq!((read[1].name.as_str(), read[1].address.unwrap().1), ("a", 32));
        assert_eq!((read[2].mtu, read[2].address.unwrap().1), (None, 128));
    }

    #[test]
    fn invalid_values_are_named() {
        let check = |text: &str, expected: &str| {
            let error = read(&[("netdevices.noderesource.dev", text)]).unwrap_err();
            let reason = error.strip_prefix("invalid annotation netdevices.noderesource.dev: ");
            assert!(reason.is_some_and(|reason| reason.contains(expected)), "{error}");
        };
        check("- mtu: 1", "\"\" is no name of a network device");
        check("- name: 'a b'", "\"a b\" is no name of a network device");
        check("- {name: a, new_name: sixteen-bytes-xx}", "\"sixteen-bytes-xx\" is no name");
        check("- {name: a, address: 1.2.3}", "\"1.2.3\" is no IP address");
        check(
            "- {name: a, address: 1.2.3.4, prefix: 33}",
            "prefix 33 of 1.2.3.4 is longer than 32",
        );
        check("- 7", "[0] must be a mapping");
        check("- {name: a, mtu: many}", "[0].mtu must be a whole number from 0 to 4294967295, not");
        check("- [", "line 1");
    }
}
