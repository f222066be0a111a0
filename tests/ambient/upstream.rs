//! Istio's own rules beside ours: what its agent feeds to `iptables-restore`, written here from its source alone
//! (`cni/pkg/iptables`), and what our binary sets, listed by the same program. They are equal letter for letter.

use crate::random::Random;
use crate::scene::binary;
use crate::support::namespace::Namespace;
use crate::support::setting::{Family, Variant};

/// What a pod and the agent's environment may say.
#[derive(Clone, Debug)]
struct Said {
    ingress: bool,
    dns: bool,
    ipv6: bool,
    interfaces: Vec<&'static str>,
    probe: [&'static str; 2],
}

impl Said {
    fn random(random: &mut Random) -> Said {
        let all = ["vm0", "eth1", "br+", "net-a.b", "tap_0", "lo"];
        Said {
            ingress: random.one_in(2),
            dns: !random.one_in(3),
            ipv6: !random.one_in(3),
            interfaces: (0..random.of(&[0, 0, 1, 2, 4])).map(|_| random.of(&all)).collect(),
            probe: [
                random.of(&["169.254.7.127", "10.0.0.1", "198.51.100.7"]),
                random.of(&[
                    "fd16:9254:7127:1337:ffff:ffff:ffff:ffff",
                    "e9ac:1e77:90ca:399f:4d6d:ece2:2f9b:3164",
                ]),
            ],
        }
    }

    fn flags(&self) -> Vec<String> {
        vec![
            format!("--ingress={}", self.ingress),
            format!("--dns-capture={}", self.dns),
            format!("--ipv6={}", self.ipv6),
            format!("--reroute-virtual-interfaces={}", self.interfaces.join(",")),
            format!("--probe-address={}", self.probe.join(",")),
        ]
    }
}

/// The agent's text for one family.
fn agents_text(said: &Said, family: Family) -> String {
    let (probe, local) = match family {
        Family::V4 => (said.probe[0], "127.0.0.1/32"),
        Family::V6 => (said.probe[1], "::1/128"),
    };
    let mut text = String::from(
        "* mangle\n-N ISTIO_PRERT\n-N ISTIO_OUTPUT\n-A PREROUTING -j ISTIO_PRERT\n-A OUTPUT -j ISTIO_OUTPUT\n\
         -A ISTIO_PRERT -m mark --mark 0x539/0xfff -j CONNMARK --set-xmark 0x111/0xfff\n\
         -A ISTIO_OUTPUT -m connmark --mark 0x111/0xfff -j CONNMARK --restore-mark --nfmask 0xffffffff --ctmask 0xffffffff\n\
         COMMIT\n* nat\n-N ISTIO_PRERT\n-N ISTIO_OUTPUT\n-A OUTPUT -j ISTIO_OUTPUT\n-A PREROUTING -j ISTIO_PRERT\n",
    );
    for interface in &said.interfaces {
        text += &format!("-A ISTIO_PRERT -i {interface} -p tcp -j REDIRECT --to-ports 15001\n");
        text += &format!("-A ISTIO_PRERT -i {interface} -p tcp -j RETURN\n");
    }
    if !said.ingress {
        text += &format!("-A ISTIO_PRERT -s {probe} -p tcp -m tcp -j ACCEPT\n");
    }
    text += &format!("-A ISTIO_OUTPUT -d {probe} -p tcp -m tcp -j ACCEPT\n");
    if !said.ingress {
        text += &format!(
            "-A ISTIO_PRERT ! -d {local} -p tcp ! --dport 15008 -m mark ! --mark 0x539/0xfff -j REDIRECT --to-ports 15006\n"
        );
    }
    if said.dns {
        text += "-A ISTIO_OUTPUT ! -o lo -p udp -m mark ! --mark 0x539/0xfff -m udp --dport 53 -j REDIRECT --to-port 15053\n";
        text += &format!(
            "-A ISTIO_OUTPUT ! -d {local} -p tcp --dport 53 -m mark ! --mark 0x539/0xfff -j REDIRECT --to-ports 15053\n"
        );
    }
    text += "-A ISTIO_OUTPUT -p tcp -m mark --mark 0x111/0xfff -j ACCEPT\n";
    text += &format!("-A ISTIO_OUTPUT ! -d {local} -o lo -j ACCEPT\n");
    text += &format!(
        "-A ISTIO_OUTPUT ! -d {local} -p tcp -m mark ! --mark 0x539/0xfff -j REDIRECT --to-ports 15001\n"
    );
    text += "COMMIT\n";
    if said.dns {
        text += "* raw\n-N ISTIO_OUTPUT\n-N ISTIO_PRERT\n-A PREROUTING -j ISTIO_PRERT\n-A OUTPUT -j ISTIO_OUTPUT\n\
                 -A ISTIO_OUTPUT -p udp -m mark --mark 0x539/0xfff -m udp --dport 53 -j CT --zone 1\n\
                 -A ISTIO_PRERT -p udp -m mark ! --mark 0x539/0xfff -m udp --sport 53 -j CT --zone 1\nCOMMIT\n";
    }
    text
}

/// What stands in the tables of a family, table by table in the order of their names.
fn saved(namespace: &Namespace, variant: Variant, family: Family) -> Vec<String> {
    let text = namespace.stdout(&variant.program(family, "-save"), &[]);
    let lines: String =
        text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    let mut tables: Vec<String> = lines.split_inclusive("COMMIT\n").map(str::to_owned).collect();
    tables.sort();
    tables
}

fn apply(namespace: &Namespace, said: &Said, variant: Variant) -> String {
    let path = namespace.path();
    let output = binary()
        .args(["apply", "--mesh", "ambient", "--network-namespace", &path, "--format", "json"])
        .args(["--backend", crate::scene::backend(variant)])
        .args(said.flags())
        .output()
        .expect("the binary starts");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said:?}: {told}");
    String::from_utf8(output.stdout).expect("JSON is UTF-8")
}

