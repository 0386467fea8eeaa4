//! Moves network devices from the host into a pod, and back.

use crate::{
    annotation::Device,
    namespace::{Change, Namespace},
};
use std::io;

/// A network device was not moved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransferError {
    #[error("network device {0} does not exist on the host")]
    Absent(String),
    #[error("network device {0} exists in the pod already")]
    Taken(String),
    #[error("network device {0} does not exist in the pod")]
    Gone(String),
    #[error("{action} network device {name} failed: {source}")]
    Failed { action: &'static str, name: String, source: io::Error },
}

/// Moves devices into a pod. After an error, all of them are on the host again.
pub(crate) fn inject_all(
    host: &Namespace,
    pod: &Namespace,
    devices: &[Device],
) -> Result<(), TransferError> {
    for (at, device) in devices.iter().enumerate() {
        if let Err(error) = inject(host, pod, device) {
            for injected in devices[..at].iter().rev() {
                if let Err(e) = release(host, pod, injected) {
                    tracing::error!("{e}; it stays in the pod");
                }
            }
            return Err(error);
        }
    }
    Ok(())
}

/// Moves a device into a pod, and configures it. After an error, it is on the host again.
fn inject(host: &Namespace, pod: &Namespace, device: &Device) -> Result<(), TransferError> {
    let failed = |action, name: &str| {
        let name = name.to_owned();
        move |source| TransferError::Failed { action, name, source }
    };
    let index = host.index(&device.host_name).map_err(failed("finding", &device.host_name))?;
    let index = index.ok_or_else(|| TransferError::Absent(device.host_name.clone()))?;
    if pod.index(&device.name).map_err(failed("finding", &device.name))?.is_some() {
        return Err(TransferError::Taken(device.name.clone()));
    }
    let moving = Change { namespace: Some(pod), name: Some(&device.name), ..Change::default() };
    host.change(index, &moving).map_err(failed("moving", &device.host_name))?;
    let configured = configure(pod, device).map_err(failed("configuring", &device.name));
    if configured.is_err()
        && let Err(e) = release(host, pod, device)
    {
        tracing::error!("{e}; it stays in the pod");
    }
    configured
}

/// Configures a device that is in the pod. Its alias is the name that it has on the host, as
/// upstream's plugin sets it, which can release the device then.
fn configure(pod: &Namespace, device: &Device) -> io::Result<()> {
    let index = pod.index(&device.name)?.ok_or(io::ErrorKind::NotFound)?;
    let change = Change {
        alias: Some(&device.host_name),
        mtu: device.mtu,
        is_up: true,
        ..Change::default()
    };
    pod.change(index, &change)?;
    device.address.map_or(Ok(()), |(address, prefix)| pod.add_address(index, address, prefix))
}

/// Moves a device back to the host, where it is down, and has the name that it had.
pub(crate) fn release(
    host: &Namespace,
    pod: &Namespace,
    device: &Device,
) -> Result<(), TransferError> {
    let failed = |action| {
        let name = device.name.clone();
        move |source| TransferError::Failed { action, name, source }
    };
    let index = pod.index(&device.name).map_err(failed("finding"))?;
    let index = index.ok_or_else(|| TransferError::Gone(device.name.clone()))?;
    if host.index(&device.host_name).map_err(failed("releasing"))?.is_some() {
        return Err(failed("releasing")(io::ErrorKind::AlreadyExists.into()));
    }
    let moving =
        Change { namespace: Some(host), name: Some(&device.host_name), ..Change::default() };
    pod.change(index, &moving).map_err(failed("releasing"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::tests::{Seen, as_root};

    fn device(host_name: &str, name: &str) -> Device {
        let address = Some(("192.0.2.7".parse().unwrap(), 24));
        Device { host_name: host_name.into(), name: name.into(), address, mtu: Some(1400) }
    }

    #[test]
    fn a_device_is_moved_configured_and_moved_back() {
        as_root("transfer::tests::a_device_is_moved_configured_and_moved_back", || {
            let (host, pod) = (Namespace::create(), Namespace::create());
            host.add_device("host7");
            pod.add_device("host7"); // the name that the device has on the host is free to the pod
            let device = device("host7", "pod7");
            inject_all(&host, &pod, std::slice::from_ref(&device)).unwrap();
            assert_eq!(host.seen("host7"), None);
            let expected = Seen { is_up: true, mtu: 1400, alias: "host7".into() };
            assert_eq!(pod.seen("pod7"), Some(expected));
            assert!(pod.has_address("pod7", "192.0.2.7".parse().unwrap(), 24));
            release(&host, &pod, &device).unwrap();
            assert!(host.seen("host7").is_some_and(|seen| !seen.is_up));
            assert_eq!(pod.seen("pod7"), None);
            let error = release(&host, &pod, &device).unwrap_err().to_string();
            assert_eq!(error, "network device pod7 does not exist in the pod");
        });
    }

    #[test]
    fn after_an_error_all_devices_are_on_the_host() {
        as_root("transfer::tests::after_an_error_all_devices_are_on_the_host", || {
            let (host, pod) = (Namespace::create(), Namespace::create());
            host.add_device("a");
            host.add_device("b");
            pod.add_device("taken");
            let check = |failing: Device, expected: &str| {
                let devices = [device("a", "eth7"), failing];
                let error = inject_all(&host, &pod, &devices).unwrap_err().to_string();
                assert!(error.contains(expected), "{error}");
                assert!(host.seen("a").is_some() && host.seen("b").is_some());
                assert_eq!(pod.seen("eth7"), None);
            };
            check(device("absent", "x"), "network device absent does not exist on the host");
            check(device("b", "taken"), "network device taken exists in the pod already");
            let address = Some(("192.0.2.8".parse().unwrap(), 24));
            let tiny = Device { mtu: Some(1), address, ..device("b", "eth8") };
            check(tiny, "configuring network device eth8 failed: ");
        });
    }
}
