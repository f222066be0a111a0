//! What leaves the pod: captured for the proxy's outbound port, or let out.

use crate::support::address::Place::{Elsewhere, Neighbour, SecondNeighbour, Service};
use crate::support::case::Caller::{App, AppOfGroup2000, Proxy, ProxyGroup, ProxyUser};
use crate::support::case::Landing::{Outbound, Passes};
use crate::support::case::check;
use crate::support::configurations::SERVICE_CIDRS;
use crate::support::pod::Pod;
use crate::support::setting::{Setting, in_every_setting};
use crate::support::traffic::Protocol::{Tcp, Udp};

in_every_setting! {
    everything,
    nothing,
    excluded_port,
    excluded_cidr,
    excluded_interface,
    included_cidr_only,
    included_port_only,
    excluded_owner_group,
    included_owner_group_only,
}

fn everything(setting: Setting) {
    let pod = Pod::with(setting, &["-i", "*", "-x", ""]);
    check(
        &pod,
        &[
            (App, Tcp, Service, 9080, Outbound),
            (App, Tcp, Neighbour, 9080, Outbound),
            (App, Tcp, SecondNeighbour, 9080, Outbound),
            (App, Udp, Service, 9080, Passes),
            (Proxy, Tcp, Service, 9080, Passes),
            (ProxyUser, Tcp, Service, 9080, Passes),
            (ProxyGroup, Tcp, Service, 9080, Passes),
        ],
    );
}

fn nothing(setting: Setting) {
    let pod = Pod::with(setting, &[]);
    check(&pod, &[(App, Tcp, Service, 9080, Passes), (Proxy, Tcp, Service, 9080, Passes)]);
}

fn excluded_port(setting: Setting) {
    let pod = Pod::with(setting, &["-i", "*", "-o", "9443"]);
    check(&pod, &[(App, Tcp, Service, 9443, Passes), (App, Tcp, Service, 9080, Outbound)]);
}

fn excluded_cidr(setting: Setting) {
    let pod = Pod::with(setting, &["-i", "*", "-x", SERVICE_CIDRS]);
    check(&pod, &[(App, Tcp, Service, 9080, Passes), (App, Tcp, Elsewhere, 9080, Outbound)]);
}

fn excluded_interface(setting: Setting) {
    let pod = Pod::with(setting, &["-i", "*", "-c", "net1"]);
    check(&pod, &[(App, Tcp, SecondNeighbour, 9080, Passes), (App, Tcp, Neighbour, 9080, Outbound)]);
}

fn included_cidr_only(setting: Setting) {
    let pod = Pod::with(setting, &["-i", SERVICE_CIDRS]);
    check(
        &pod,
        &[
            (App, Tcp, Service, 9080, Outbound),
            (App, Tcp, Elsewhere, 9080, Passes),
            (Proxy, Tcp, Service, 9080, Passes),
        ],
    );
}

fn included_port_only(setting: Setting) {
    let pod = Pod::with(setting, &["-q", "9443"]);
    check(&pod, &[(App, Tcp, Service, 9443, Outbound), (App, Tcp, Service, 9080, Passes)]);
}

fn excluded_owner_group(setting: Setting) {
    let pod = Pod::new(setting);
    pod.apply_with(&[("ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE", "2000")], &["--dual-stack", "-i", "*"]);
    check(&pod, &[(AppOfGroup2000, Tcp, Service, 9080, Passes), (App, Tcp, Service, 9080, Outbound)]);
}

fn included_owner_group_only(setting: Setting) {
    let pod = Pod::new(setting);
    pod.apply_with(&[("ISTIO_OUTBOUND_OWNER_GROUPS", "2000,3000")], &["--dual-stack", "-i", "*"]);
    check(&pod, &[(AppOfGroup2000, Tcp, Service, 9080, Outbound), (App, Tcp, Service, 9080, Passes)]);
}
