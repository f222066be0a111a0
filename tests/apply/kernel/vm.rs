//! A virtual machine behind the pod: what it sends arrives at a NIC of the pod, but counts as outbound.
//!
//! In REDIRECT mode only. The rules for virtual machines are in nat, where TPROXY's rules in mangle have
//! already given the connection to the inbound port.

use crate::support::address::Place::{Elsewhere, Pod, Service, VmGateway};
use crate::support::case::Caller::{App, Outside, Vm};
use crate::support::case::Landing::{Inbound, Outbound, Passes};
use crate::support::case::check;
use crate::support::configurations::SERVICE_CIDRS;
use crate::support::pod;
use crate::support::setting::{Setting, in_every_redirect_setting};
use crate::support::traffic::Protocol::{Tcp, Udp};

in_every_redirect_setting! {
    everything,
    included_cidr_only,
}

fn everything(setting: Setting) {
    let pod = pod_with_vm(setting, &["-i", "*", "-b", "*", "-k", "vm0"]);
    check(
        &pod,
        &[
            (Vm, Tcp, Service, 9080, Outbound),
            (Vm, Tcp, VmGateway, 8080, Outbound),
            (Vm, Udp, Service, 9080, Passes),
            (App, Tcp, Service, 9080, Outbound),
            (Outside, Tcp, Pod, 8080, Inbound),
        ],
    );
}

fn included_cidr_only(setting: Setting) {
    let pod = pod_with_vm(setting, &["-i", SERVICE_CIDRS, "-b", "*", "-k", "vm0"]);
    check(
        &pod,
        &[
            (Vm, Tcp, Service, 9080, Outbound),
            (Vm, Tcp, Elsewhere, 9080, Passes),
            (Vm, Tcp, VmGateway, 8080, Passes),
        ],
    );
}

fn pod_with_vm(setting: Setting, flags: &[&str]) -> pod::Pod {
    let mut pod = pod::Pod::new(setting);
    pod.attach_vm();
    pod.apply(flags);
    pod
}
