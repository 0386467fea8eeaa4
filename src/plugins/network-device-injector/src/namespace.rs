//! A network namespace, and the network devices in it, by rtnetlink(7).

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    address::{AddressAttribute, AddressMessage},
    link::{LinkAttribute, LinkFlags, LinkMessage},
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use rustix::{
    io::Errno,
    thread::{LinkNameSpaceType, move_into_link_name_space},
};
use std::{
    fs::File,
    io,
    net::IpAddr,
    os::fd::{AsFd, AsRawFd},
    path::Path,
    thread,
};

/// A network namespace.
pub(crate) struct Namespace {
    file: File,
    /// A socket in this namespace, wherever the thread is that uses it.
    socket: Socket,
}

/// Changes of a network device, which the kernel makes in this order.
#[derive(Default)]
pub(crate) struct Change<'a> {
    /// Moves the device, which puts it down, and renames it there.
    pub(crate) namespace: Option<&'a Namespace>,
    pub(crate) mtu: Option<u32>,
    pub(crate) name: Option<&'a str>,
    pub(crate) alias: Option<&'a str>,
    pub(crate) is_up: bool,
}

impl Namespace {
    /// Opens the namespace at this path.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        // A thread cannot leave the namespace again without its old one: this one ends.
        let socket = thread::scope(|scope| {
            let enter = || {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(file.as_fd(), kind)?;
                socket()
            };
            scope.spawn(enter).join().map_err(|_| io::Error::other("the thread panicked"))?
        })?;
        Ok(Self { file, socket })
    }

    /// Returns the index of the network device of this name, if there is one.
    pub(crate) fn index(&self, name: &str) -> io::Result<Option<u32>> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        let replies = match self.request(RouteNetlinkMessage::GetLink(message), 0) {
            Err(e) if e.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => return Ok(None),
            replies => replies?,
        };
        Ok(replies.into_iter().find_map(|reply| match reply {
            RouteNetlinkMessage::NewLink(link) => Some(link.header.index),
            _ => None,
        }))
    }

    /// Changes a network device.
    pub(crate) fn change(&self, index: u32, change: &Change<'_>) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        if change.is_up {
            message.header.flags = LinkFlags::Up;
            message.header.change_mask = LinkFlags::Up;
        }
        let namespace = change.namespace.map(|n| LinkAttribute::NetNsFd(n.file.as_raw_fd()));
        message.attributes.extend(namespace);
        message.attributes.extend(change.mtu.map(LinkAttribute::Mtu));
        message.attributes.extend(change.name.map(|n| LinkAttribute::IfName(n.to_owned())));
        message.attributes.extend(change.alias.map(|a| LinkAttribute::IfAlias(a.to_owned())));
        self.request(RouteNetlinkMessage::SetLink(message), 0).map(drop)
    }

    /// Adds an address to a network device.
    pub(crate) fn add_address(&self, index: u32, address: IpAddr, prefix: u8) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.index = index;
        message.header.prefix_len = prefix;
        message.header.family =
            if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        message.attributes.push(AddressAttribute::Local(address));
        message.attributes.push(AddressAttribute::Address(address));
        self.request(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL).map(drop)
    }

    /// Sends a request, and returns the messages before its acknowledgement.
    fn request(
        &self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Vec<RouteNetlinkMessage>> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        let mut packet = NetlinkMessage::new(header, NetlinkPayload::from(message));
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let mut replies = Vec::new();
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let reply = NetlinkMessage::deserialize(rest).map_err(io::Error::other)?;
                // Messages are aligned to 4 bytes.
                let length = (reply.header.length as usize).next_multiple_of(4).max(4);
                rest = rest.get(length..).unwrap_or_default();
                match reply.payload {
                    NetlinkPayload::InnerMessage(message) => replies.push(message),
                    NetlinkPayload::Error(error) if error.code.is_none() => return Ok(replies),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    _ => {}
                }
            }
        }
    }
}

