//! Pods of one address family: the other family is excluded.

use crate::support::address::Place::{Pod, Service};
use crate::support::case::Caller::{App, Outside};
use crate::support::case::Landing::{Inbound, Outbound, Passes};
use crate::support::case::check;
use crate::support::pod;
use crate::support::setting::{Family, Setting, in_every_setting};
use crate::support::traffic::Protocol::Tcp;

in_every_setting! {
    first_address_is_v4,
    first_address_is_v6,
}

/// The pod's NICs say so themselves; nothing is declared.
fn first_address_is_v4(setting: Setting) {
    let pod = pod::Pod::new(setting);
    pod.apply_with(&[], &["-i", "*", "-b", "*"]);
    let (outbound, inbound) = match setting.family {
        Family::V4 => (Outbound, Inbound),
        Family::V6 => (Passes, Passes),
    };
    check(&pod, &[(App, Tcp, Service, 9080, outbound), (Outside, Tcp, Pod, 8080, inbound)]);
}

fn first_address_is_v6(setting: Setting) {
    let pod = pod::Pod::new(setting);
    pod.apply_with(&[], &["-i", "*", "-b", "*", "--pod-ips", "fd77::2,10.77.0.2"]);
    check(&pod, &[(App, Tcp, Service, 9080, Outbound), (Outside, Tcp, Pod, 8080, Inbound)]);
}
