//! Verdicts for traffic out of the pod, into it, within it, and from a virtual machine behind it: redirected to one of the
//! proxy's ports, or passed. The proxy's calls to the pod's own address re-enter through the inbound port; its deliveries from
//! 127.0.0.6 or ::6 must not. The modes differ for a proxy identified by its group only, and on ports 15008 and 53: TPROXY's
//! separate rules in mangle exempt only those addresses.

use crate::support::address::Place::{
    Elsewhere, Loopback, Neighbour, Pod, PodSecondNic, Resolver, SecondNeighbour, Service, Six, VmGateway,
};
use crate::support::address::{RESOLVERS, SERVICE_CIDRS};
use crate::support::case::Caller::{
    App, AppOfGroup2000, Outside, Proxy, ProxyFromSix, ProxyGroup, ProxyUser, Vm,
};
use crate::support::case::Landing::{Agent, Inbound, Outbound, Passes};
use crate::support::case::{Case, Landing, check};
use crate::support::pod;
use crate::support::rows::rows;
use crate::support::setting::{Family, Mode, Setting, Variant, in_each};
use crate::support::traffic::Protocol::{Tcp, Udp};

macro_rules! landings {
    ($($scene:ident($setting:ident): $flags:expr => $calls:expr;)+) => {$(
        #[test]
        fn $scene() {
            in_each(&Mode::BOTH, |$setting| lands($setting, $flags, &$calls));
        }
    )+};
}

rows! {
    all_but_an_owner_group: in_each(&Mode::BOTH, outbound_but_an_owner_group);
    an_owner_group_only: in_each(&Mode::BOTH, outbound_of_an_owner_group_only);
    the_application_s_calls_to_itself: in_each(&Mode::BOTH, application_to_itself);
    calls_of_the_proxy_to_the_application: in_each(&Mode::BOTH, proxy_to_the_application);
    // Rules for virtual machines are in nat; with TPROXY, mangle has already passed the connection to the inbound port.
    virtual_machine_calls: in_each(&[Mode::Redirect], all_of_a_virtual_machine);
    virtual_machine_calls_to_a_cidr: in_each(&[Mode::Redirect], a_cidr_of_a_virtual_machine_only);
}

const EVERYTHING: [&str; 4] = ["-i", "*", "-b", "*"];
const DNS: [&str; 5] = ["-i", "*", "--redirect-dns", "--dns-servers", RESOLVERS];

fn lands(setting: Setting, flags: &[&str], calls: &[Case]) {
    check(&pod::Pod::with(setting, flags), calls);
}

fn only_with_tproxy(mode: Mode) -> Landing {
    match mode {
        Mode::Redirect => Passes,
        Mode::Tproxy => Inbound,
    }
}