/// Opens a socket in the namespace of this thread.
fn socket() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?; // the kernel
    Ok(socket)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use netlink_packet_route::link::{InfoKind, LinkInfo};
    use nix::sched::{CloneFlags, unshare};
    use std::ffi::OsStr;
    use std::io::Write;
    use std::process::{Command, Output};

    /// Calls a test as root of the machine, or else of a user namespace, which only a new process
    /// can enter. The test is skipped where that is not allowed.
    pub(crate) fn as_root(test: &str, body: impl FnOnce()) {
        if nix::unistd::geteuid().is_root() {
            return body();
        }
        let run = |program: &OsStr, arguments: &[&str]| -> io::Result<Output> {
            let mut command = Command::new("unshare");
            command
                .args(["--user", "--map-root-user", "--net"])
                .arg(program)
                .args(arguments)
                .output()
        };
        if !run(OsStr::new("true"), &[]).is_ok_and(|output| output.status.success()) {
            return skip(test, "neither root, nor may this user create user namespaces");
        }
        let program = std::env::current_exe().unwrap();
        let ran = run(program.as_os_str(), &["--exact", test, "--nocapture"]).unwrap();
        let printed = [ran.stdout, ran.stderr].concat();
        let printed = String::from_utf8_lossy(&printed);
        assert!(ran.status.success() && printed.contains(" 1 passed"), "{printed}");
    }

    /// Reports a skipped test and the reason; `integration/run-tests.sh` counts it.
    fn skip(test: &str, reason: &str) {
        let line = format!("SKIPPED {test}: {reason}\n");
        // The test harness would capture `print!`.
        io::stdout().lock().write_all(line.as_bytes()).unwrap();
        // The program is `target/PROFILE/deps/NAME`.
        let program = std::env::current_exe().unwrap();
        let file = program.ancestors().nth(3).unwrap().join("skipped.txt");
        let file = File::options().append(true).create(true).open(file);
        file.unwrap().write_all(line.as_bytes()).unwrap();
    }

    /// What tests need to know of a network device.
    #[derive(Debug, PartialEq, Eq)]
    pub(crate) struct Seen {
        pub(crate) is_up: bool,
        pub(crate) mtu: u32,
        pub(crate) alias: String,
    }

    impl Namespace {
        /// Creates a namespace; needs [`as_root`].
        pub(crate) fn create() -> Self {
            let create = || {
                unshare(CloneFlags::CLONE_NEWNET).unwrap();
                let file = File::open("/proc/thread-self/ns/net").unwrap();
                Self { file, socket: socket().unwrap() }
            };
            thread::spawn(create).join().unwrap()
        }

        /// Calls a function in the namespace.
        pub(crate) fn enter(&self, call: impl FnOnce() + Send) {
            let enter = || {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(self.file.as_fd(), kind).unwrap();
                call();
            };
            thread::scope(|scope| scope.spawn(enter).join().unwrap());
        }

        /// A path of the namespace, for as long as this value exists.
        pub(crate) fn path(&self) -> String {
            format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
        }

        /// Creates a network device of a kind that the kernel has.
        pub(crate) fn add_device(&self, name: &str) {
            let add = |kind: InfoKind| {
                let mut message = LinkMessage::default();
                let info = LinkAttribute::LinkInfo(vec![LinkInfo::Kind(kind)]);
                message.attributes = vec![LinkAttribute::IfName(name.to_owned()), info];
                self.request(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
            };
            add(InfoKind::Dummy).or_else(|_| add(InfoKind::Ifb)).unwrap();
        }

        /// Reads a network device.
        pub(crate) fn seen(&self, name: &str) -> Option<Seen> {
            let mut message = LinkMessage::default();
            message.attributes.push(LinkAttribute::IfName(name.to_owned()));
            let replies = self.request(RouteNetlinkMessage::GetLink(message), 0).ok()?;
            let RouteNetlinkMessage::NewLink(link) = replies.first()? else { return None };
            let is_up = link.header.flags.contains(LinkFlags::Up);
            let mut seen = Seen { is_up, mtu: 0, alias: String::new() };
            for attribute in &link.attributes {
                match attribute {
                    LinkAttribute::Mtu(mtu) => seen.mtu = *mtu,
                    LinkAttribute::IfAlias(alias) => seen.alias.clone_from(alias),
                    _ => {}
                }
            }
            Some(seen)
        }

        /// Whether a network device has an address.
        pub(crate) fn has_address(&self, name: &str, address: IpAddr, prefix: u8) -> bool {
            let index = self.index(name).unwrap().unwrap();
            // The same address cannot be added twice.
            self.add_address(index, address, prefix)
                .is_err_and(|e| e.raw_os_error() == Some(Errno::EXIST.raw_os_error()))
        }
    }

    #[test]
    fn a_namespace_has_its_own_devices() {
        as_root("namespace::tests::a_namespace_has_its_own_devices", || {
            let (a, b) = (Namespace::create(), Namespace::create());
            a.add_device("net7");
            assert!(a.index("net7").unwrap().is_some());
            assert_eq!(b.index("net7").unwrap(), None);
            let same = Namespace::open(Path::new(&a.path())).unwrap();
            assert_eq!(same.index("net7").unwrap(), a.index("net7").unwrap());
            assert!(Namespace::open(Path::new("/proc/self/exe")).is_err());
        });
    }
}
