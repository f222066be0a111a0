//! A random configuration as plain values: flags for the tool, and input for upstream's rules.

use crate::support::random::Random;
use mesh::Setting;
use mesh::kuma::Kuma;

/// Strings are in upstream's rule format.
#[derive(Clone, Debug, Default)]
pub(crate) struct Case {
    pub(crate) uid: &'static str,
    pub(crate) inbound: Flow,
    pub(crate) outbound: Flow,
    /// Protocol (empty for both), ports (empty for all), users.
    pub(crate) users: Vec<(&'static str, &'static str, &'static str)>,
    pub(crate) dns: Dns,
    pub(crate) dns_port: &'static str,
    pub(crate) skips_split: bool,
    pub(crate) networks: Vec<(&'static str, &'static str)>,
    pub(crate) logs: bool,
    pub(crate) drops_invalid: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Flow {
    pub(crate) off: bool,
    pub(crate) port: &'static str,
    pub(crate) include: Vec<&'static str>,
    pub(crate) exclude: Vec<&'static str>,
    pub(crate) networks: Vec<&'static str>,
    pub(crate) insert: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) enum Dns {
    #[default]
    Off,
    Servers(Vec<&'static str>),
    All,
}

const PORTS: &[&str] = &["1", "53", "80", "443", "8080", "15001", "65535"];
const NETWORKS: &[&str] = &["10.0.0.0/8", "10.1.2.3/32", "192.168.0.0/16", "fd00::/8", "2001:db8::1/128"];
const SERVERS: &[&str] = &["10.0.0.10/32", "127.0.0.53/32", "fd00::a/128", "10.9.9.9/32", "::1/128"];

fn some(random: &mut Random, items: &[&'static str]) -> Vec<&'static str> {
    let mut found = Vec::new();
    while found.len() < 3 && !random.one_in(3) {
        let item = random.of(items);
        if !found.contains(&item) {
            found.push(item);
        }
    }
    found
}

impl Flow {
    fn random(random: &mut Random, port: &'static str) -> Self {
        Self {
            off: random.one_in(8),
            port: if random.one_in(3) { random.of(PORTS) } else { port },
            include: if random.one_in(4) { some(random, PORTS) } else { Vec::new() },
            exclude: some(random, PORTS),
            networks: some(random, NETWORKS),
            insert: random.one_in(4),
        }
    }
}

impl Case {
    pub(crate) fn random(random: &mut Random) -> Self {
        let users = [
            ("tcp", "1900,1000:2000", "106-108"),
            ("udp", "53", "1000"),
            ("", "22,443", "7"),
            ("", "", "123"),
            ("tcp", "", "70000"),
        ];
        let networks = [
            ("docker0", "172.17.0.0/16"),
            ("br+", "172.18.0.0/16"),
            ("br+", "fd00::/64"),
            ("eth1", "fd01::/16"),
        ];
        Self {
            uid: random.of(&["5678", "1000", "0"]),
            inbound: Flow::random(random, "15006"),
            outbound: Flow::random(random, "15001"),
            users: users.into_iter().filter(|_| random.one_in(4)).collect(),
            dns: match random.of(&[0, 1, 2]) {
                0 => Dns::Off,
                1 => Dns::Servers(some(random, SERVERS)),
                _ => Dns::All,
            },
            dns_port: random.of(&["15053", "5353"]),
            skips_split: random.one_in(3),
            networks: networks.into_iter().filter(|_| random.one_in(4)).collect(),
            logs: random.one_in(4),
            drops_invalid: random.one_in(4),
        }
    }

    pub(crate) fn settings(&self) -> Vec<(Setting, String)> {
        let mut given = vec![
            (Setting::Mesh, "kuma".to_owned()),
            (Setting::PodIps, "10.1.2.3,fd00::3".to_owned()),
            (Kuma::ProxyUser, self.uid.to_owned()),
            (Kuma::DnsPort, self.dns_port.to_owned()),
            (Kuma::SkipZoneSplit, self.skips_split.to_string()),
            (Kuma::Logs, self.logs.to_string()),
            (Kuma::DropInvalid, self.drops_invalid.to_string()),
        ];
        let flows = [
            (
                &self.inbound,
                [Kuma::RedirectInbound, Kuma::InboundPort, Kuma::InboundPortsInclude],
                [Kuma::InboundPortsExclude, Kuma::InboundIpsExclude, Kuma::InboundInsert],
            ),
            (
                &self.outbound,
                [Kuma::RedirectOutbound, Kuma::OutboundPort, Kuma::OutboundPortsInclude],
                [Kuma::OutboundPortsExclude, Kuma::OutboundIpsExclude, Kuma::OutboundInsert],
            ),
        ];
        for (flow, [is_on, port, include], [exclude, networks, insert]) in flows {
            given.extend([
                (is_on, (!flow.off).to_string()),
                (port, flow.port.to_owned()),
                (include, flow.include.join(",")),
                (exclude, flow.exclude.join(",")),
                (networks, flow.networks.join(",")),
                (insert, flow.insert.to_string()),
            ]);
        }
        let users = self
            .users
            .iter()
            .map(|(protocol, ports, uids)| format!("{protocol}:{}:{uids}", ports.replace(':', "-")));
        given.push((Kuma::OutboundPortsForUids, users.collect::<Vec<_>>().join(";")));
        let networks = self.networks.iter().map(|(interface, network)| format!("{interface}:{network}"));
        given.push((Kuma::Vnet, networks.collect::<Vec<_>>().join(",")));
        match &self.dns {
            Dns::Off => {}
            Dns::All => given.push((Kuma::CaptureAllDns, "true".to_owned())),
            Dns::Servers(servers) => {
                let hosts: Vec<&str> = servers.iter().filter_map(|server| server.split('/').next()).collect();
                given
                    .extend([(Kuma::RedirectDns, "true".to_owned()), (Setting::DnsServers, hosts.join(","))]);
            }
        }
        given
    }
}
