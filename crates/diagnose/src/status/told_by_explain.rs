//! What explain says of rules as status reads them: by the mesh's own flags.

use super::tests::{AMBIENT, BY_PROXY_INIT, BY_THE_AGENT, KUMA, LINKERD, Machine, capture};
use crate::explain::{Pod, Sender, explain, usual};
use mesh::Reason;
use mesh::sources::Host;
use mesh::{Capture, Mesh};
use rules::simulate::{Routing, View};
use rules::{Family, Protocol, RuleSet, Uid, nft, parse, render};

/// The sentence about a packet that meets these rules.
fn sentence(view: &View, sender: Sender, protocol: Protocol, to: &str) -> String {
    let mut pod = Pod::new(Machine.addresses().expect("addresses"), None);
    pod.proxy.0 = Uid::new(5678).expect("a user");
    let to = to.parse().expect("an address and a port");
    let packet = usual(sender, &pod, &pod, protocol, to).expect("a packet");
    let routing = Routing { local_marks: Vec::new(), addresses: pod.addresses.clone() };
    explain(view, &routing, &packet).sentence()
}

#[test]
fn the_fate_of_a_packet_is_told_with_the_meshs_own_flags() {
    let check = |view: &View, sender, protocol, to: &str, expected: &str| {
        // Listings of iptables write a host as a network.
        assert_eq!(sentence(view, sender, protocol, to).replace("/32", ""), expected);
    };
    let listed = |text: &str| View::of_listing(parse::listing(text, Family::V4).expect("a listing"));
    let made = |rules: &RuleSet| View::of_rules(rules);
    let native = |capture: &Capture| {
        let (v4, v6) = (capture.rules(Family::V4), capture.rules(Family::V6));
        let mut view = View::empty(Family::V4);
        let table = nft::table(capture.owner().table, &v4, Some(&v6)).expect("a table");
        view.add_nftables(table.listed(), &Reason::origin_of);
        view
    };
    let (tcp, udp) = (Protocol::Tcp, Protocol::Udp);
    let linkerd = capture(Mesh::Linkerd, &LINKERD);
    let rules = linkerd.rules(Family::V4);
    for view in [listed(BY_PROXY_INIT), made(rules.rules()), native(&linkerd)] {
        check(
            &view,
            Sender::App,
            tcp,
            "192.0.2.1:80",
            "captured: goes to the proxy's outbound port 4140, because all other TCP that leaves goes to the proxy \
             (--outgoing-proxy-port)",
        );
        check(
            &view,
            Sender::App,
            udp,
            "192.0.2.1:53",
            "not captured: goes to 192.0.2.1:53 as it was sent, because what redirects is not for udp",
        );
    }
    let kuma = capture(Mesh::Kuma, &KUMA);
    let rules = kuma.rules(Family::V4);
    for view in [made(rules.rules()), native(&kuma), listed(&render::iptables::restore(&rules))] {
        let outside = "192.0.2.1:80";
        let by_list =
            "captured: goes to the proxy's outbound port 15001, because all other outbound TCP is captured";
        check(&view, Sender::App, tcp, outside, by_list);
        check(
            &view,
            Sender::Proxy,
            tcp,
            outside,
            "not captured: goes to 192.0.2.1:80 as it was sent, because user 5678 is the proxy's (--kuma-dp-user), \
             whose own calls are never captured",
        );
        check(
            &view,
            Sender::External,
            tcp,
            "10.1.2.3:1900",
            "not captured: goes to 10.1.2.3:1900 as it was sent, because --exclude-inbound-ports leaves port 1900 \
             alone",
        );
        check(
            &view,
            Sender::App,
            udp,
            "10.0.0.10:53",
            "captured: goes to the proxy's DNS port 15053, because --redirect-dns captures DNS queries by UDP",
        );
        check(
            &view,
            Sender::External,
            udp,
            "10.1.2.3:80",
            "not captured: goes to 10.1.2.3:80 as it was sent, because what redirects is not for udp",
        );
    }
    let ambient = capture(Mesh::Ambient, &AMBIENT);
    let rules = ambient.rules(Family::V4);
    for view in [made(rules.rules()), native(&ambient), listed(BY_THE_AGENT)] {
        check(
            &view,
            Sender::App,
            udp,
            "10.0.0.10:53",
            "captured: goes to ztunnel's DNS port 15053, because --dns-capture sends DNS queries to ztunnel, whichever \
             server they ask",
        );
        check(
            &view,
            Sender::External,
            tcp,
            "10.1.2.3:80",
            "captured: goes to the proxy's inbound port 15006, because everything that arrives by TCP goes to ztunnel, \
             but for its tunnel and its own calls",
        );
        check(
            &view,
            Sender::App,
            tcp,
            "169.254.7.127:80",
            "not captured: goes to 169.254.7.127:80 as it was sent, because 169.254.7.127 is where the host's own \
             calls come from (--probe-address)",
        );
    }
}