/// Tries as many configurations as it is told, in both families.
fn check(variant: Variant, seed: u64, count: usize) {
    let mut random = Random::new(seed);
    for _ in 0..count {
        let said = Said::random(&mut random);
        let (theirs, ours) = (Namespace::new(), Namespace::new());
        for family in Family::BOTH.into_iter().filter(|family| *family == Family::V4 || said.ipv6) {
            let restore = variant.program(family, "-restore");
            let text = agents_text(&said, family);
            let output = theirs.output(&restore, &["--noflush", "-v"], &text);
            assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        }
        apply(&ours, &said, variant);
        for family in Family::BOTH {
            if family == Family::V6 && !said.ipv6 {
                continue;
            }
            let [theirs, ours] = [&theirs, &ours].map(|namespace| saved(namespace, variant, family));
            assert_eq!(ours, theirs, "seed {seed}: {said:?}, {family:?}");
        }
        // Where the agent has been, its rules are as wanted: only the routing is still to come.
        let told = apply(&theirs, &said, variant);
        assert!(told.contains("policy rule"), "{told}");
        assert!(!told.contains("iptables-restore"), "seed {seed}: {said:?}: {told}");
        assert!(apply(&theirs, &said, variant).contains("\"changed\": false"));
    }
}

#[test]
fn rules_are_the_agents_letter_for_letter_by_nft() {
    check(Variant::Nft, 1, 60);
}

#[test]
fn rules_are_the_agents_letter_for_letter_by_legacy() {
    check(Variant::Legacy, 2, 60);
}

/// What the agent has set, without a protocol of its own, goes by our cleaning and becomes ours by our applying.
#[test]
fn the_agents_routing_is_taken_over() {
    let pod = Namespace::new();
    for family in ["-4", "-6"] {
        pod.stdout("ip", &[family, "rule", "add", "fwmark", "0x111/0xfff", "pref", "32764", "lookup", "100"]);
        pod.stdout("ip", &[family, "route", "add", "local", "default", "dev", "lo", "table", "100"]);
    }
    let mut random = Random::new(3);
    let said = Said { ipv6: true, ..Said::random(&mut random) };
    apply(&pod, &said, Variant::Native);
    for family in ["-4", "-6"] {
        let rules = pod.stdout("ip", &["-d", family, "rule"]);
        let such: Vec<&str> = rules.lines().filter(|line| line.contains("lookup 100")).collect();
        assert!(matches!(such[..], [one] if one.contains("proto 138")), "{rules}");
        let routes = pod.stdout("ip", &[family, "route", "show", "table", "100"]);
        assert!(routes.lines().count() == 1 && routes.contains("proto 138"), "{routes}");
    }
}
