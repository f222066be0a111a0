//! A network namespace that exists exactly as long as this process holds it open. A thread creates it and ends; only an open
//! descriptor of `/proc/thread-self/ns/net` keeps it, without a name under `/run/netns` or a mount: however the test process
//! ends, the kernel frees it. Other programs open it as `/proc/PID/fd/N`. Work inside runs on a new thread, so a panic can't
//! leave a thread of the test runner there.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{process, thread};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sched::{CloneFlags, setns, unshare};

use super::program::{self, Outcome, Run};
use super::setting::{Family, Variant};
use super::wait;

/// Flag of the kernel's own routes to local addresses, from linux/ipv6_route.h.
const RTF_LOCAL: u32 = 0x8000_0000;

/// Index of the next near end of a veth pair.
static NEAR_INDEX: AtomicU32 = AtomicU32::new(1000);

/// A network namespace made by this process, with `lo` up and without duplicate address detection.
pub(crate) struct Namespace {
    handle: File,
}

impl Namespace {
    pub(crate) fn new() -> Namespace {
        let maker = thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).unwrap_or_else(|error| {
                panic!(
                    "making a network namespace failed ({error}): the kernel tests need root or CAP_SYS_ADMIN"
                )
            });
            File::open("/proc/thread-self/ns/net").expect("the thread's own namespace can be opened")
        });
        let handle = maker.join().unwrap_or_else(|panic| resume_unwind(panic));
        let namespace = Namespace { handle };
        // Duplicate address detection would delay link-local addresses, and with them all of IPv6, for a second or two. (`nodad`
        // disables it for single addresses.)
        for scope in ["all", "default"] {
            namespace.set(&format!("ipv6/conf/{scope}/accept_dad"), "0");
        }
        namespace.ip("link set lo up");
        namespace
    }

    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", process::id(), self.handle.as_raw_fd())
    }

    /// Runs `work` on a new thread inside and returns its value; a panic is propagated.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                setns(&self.handle, CloneFlags::CLONE_NEWNET)
                    .unwrap_or_else(|error| panic!("entering a network namespace failed: {error}"));
                work()
            });
            inside.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    pub(crate) fn output(&self, program: &str, arguments: &[&str], input: &str) -> Outcome {
        self.run(|| program::output(program, arguments, input))
    }

    pub(crate) fn outcome(&self, command: &mut (impl Run + Send)) -> Outcome {
        self.run(|| command.outcome())
    }

    #[track_caller]
    pub(crate) fn stdout(&self, program: &str, arguments: &[&str]) -> String {
        self.fed(program, arguments, "")
    }

    #[track_caller]
    pub(crate) fn fed(&self, program: &str, arguments: &[&str], input: &str) -> String {
        let what = format!("`{program} {}`\n{input}", arguments.join(" "));
        self.output(program, arguments, input).with(0, &what).stdout
    }

    #[track_caller]
    pub(crate) fn load(&self, script: &str) {
        self.fed("nft", &["-f", "-"], script);
    }

    /// Adds rules with iptables' `-restore` program.
    #[track_caller]
    pub(crate) fn restore(&self, variant: Variant, family: Family, text: &str) {
        // The nft variant takes no lock.
        let arguments: &[&str] =
            if variant == Variant::Legacy { &["--noflush", "--wait=60"] } else { &["--noflush"] };
        self.fed(&variant.program(family, "-restore"), arguments, text);
    }

    /// Runs lines of `ip` commands without the leading `ip`, and waits until added addresses are usable.
    pub(crate) fn ip(&self, commands: &str) {
        self.fed("ip", &["-batch", "-"], commands);
        self.wait_for_addresses();
    }

    /// Adds a link `eth0` with an address, like a pod's network plugin.
    pub(crate) fn eth0(&self, address: &str) {
        let link = "link add eth0 type veth peer name far";
        self.ip(&format!("{link}\naddr add {address} dev eth0\nlink set eth0 up"));
    }

    /// Waits until each link with a carrier is running, and each IPv6 address there has its local route. The kernel does both in
    /// work queues, on a busy machine after the program that set the link has ended; until then, routes change and packets are lost.
    pub(crate) fn wait_for_addresses(&self) {
        wait::until_ok(|| match self.run(pending_links) {
            pending if pending.is_empty() => Ok(()),
            pending => Err(pending.join(", ")),
        });
    }

    pub(crate) fn set(&self, parameter: &str, value: &str) {
        let path = format!("/proc/sys/net/{parameter}");
        self.run(|| std::fs::write(&path, value))
            .unwrap_or_else(|error| panic!("writing {value} to {path} failed: {error}"));
    }
}

fn pending_links() -> Vec<String> {
    let routes = std::fs::read_to_string("/proc/thread-self/net/ipv6_route").unwrap_or_default();
    let addresses = getifaddrs().unwrap_or_else(|error| panic!("listing addresses failed: {error}"));
    let has_carrier = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_LOWER_UP;
    let pending =
        addresses.filter(|interface| interface.flags.contains(has_carrier)).filter_map(|interface| {
            if !interface.flags.contains(InterfaceFlags::IFF_RUNNING) {
                return Some(format!("{} is not running", interface.interface_name));
            }
            let address = interface.address?.as_sockaddr_in6()?.ip();
            let digits: String = address.octets().iter().map(|byte| format!("{byte:02x}")).collect();
            // Destination and prefix length come first, flags and device last; the route of a prefix may look alike.
            let leads_there = |route: &str| {
                let fields: Vec<&str> = route.split_whitespace().collect();
                let is_local = u32::from_str_radix(fields[8], 16).is_ok_and(|flags| flags & RTF_LOCAL != 0);
                fields[..2] == [digits.as_str(), "80"] && fields[9] == interface.interface_name && is_local
            };
            (!routes.lines().any(leads_there))
                .then(|| format!("{address} on {} has no local route", interface.interface_name))
        });
    pending.collect()
}

/// Wraps another program's open namespace, kept open like namespaces made here.
impl From<File> for Namespace {
    fn from(handle: File) -> Namespace {
        Namespace { handle }
    }
}

/// One end of a veth pair: a namespace, the NIC's name there, and its addresses (`ADDRESS/LENGTH`).
pub(crate) type End<'a> = (&'a Namespace, &'a str, [&'a str; 2]);

/// Joins two namespaces with a veth pair and sets both ends up.
pub(crate) fn join(near: End<'_>, far: End<'_>) {
    // The kernel treats a NIC whose peer has the same index as one without a peer, and IPv6 may see the link up a second late.
    // Far ends count from 2, so near ends never have those numbers.
    let index = NEAR_INDEX.fetch_add(1, Ordering::Relaxed);
    let ((namespace, nic, _), (peer_namespace, peer, _)) = (near, far);
    let peer_path = peer_namespace.path();
    namespace.ip(&format!("link add {nic} index {index} type veth peer name {peer} netns {peer_path}"));
    for (namespace, nic, [v4, v6]) in [near, far] {
        namespace.ip(&format!("addr add {v4} dev {nic}\naddr add {v6} dev {nic} nodad\nlink set {nic} up"));
    }
    // The near end gets its carrier from the far end.
    namespace.wait_for_addresses();
}

pub(crate) fn run(namespace: &Namespace, arguments: &[&str]) -> Outcome {
    namespace.outcome(&mut program::binary(arguments))
}

#[track_caller]
pub(crate) fn succeed(namespace: &Namespace, arguments: &[&str]) -> Outcome {
    run(namespace, arguments).with(0, &arguments.join(" "))
}
