//! Upstream's commands for a call, written independently of the tool.

use crate::support::random::Random;

#[derive(Clone, Debug, Default)]
pub(crate) struct Configuration {
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) ports: Vec<u16>,
    pub(crate) inbound: Vec<(u16, u16)>,
    pub(crate) outbound: Vec<(u16, u16)>,
    /// Of one family only: upstream fails otherwise.
    pub(crate) subnets: Vec<&'static str>,
    pub(crate) v6: bool,
}

pub(crate) const PORTS: [u16; 12] = [1, 22, 25, 53, 80, 443, 4140, 4143, 4190, 8080, 65534, 65535];
const V4: [&str; 5] = ["10.0.0.0/8", "172.17.1.2/16", "192.0.2.7/32", "0.0.0.0/0", "10.0.0.0/8"];
const V6: [&str; 4] = ["fd00::/8", "2001:db8:0:1::7/64", "2001:db8::7/128", "::/0"];

impl Configuration {
    pub(crate) fn random(random: &mut Random) -> Self {
        let v6 = random.one_in(2);
        let list = |random: &mut Random| {
            let count = random.of(&[0, 0, 1, 2, 7, 15, 16, 31]);
            let item = |random: &mut Random| {
                let (a, b) = (random.of(&PORTS), random.of(&PORTS));
                if random.one_in(3) { (a.min(b), a.max(b)) } else { (a, a) }
            };
            (0..count).map(|_| item(random)).collect::<Vec<_>>()
        };
        let (inbound, outbound) = (list(random), list(random));
        let count = random.of(&[0, 0, 1, 3]);
        let subnets = (0..count).map(|_| if v6 { random.of(&V6) } else { random.of(&V4) }).collect();
        let count = random.of(&[0, 0, 0, 1, 2, 17]);
        Self {
            uid: random.of(&[None, Some(1), Some(2102), Some(4_294_967_294)]),
            gid: random.of(&[None, None, Some(1), Some(2102)]),
            ports: (0..count).map(|_| random.of(&PORTS)).collect(),
            inbound,
            outbound,
            subnets,
            v6,
        }
    }

    pub(crate) fn flags(&self) -> Vec<String> {
        let mut flags: Vec<String> = ["-p", "4143", "-o", "4140"].map(str::to_owned).into();
        flags.push(format!("--ipv6={}", self.v6));
        flags.extend(self.uid.map(|uid| format!("--proxy-uid={uid}")));
        flags.extend(self.gid.map(|gid| format!("-g={gid}")));
        // A list as one flag or as several.
        flags.extend(self.ports.iter().map(|port| format!("--ports-to-redirect={port}")));
        for (name, list) in [("inbound", &self.inbound), ("outbound", &self.outbound)] {
            let items: Vec<String> = list.iter().map(|(first, last)| format!("{first}-{last}")).collect();
            if !items.is_empty() {
                flags.push(format!("--{name}-ports-to-ignore={}", items.join(",")));
            }
        }
        flags.extend(self.subnets.iter().map(|subnet| format!("--subnets-to-ignore={subnet}")));
        flags
    }

    pub(crate) fn commands(&self) -> Vec<String> {
        let (r, o) = ("PROXY_INIT_REDIRECT", "PROXY_INIT_OUTPUT");
        let mut printed = vec![format!("-N {r}")];
        printed.extend(ignores(r, &self.inbound));
        for net in &self.subnets {
            printed
                .push(format!("-A {r} -p all -j RETURN -s {net}{}", named(&format!("ignore-subnet-{net}"))));
        }
        let to_in = "REDIRECT --to-port 4143";
        if self.ports.is_empty() {
            let comment = named("redirect-all-incoming-to-proxy-port");
            printed.push(format!("-A {r} -p tcp -j {to_in}{comment}"));
        }
        for port in &self.ports {
            let comment = named(&format!("redirect-port-{port}-to-proxy-port"));
            printed.push(format!("-A {r} -p tcp --destination-port {port} -j {to_in}{comment}"));
        }
        printed.push(format!("-A PREROUTING -j {r}{}", named("install-proxy-init-prerouting")));
        printed.push(format!("-N {o}"));
        if let Some(uid) = self.uid {
            let comment = named("ignore-proxy-user-id");
            printed.push(format!("-A {o} -m owner --uid-owner {uid} -j RETURN{comment}"));
        }
        if let Some(gid) = self.gid {
            let comment = named("ignore-proxy-group-id");
            printed.push(format!("-A {o} -m owner --gid-owner {gid} -j RETURN{comment}"));
        }
        printed.push(format!("-A {o} -o lo -j RETURN{}", named("ignore-loopback")));
        printed.extend(ignores(o, &self.outbound));
        let comment = named("redirect-all-outgoing-to-proxy-port");
        printed.push(format!("-A {o} -p tcp -j REDIRECT --to-port 4140{comment}"));
        printed.push(format!("-A OUTPUT -j {o}{}", named("install-proxy-init-output")));
        printed.into_iter().map(|command| format!("-t nat {command}")).collect()
    }
}

fn named(comment: &str) -> String {
    format!(" -m comment --comment proxy-init/{comment}")
}

/// Rules with as many items as fit: a port counts once, a range twice, 15 in all.
fn ignores(chain: &str, list: &[(u16, u16)]) -> Vec<String> {
    let mut rules: Vec<(usize, Vec<String>)> = Vec::new();
    for (first, last) in list {
        let (weight, text) =
            if first == last { (1, first.to_string()) } else { (2, format!("{first}:{last}")) };
        match rules.last_mut() {
            Some((used, items)) if *used + weight <= 15 => {
                *used += weight;
                items.push(text);
            }
            _ => rules.push((weight, vec![text])),
        }
    }
    let rule = |(_, items): (usize, Vec<String>)| {
        let ports = items.join(",");
        let comment = named(&format!("ignore-port-{ports}"));
        format!("-A {chain} -p tcp --match multiport --dports {ports} -j RETURN{comment}")
    };
    rules.into_iter().map(rule).collect()
}
