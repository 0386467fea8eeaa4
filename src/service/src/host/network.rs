//! IP addresses of a pod, which the OCI config does not have. They are read inside the pod's
//! network namespace.

use rustix::{
    fs::{Mode, OFlags},
    thread::{LinkNameSpaceType, move_into_link_name_space},
};
use std::{
    io,
    net::{IpAddr, Ipv6Addr},
    os::fd::AsFd,
    path::PathBuf,
};

/// Returns the addresses in the network namespace of a process, IPv4 first. Returns none for the
/// host's network namespace: CRI does not report addresses of pods that use it, either.
pub async fn addresses(pid: i32) -> Vec<String> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // A new thread, which ends after reading: a thread stays in the namespace that it has joined.
    let spawned = std::thread::Builder::new().name("netns".to_owned()).spawn(move || {
        let _ = sender.send(read(pid));
    });
    match spawned {
        Ok(_) => receiver.await.ok().and_then(Result::ok).unwrap_or_default(),
        Err(_) => Vec::new(),
    }
}

fn read(pid: i32) -> io::Result<Vec<String>> {
    let path = PathBuf::from(format!("/proc/{pid}/ns/net"));
    let namespace = rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let other = rustix::fs::fstat(&namespace)?;
    let own = rustix::fs::stat("/proc/self/ns/net")?;
    if (other.st_dev, other.st_ino) == (own.st_dev, own.st_ino) {
        return Ok(Vec::new());
    }
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
    let mut found: Vec<IpAddr> = nix::ifaddrs::getifaddrs()?
        .filter_map(|interface| {
            let address = interface.address?;
            let v4 = address.as_sockaddr_in().map(|a| IpAddr::from(a.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::from(a.ip())))
        })
        .filter(|ip| !ip.is_loopback() && !is_link_local(ip))
        .collect();
    found.sort_by_key(IpAddr::is_ipv6);
    Ok(found.iter().map(ToString::to_string).collect())
}

fn is_link_local(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => Ipv6Addr::is_unicast_link_local(v6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_hosts_own_namespace_has_no_pod_addresses() {
        assert_eq!(addresses(std::process::id() as i32).await, Vec::<String>::new());
        assert_eq!(addresses(i32::MAX).await, Vec::<String>::new());
    }
}
