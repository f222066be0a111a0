//! Upstream's rules, written independently of the tool: input for its restore programs, without comments. One fault is corrected
//! as in the tool: where the jump for outbound TCP is inserted, upstream appends the rule for DNS over TCP, so no packet meets
//! this rule.

use crate::meshes::kuma::case::{Case, Dns, Flow};
use crate::support::setting::Family;

/// Lines of a chain, with upstream's count of inserted rules.
#[derive(Default)]
struct Chain {
    name: &'static str,
    inserted: usize,
    lines: Vec<String>,
}

impl Chain {
    fn of(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    fn a(&mut self, rule: &str) {
        self.lines.push(format!("-A {} {rule}", self.name));
    }

    fn i(&mut self, rule: &str) {
        self.inserted += 1;
        self.lines.push(format!("-I {} {} {rule}", self.name, self.inserted));
    }
}

pub(crate) fn restore(case: &Case, family: Family) -> String {
    let v6 = family == Family::V6;
    let own = |network: &&&str| network.contains(':') == v6;
    let (l, p) = if v6 { ("::1/128", "::6/128") } else { ("127.0.0.1/32", "127.0.0.6/32") };
    let (u, d) = (case.uid, case.dns_port);
    let servers: Vec<&str> = match &case.dns {
        Dns::Servers(servers) => servers.iter().filter(own).copied().collect(),
        Dns::Off | Dns::All => Vec::new(),
    };
    let all = matches!(case.dns, Dns::All);
    let dns = all || !servers.is_empty();
    let mut text = String::new();
    if dns && !case.skips_split {
        let (mut pre, mut out) = (Chain::of("PREROUTING"), Chain::of("OUTPUT"));
        out.a(&format!("-p udp --dport 53 -m owner --uid-owner {u} -j CT --zone 1"));
        out.a(&format!("-p udp --sport {d} -m owner --uid-owner {u} -j CT --zone 2"));
        if all {
            pre.a("-p udp --sport 53 -j CT --zone 1");
            out.a("-p udp --dport 53 -j CT --zone 2");
        }
        for s in &servers {
            pre.a(&format!("-s {s} -p udp --sport 53 -j CT --zone 1"));
            out.a(&format!("-d {s} -p udp --dport 53 -j CT --zone 2"));
            if s.starts_with("127.") || s.starts_with("::1/") {
                out.a(&format!("-s {s} -d {l} -p udp -j CT --zone 1"));
            }
        }
        text += &table("raw", &[], &[pre, out]);
    }
    let mut pre = Chain::of("PREROUTING");
    if case.logs {
        pre.a("-j LOG --log-prefix PREROUTING: --log-level 7");
    }
    let mut networks: Vec<_> = case.networks.iter().filter(|(_, cidr)| cidr.contains(':') == v6).collect();
    networks.sort();
    for (interface, cidr) in &networks {
        pre.i(&format!("-i {interface} -m udp -p udp --dport 53 -j REDIRECT --to-ports {d}"));
        pre.i(&format!("! -d {cidr} -i {interface} -p tcp -j REDIRECT --to-ports {}", case.outbound.port));
    }
    match case.inbound.insert || !networks.is_empty() {
        true => pre.i("-p tcp -j KUMA_MESH_INBOUND"),
        false => pre.a("-p tcp -j KUMA_MESH_INBOUND"),
    }
    let mut out = Chain::of("OUTPUT");
    if case.logs {
        out.i("-j LOG --log-prefix OUTPUT: --log-level 7");
    }
    for (protocol, ports, uids) in &case.users {
        let ports = if ports.is_empty() { "1:65535" } else { ports };
        for protocol in ["tcp", "udp"].iter().filter(|one| protocol.is_empty() || *one == protocol) {
            out.i(&format!(
                "-m multiport -p {protocol} --dport {ports} -m owner --uid-owner {uids} -j RETURN"
            ));
        }
    }
    for network in case.outbound.networks.iter().filter(own) {
        out.i(&format!("-d {network} -j RETURN"));
    }
    if dns {
        out.i(&format!("-p udp --dport 53 -m owner --uid-owner {u} -j RETURN"));
        let by_tcp = format!("-p tcp --dport 53 -m owner ! --uid-owner {u} -j RETURN");
        if case.outbound.insert {
            out.i(&by_tcp);
        } else {
            out.a(&by_tcp);
        }
        if all {
            out.i(&format!("-p udp --dport 53 -j REDIRECT --to-ports {d}"));
        }
        for s in &servers {
            out.i(&format!("-d {s} -p udp --dport 53 -j REDIRECT --to-ports {d}"));
        }
    }
    match case.outbound.insert {
        true => out.i("-p tcp -j KUMA_MESH_OUTBOUND"),
        false => out.a("-p tcp -j KUMA_MESH_OUTBOUND"),
    }
    let mut inbound = Chain::of("KUMA_MESH_INBOUND");
    let flow = &case.inbound;
    if !flow.off {
        for network in flow.networks.iter().filter(own) {
            inbound.a(&format!("-s {network} -j RETURN"));
        }
        included(&mut inbound, flow, "KUMA_MESH_INBOUND_REDIRECT");
        if flow.include.is_empty() {
            excluded(&mut inbound, flow);
            inbound.a("-p tcp -j KUMA_MESH_INBOUND_REDIRECT");
        }
    } else {
        inbound.a("-p tcp -j RETURN");
    }
    let mut outbound = Chain::of("KUMA_MESH_OUTBOUND");
    let flow = &case.outbound;
    if !flow.off {
        if flow.include.is_empty() {
            excluded(&mut outbound, flow);
        }
        outbound.a(&format!("-s {p} -o lo -j RETURN"));
        outbound.a(&format!("-p tcp -o lo ! -d {l} -m owner --uid-owner {u} -j KUMA_MESH_INBOUND_REDIRECT"));
        outbound.a(&format!("-p tcp -o lo -m owner ! --uid-owner {u} -j RETURN"));
        outbound.a(&format!("-m owner --uid-owner {u} -j RETURN"));
        outbound.a(&format!("-d {l} -j RETURN"));
        included(&mut outbound, flow, "KUMA_MESH_OUTBOUND_REDIRECT");
        if flow.include.is_empty() {
            outbound.a("-j KUMA_MESH_OUTBOUND_REDIRECT");
        }
    } else {
        outbound.a("-p tcp -j RETURN");
    }
    let (mut to_in, mut to_out) =
        (Chain::of("KUMA_MESH_INBOUND_REDIRECT"), Chain::of("KUMA_MESH_OUTBOUND_REDIRECT"));
    to_in.a(&format!("-p tcp -j REDIRECT --to-ports {}", case.inbound.port));
    to_out.a(&format!("-p tcp -j REDIRECT --to-ports {}", case.outbound.port));
    let names = [inbound.name, outbound.name, to_in.name, to_out.name];
    text += &table("nat", &names, &[pre, out, inbound, outbound, to_in, to_out]);
    if case.drops_invalid {
        let mut pre = Chain::of("PREROUTING");
        pre.a("-m conntrack --ctstate INVALID -j DROP");
        text += &table("mangle", &[], &[pre]);
    }
    text
}

fn included(chain: &mut Chain, flow: &Flow, target: &str) {
    for port in &flow.include {
        chain.a(&format!("-p tcp --dport {port} -j {target}"));
    }
}

fn excluded(chain: &mut Chain, flow: &Flow) {
    for port in &flow.exclude {
        chain.a(&format!("-p tcp --dport {port} -j RETURN"));
    }
}

fn table<const N: usize>(name: &str, new: &[&str], chains: &[Chain; N]) -> String {
    let new: String = new.iter().map(|chain| format!("-N {chain}\n")).collect();
    let lines: String =
        chains.iter().flat_map(|chain| &chain.lines).map(|line| format!("{line}\n")).collect();
    format!("*{name}\n{new}{lines}COMMIT\n")
}
