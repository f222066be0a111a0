//! What reaches the pod from outside: captured for the proxy's inbound port, or excluded.

use crate::support::address::Place::{Pod, PodSecondNic};
use crate::support::case::Caller::Outside;
use crate::support::case::Landing::{Inbound, Passes};
use crate::support::case::{Landing, check};
use crate::support::pod;
use crate::support::setting::{Mode, Setting, in_every_setting};
use crate::support::traffic::Protocol::{Tcp, Udp};

in_every_setting! {
    every_port,
    listed_ports,
    no_port,
    excluded_interface,
    excluded_interfaces_by_prefix,
}

fn every_port(setting: Setting) {
    let pod = pod::Pod::with(setting, &["-b", "*", "-d", "15090,15021,15020"]);
    check(
        &pod,
        &[
            (Outside, Tcp, Pod, 8080, Inbound),
            (Outside, Tcp, Pod, 22, Inbound),
            (Outside, Tcp, PodSecondNic, 8080, Inbound),
            (Outside, Tcp, Pod, 15090, Passes),
            (Outside, Tcp, Pod, 15021, Passes),
            (Outside, Tcp, Pod, 15020, Passes),
            (Outside, Tcp, Pod, 15008, tunnel(setting.mode)),
            (Outside, Udp, Pod, 8080, Passes),
        ],
    );
}

/// The tunnel's port is exempt in the nat table only, so TPROXY, which works in mangle, takes it.
fn tunnel(mode: Mode) -> Landing {
    match mode {
        Mode::Redirect => Passes,
        Mode::Tproxy => Inbound,
    }
}

fn listed_ports(setting: Setting) {
    let pod = pod::Pod::with(setting, &["-b", "8080,9000-9010"]);
    check(
        &pod,
        &[
            (Outside, Tcp, Pod, 8080, Inbound),
            (Outside, Tcp, Pod, 9000, Inbound),
            (Outside, Tcp, Pod, 9010, Inbound),
            (Outside, Tcp, Pod, 8081, Passes),
            (Outside, Tcp, Pod, 9011, Passes),
        ],
    );
}

fn no_port(setting: Setting) {
    let pod = pod::Pod::with(setting, &["-b", ""]);
    check(&pod, &[(Outside, Tcp, Pod, 8080, Passes)]);
}

fn excluded_interface(setting: Setting) {
    let pod = pod::Pod::with(setting, &["-b", "*", "-c", "net1"]);
    check(&pod, &[(Outside, Tcp, PodSecondNic, 8080, Passes), (Outside, Tcp, Pod, 8080, Inbound)]);
}

fn excluded_interfaces_by_prefix(setting: Setting) {
    let pod = pod::Pod::with(setting, &["-b", "*", "-c", "net+"]);
    check(&pod, &[(Outside, Tcp, PodSecondNic, 8080, Passes), (Outside, Tcp, Pod, 8080, Inbound)]);
}