landings! {
    all_outbound(setting): &["-i", "*", "-x", ""] => [
        (App, Tcp, Service, 9080, Outbound),
        (App, Tcp, Neighbour, 9080, Outbound),
        (App, Tcp, SecondNeighbour, 9080, Outbound),
        (App, Udp, Service, 9080, Passes),
        (Proxy, Tcp, Service, 9080, Passes),
        (ProxyUser, Tcp, Service, 9080, Passes),
        (ProxyGroup, Tcp, Service, 9080, Passes),
    ];
    no_outbound(setting): &[] => [(App, Tcp, Service, 9080, Passes), (Proxy, Tcp, Service, 9080, Passes)];
    outbound_but_a_port(setting): &["-i", "*", "-o", "9443"] => [
        (App, Tcp, Service, 9443, Passes),
        (App, Tcp, Service, 9080, Outbound),
    ];
    outbound_but_a_cidr(setting): &["-i", "*", "-x", SERVICE_CIDRS] => [
        (App, Tcp, Service, 9080, Passes),
        (App, Tcp, Elsewhere, 9080, Outbound),
    ];
    outbound_but_an_interface(setting): &["-i", "*", "-c", "net1"] => [
        (App, Tcp, SecondNeighbour, 9080, Passes),
        (App, Tcp, Neighbour, 9080, Outbound),
    ];
    outbound_cidr_only(setting): &["-i", SERVICE_CIDRS] => [
        (App, Tcp, Service, 9080, Outbound),
        (App, Tcp, Elsewhere, 9080, Passes),
        (Proxy, Tcp, Service, 9080, Passes),
    ];
    outbound_port_only(setting): &["-q", "9443"] => [
        (App, Tcp, Service, 9443, Outbound),
        (App, Tcp, Service, 9080, Passes),
    ];
    all_inbound(setting): &["-b", "*", "-d", "15090,15021,15020"] => [
        (Outside, Tcp, Pod, 8080, Inbound),
        (Outside, Tcp, Pod, 22, Inbound),
        (Outside, Tcp, PodSecondNic, 8080, Inbound),
        (Outside, Tcp, Pod, 15090, Passes),
        (Outside, Tcp, Pod, 15021, Passes),
        (Outside, Tcp, Pod, 15020, Passes),
        // The tunnel's port is exempt in the nat table only.
        (Outside, Tcp, Pod, 15008, only_with_tproxy(setting.mode)),
        (Outside, Udp, Pod, 8080, Passes),
    ];
    listed_inbound_ports(setting): &["-b", "8080,9000-9010"] => [
        (Outside, Tcp, Pod, 8080, Inbound),
        (Outside, Tcp, Pod, 9000, Inbound),
        (Outside, Tcp, Pod, 9010, Inbound),
        (Outside, Tcp, Pod, 8081, Passes),
        (Outside, Tcp, Pod, 9011, Passes),
    ];
    no_inbound_port(setting): &["-b", ""] => [(Outside, Tcp, Pod, 8080, Passes)];
    inbound_but_an_interface(setting): &["-b", "*", "-c", "net1"] => [
        (Outside, Tcp, PodSecondNic, 8080, Passes),
        (Outside, Tcp, Pod, 8080, Inbound),
    ];
    inbound_but_interfaces_of_a_prefix(setting): &["-b", "*", "-c", "net+"] => [
        (Outside, Tcp, PodSecondNic, 8080, Passes),
        (Outside, Tcp, Pod, 8080, Inbound),
    ];
    to_itself_with_dns_capture(setting): &[&DNS[..], &["-b", "*"]].concat() => [
        (App, Tcp, Pod, 8080, Passes),
        (App, Tcp, Loopback, 8080, Passes),
        (App, Tcp, Loopback, 53, Passes),
        (Proxy, Tcp, Pod, 8080, Inbound),
        (Proxy, Tcp, Pod, 53, only_with_tproxy(setting.mode)),
        (ProxyFromSix, Tcp, Pod, 8080, Passes),
    ];
    listed_dns_servers(setting): &DNS => [
        (App, Udp, Resolver, 53, Agent),
        (App, Tcp, Resolver, 53, Agent),
        (App, Udp, Elsewhere, 53, Passes),
        (App, Tcp, Elsewhere, 53, Outbound),
        (App, Udp, Resolver, 5353, Passes),
        (Proxy, Udp, Resolver, 53, Passes),
        (Proxy, Tcp, Resolver, 53, Passes),
        (ProxyUser, Udp, Resolver, 53, Passes),
        (ProxyGroup, Udp, Resolver, 53, Passes),
    ];
    all_dns_queries(setting): &["-i", "*", "--redirect-dns", "--capture-all-dns"] => [
        (App, Udp, Resolver, 53, Agent),
        (App, Udp, Elsewhere, 53, Agent),
        (App, Tcp, Elsewhere, 53, Agent),
        (Proxy, Udp, Elsewhere, 53, Passes),
        (Proxy, Tcp, Elsewhere, 53, Passes),
    ];
    no_dns_capture(setting): &["-i", "*"] => [
        (App, Udp, Resolver, 53, Passes),
        (App, Tcp, Resolver, 53, Outbound),
    ];
}

