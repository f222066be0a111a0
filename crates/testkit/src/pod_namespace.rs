//! A network namespace in place of a pod's.

use crate::{command, running::Running, until};
use std::{fs, process::Command};

/// A namespace with an interface, an address and a default route, held by a process.
pub struct PodNamespace(pub Running);

impl PodNamespace {
    pub fn new(address: &str) -> Self {
        let script = format!(
            "ip link set lo up && ip link add eth0 type veth peer name peer && ip addr add {address}/24 dev eth0 && \
             ip link set peer up && ip link set eth0 up && ip route add default dev eth0 && exec sleep 600"
        );
        let holder = Command::new("unshare").args(["--net", "sh", "-c", &script]).spawn().expect("unshare");
        let comm = format!("/proc/{}/comm", holder.id());
        let namespace = Self(Running(holder));
        until("the namespace is ready", || {
            fs::read_to_string(&comm).is_ok_and(|name| name.trim() == "sleep")
        });
        namespace
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    pub fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.id())
    }

    pub fn command(&self, words: &[&str]) -> String {
        command("nsenter", &[&[&*format!("--net={}", self.path())], words].concat())
    }
}
