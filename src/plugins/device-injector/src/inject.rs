//! What is injected into a container: devices, CDI devices, mounts and network devices.

use crate::{process::InvalidValue, text::Text};
use nri_plugin::{
    Adjustment, from_go_yaml, opt,
    proto::{LinuxDevice, Mount},
};
use serde::{Deserialize, de::DeserializeOwned};

/// A device node. An owner or mode of 0 is not set.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AnnotatedDevice {
    path: Text,
    r#type: Text,
    major: i64,
    minor: i64,
    file_mode: u32,
    uid: u32,
    gid: u32,
}

/// A mount.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AnnotatedMount {
    source: Text,
    destination: Text,
    r#type: Text,
    options: Option<Vec<Text>>,
}

/// A network device of the host (`hostIf`; all keys are read in lower case), and its name in the
/// container.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AnnotatedNetDevice {
    hostif: Text,
    name: Text,
}

/// Adds the device nodes of an annotation, and returns their paths.
pub(crate) fn devices(
    text: &str,
    adjustment: &mut Adjustment,
) -> Result<Vec<String>, InvalidValue> {
    let devices: Vec<AnnotatedDevice> = list(text)?;
    let added = devices.into_iter().map(|device| {
        let set = |number: u32| (number != 0).then_some(number);
        adjustment.add_device(LinuxDevice {
            path: device.path.0.clone(),
            type_: device.r#type.0,
            major: device.major,
            minor: device.minor,
            file_mode: opt(set(device.file_mode)),
            uid: opt(set(device.uid)),
            gid: opt(set(device.gid)),
            ..Default::default()
        });
        device.path.0
    });
    Ok(added.collect())
}

/// Adds the CDI devices of an annotation, and returns their names.
pub(crate) fn cdi_devices(
    text: &str,
    adjustment: &mut Adjustment,
) -> Result<Vec<String>, InvalidValue> {
    let names: Vec<Text> = list(text)?;
    let names: Vec<String> = names.into_iter().map(|name| name.0).collect();
    for name in &names {
        adjustment.add_cdi_device(name);
    }
    Ok(names)
}

/// Adds the mounts of an annotation, and returns their destinations.
pub(crate) fn mounts(text: &str, adjustment: &mut Adjustment) -> Result<Vec<String>, InvalidValue> {
    let mounts: Vec<AnnotatedMount> = list(text)?;
    let added = mounts.into_iter().map(|mount| {
        let destination = mount.destination.0.clone();
        adjustment.add_mount(Mount {
            source: mount.source.0,
            destination: mount.destination.0,
            type_: mount.r#type.0,
            options: mount.options.unwrap_or_default().into_iter().map(|option| option.0).collect(),
            ..Default::default()
        });
        destination
    });
    Ok(added.collect())
}

/// Adds the network devices of an annotation, and returns their names on the host.
pub(crate) fn net_devices(
    text: &str,
    adjustment: &mut Adjustment,
) -> Result<Vec<String>, InvalidValue> {
    let devices: Vec<AnnotatedNetDevice> = list(text)?;
    let added = devices.into_iter().map(|device| {
        adjustment.add_net_device(&device.hostif.0, device.name.0);
        device.hostif.0
    });
    Ok(added.collect())
}

/// Reads a list; an empty or null value is an empty one.
fn list<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, InvalidValue> {
    Ok(from_go_yaml::<Option<Vec<T>>>(text)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_plugin::proto::ContainerAdjustment;

    type Read = fn(&str, &mut Adjustment) -> Result<Vec<String>, InvalidValue>;

    fn adjusted(read: Read, text: &str) -> (Vec<String>, ContainerAdjustment) {
        let mut adjustment = Adjustment::new();
        let names = read(text, &mut adjustment).unwrap();
        (names, adjustment.build().unwrap())
    }

    #[test]
    fn devices_have_the_annotated_properties() {
        let text = "- path: /dev/a\n  type: c\n  major: 1\n  minor: 3\n  file_mode: 0640\n  \
                    uid: 7\n  gid: 8\n  unknown: x\n- Path: /dev/b\n  type: b\n  major: 0x10\n";
        let (names, adjustment) = adjusted(devices, text);
        assert_eq!(names, ["/dev/a", "/dev/b"]);
        let [a, b] = &adjustment.linux.devices[..] else { panic!("two devices") };
        assert_eq!((a.path.as_str(), a.type_.as_str(), a.major, a.minor), ("/dev/a", "c", 1, 3));
        assert_eq!((a.file_mode.value, a.uid.value, a.gid.value), (0o640, 7, 8));
        assert_eq!((b.path.as_str(), b.major, b.minor), ("/dev/b", 16, 0));
        assert!(b.file_mode.is_none() && b.uid.is_none() && b.gid.is_none());
    }

    #[test]
    fn mounts_cdi_devices_and_network_devices_are_injected() {
        let text = "- source: /home\n  destination: /host-home\n  type: bind\n  \
                    options:\n  - bind\n  - ro\n- destination: /tmp\n  type: tmpfs\n  options:\n";
        let (names, adjustment) = adjusted(mounts, text);
        assert_eq!(names, ["/host-home", "/tmp"]);
        assert_eq!(adjustment.mounts[0].source, "/home");
        assert_eq!(adjustment.mounts[0].options, ["bind", "ro"]);
        assert_eq!(adjustment.mounts[1].type_, "tmpfs");

        let (names, adjustment) = adjusted(cdi_devices, "- vendor0.com/device=null\n");
        assert_eq!(names, ["vendor0.com/device=null"]);
        assert_eq!(adjustment.CDI_devices[0].name, "vendor0.com/device=null");

        let text = "- hostIf: ens2.100\n  Name: netdev0\n- hostIf: ens3\n";
        let (names, adjustment) = adjusted(net_devices, text);
        assert_eq!(names, ["ens2.100", "ens3"]);
        assert_eq!(adjustment.linux.net_devices["ens2.100"].name, "netdev0");
        assert_eq!(adjustment.linux.net_devices["ens3"].name, "");
    }

    #[test]
    fn an_empty_list_injects_nothing_and_other_values_are_errors() {
        for read in [devices, cdi_devices, mounts, net_devices] {
            for text in ["", " \n", "null", "[]"] {
                assert_eq!(adjusted(read, text).0, [""; 0]);
            }
            for text in ["7", "- [", "{a: b}"] {
                let error = read(text, &mut Adjustment::new()).unwrap_err().to_string();
                assert!(!error.is_empty() && !error.contains('\n'), "{text}: {error}");
            }
        }
    }
}