fn outbound_but_an_owner_group(setting: Setting) {
    let pod = pod::Pod::new(setting);
    pod.apply_with(&[("ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE", "2000")], &["--dual-stack", "-i", "*"]);
    check(&pod, &[(AppOfGroup2000, Tcp, Service, 9080, Passes), (App, Tcp, Service, 9080, Outbound)]);
}

fn outbound_of_an_owner_group_only(setting: Setting) {
    let pod = pod::Pod::new(setting);
    pod.apply_with(&[("ISTIO_OUTBOUND_OWNER_GROUPS", "2000,3000")], &["--dual-stack", "-i", "*"]);
    check(&pod, &[(AppOfGroup2000, Tcp, Service, 9080, Outbound), (App, Tcp, Service, 9080, Passes)]);
}

fn application_to_itself(setting: Setting) {
    let calls = [Loopback, Six, Pod, PodSecondNic].map(|place| (App, Tcp, place, 8080, Passes));
    lands(setting, &EVERYTHING, &calls);
}

fn proxy_to_the_application(setting: Setting) {
    // A call to ::6 also comes from ::6, so it counts as a delivery; one to 127.0.0.6 comes from 127.0.0.1.
    let to_six = if setting.family == Family::V4 { Inbound } else { Passes };
    let calls = [
        (Proxy, Tcp, Loopback, 8080, Passes),
        (Proxy, Tcp, Six, 8080, to_six),
        (Proxy, Tcp, Pod, 8080, Inbound),
        (Proxy, Tcp, PodSecondNic, 8080, Inbound),
        (Proxy, Tcp, Pod, 15008, only_with_tproxy(setting.mode)),
        (ProxyFromSix, Tcp, Pod, 8080, Passes),
        (ProxyFromSix, Tcp, Loopback, 8080, Passes),
        (ProxyUser, Tcp, Pod, 8080, Inbound),
        // In nat, the rules for the user come first and treat any other user as the application.
        (ProxyGroup, Tcp, Pod, 8080, only_with_tproxy(setting.mode)),
    ];
    lands(setting, &EVERYTHING, &calls);
}

fn all_of_a_virtual_machine(setting: Setting) {
    let calls = [
        (Vm, Tcp, Service, 9080, Outbound),
        (Vm, Tcp, VmGateway, 8080, Outbound),
        (Vm, Udp, Service, 9080, Passes),
        (App, Tcp, Service, 9080, Outbound),
        (Outside, Tcp, Pod, 8080, Inbound),
    ];
    lands_with_vm(setting, &["-i", "*", "-b", "*", "-k", "vm0"], &calls);
}

fn a_cidr_of_a_virtual_machine_only(setting: Setting) {
    let calls = [
        (Vm, Tcp, Service, 9080, Outbound),
        (Vm, Tcp, Elsewhere, 9080, Passes),
        (Vm, Tcp, VmGateway, 8080, Passes),
    ];
    lands_with_vm(setting, &["-i", SERVICE_CIDRS, "-b", "*", "-k", "vm0"], &calls);
}

/// Traffic from a virtual machine arrives at a pod's NIC but counts as outbound.
fn lands_with_vm(setting: Setting, flags: &[&str], calls: &[Case]) {
    let mut pod = pod::Pod::new(setting);
    pod.attach_vm();
    pod.apply(flags);
    check(&pod, calls);
}

/// An address in duplicate address detection can't be bound for a moment, just as the proxy starts.
#[test]
fn six_is_usable_at_once() {
    let setting = Setting { variant: Variant::Nft, family: Family::V6, mode: Mode::Redirect };
    let pod = pod::Pod::with(setting, &EVERYTHING);
    let addresses = pod.inside.stdout("ip", &["-6", "addr", "show", "to", "::6/128"]);
    assert!(addresses.contains(" nodad "), "{addresses}");
}
