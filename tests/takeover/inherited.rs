//! Takeover of upstream's rules when replacing `istio-iptables`: with the same flags, the rules are as desired, change owner
//! without interruption, and are removed completely.

use crate::apply::stage::{VARIANTS, call, same, state};
use crate::support::namespace::{Namespace, run, succeed};
use crate::support::note::without_note;
use crate::support::rows::rows;
use crate::support::scope;
use crate::support::setting::{Family, Variant};
use crate::takeover::upstream;

const V4: &[&str] = &["--pod-ips", "10.77.0.2", "-u", "1337", "-g", "1337"];
const V6: &[&str] = &["--pod-ips", "10.77.0.2,fd77::2", "--dual-stack", "-u", "1337", "-g", "1337"];

/// More than fit into one rule: upstream has a rule for each.
const MANY: &str =
    "2000,2002,2004,2006,2008,2010,2012,2014,2016,2018,2020,2022,2024,2026,2028,2030,2032,2034";

/// Families and other flags. Tests refer to some by index.
const CONFIGURATIONS: [(&[&str], &[&str]); 28] = [
    (V4, &["-b", "*", "-i", "*"]),
    (V6, &["-b", "*", "-i", "*", "-d", "15090,15021", "-x", "10.9.0.0/16"]),
    (V4, &["-b", "8080,8081", "-i", "*", "-c", "eth5"]),
    (V6, &["-b", "*", "-i", "*", "-c", "eth5,eth6"]),
    (V4, &["-i", "*", "-c", "eth5"]),
    (V4, &["-b", "*", "-i", "*", "-k", "virt0"]),
    (V6, &["-i", "10.1.0.0/16,fd01::/16", "-k", "virt0,virt1"]),
    (V4, &["-i", "10.0.0.0/8", "-k", "virt0"]),
    (V6, &["-c", "eth5", "-k", "virt0"]),
    (V4, &["-b", "*", "-i", "*", "--drop-invalid"]),
    (V6, &["-b", "*", "-i", "*", "--redirect-dns", "--capture-all-dns", "--drop-invalid"]),
    (V6, &["-b", "*", "-i", "*", "--redirect-dns", "--dns-servers", "10.88.0.10,fd88::10"]),
    (V4, &["-m", "TPROXY", "-b", "*", "-i", "*"]),
    (V6, &["-m", "TPROXY", "-b", "*", "-i", "*", "--drop-invalid"]),
    (V6, &["-m", "TPROXY", "-b", "8080", "-i", "*", "-t", "1400", "-r", "140"]),
    (V6, &["-m", "TPROXY", "-b", "*", "-i", "*", "-c", "eth5", "-k", "virt0"]),
    (V4, &["-m", "TPROXY", "-i", "*"]),
    (V4, &["-m", "TPROXY", "-i", "*", "-c", "eth5", "-t", "1400", "-r", "140"]),
    (V6, &["-m", "TPROXY", "-b", "*", "-u", "1337,1338", "-o", "9999", "-q", "443"]),
    (V6, &["-m", "TPROXY", "-b", "*", "-i", "*", "--redirect-dns", "--capture-all-dns", "-c", "eth5"]),
    (V4, &["-b", "*", "-i", "*", "-c", "eth5", "--iptables-trace-logging"]),
    (V6, &["-m", "TPROXY", "-b", "*", "-i", "*", "-k", "virt0", "--iptables-trace-logging"]),
    (V6, &["-b", "*", "-i", "*", "-d", MANY, "-o", MANY]),
    (V4, &["-m", "TPROXY", "-b", MANY, "-q", MANY]),
    (V4, &["-b", MANY, "-i", "10.0.0.0/8", "--redirect-dns", "--capture-all-dns"]),
    (V6, &["-m", "TPROXY", "-b", "*", "-k", "virt0,virt1"]),
    (V4, &["-b", "*", "-k", "virt0,virt1"]),
    (V6, &["-k", "virt0,virt1", "-q", "443", "-o", "53"]),
];

fn flags(index: usize) -> Vec<&'static str> {
    let (families, more) = CONFIGURATIONS[index];
    // The last value of a repeated flag wins, except here, where the flag is a list.
    match more.contains(&"-u") {
        true => [&families[..families.len() - 4], &["-g", "1337"], more].concat(),
        false => [families, more].concat(),
    }
}

rows! {
    upstream_rules_are_as_desired_and_taken_over_legacy: is_taken_over(Variant::Legacy);
    upstream_rules_are_as_desired_and_taken_over_nft: is_taken_over(Variant::Nft);
}

fn configurations() -> Vec<Vec<&'static str>> {
    scope::of((0..CONFIGURATIONS.len()).map(flags).collect(), 4)
}

fn is_taken_over(variant: Variant) {
    for flags in configurations() {
        let what = format!("{variant:?} {flags:?}");
        let (namespace, ours) = (Namespace::new(), Namespace::new());
        // `clean` gets no flags.
        let untouched = everything(&ours);
        upstream::set(&ours, variant, &flags);
        succeed(&ours, &["clean"]);
        same(&untouched, &everything(&ours), &what);
        let empty = state(&namespace);
        upstream::set(&namespace, variant, &flags);
        let before = state(&namespace);
        run(&namespace, &[&["diff"], &flags[..]].concat()).with(0, &what);
        same(&before, &state(&namespace), "check changed the state");
        // Without --reconcile, the drop-in would refuse to replace differences.
        run(&namespace, &[&["istio-iptables"], &flags[..]].concat()).with(0, &what);
        succeed(&ours, &call("apply", variant, &flags));
        same(&as_packets_meet_it(&state(&ours)), &as_packets_meet_it(&state(&namespace)), &what);
        let printed = succeed(&namespace, &[&["apply", "--output", "json"], &flags[..]].concat()).stdout;
        assert!(printed.contains("\"changed\": false"), "{what}: {printed}");
        succeed(&namespace, &["clean"]);
        same(&empty, &state(&namespace), &what);
    }
}

/// The kernel numbers policy rules downwards, so a rule made beside an existing one has another number; an existing address keeps
/// its flags if nothing else changes.
fn as_packets_meet_it(state: &str) -> String {
    let number = |line: &str| match line.split_once(":\t") {
        Some((number, rest)) if number.bytes().all(|b| b.is_ascii_digit()) => rest.to_owned(),
        _ => line.replace("global nodad", "global"),
    };
    state.lines().map(number).collect::<Vec<_>>().join("\n")
}

/// Until 1.20 the jump was only for TCP, which is sufficient without UDP capture.
#[test]
fn rules_of_upstream_1_20_are_as_desired() {
    for variant in VARIANTS {
        for index in scope::of(vec![0, 3, 6, 12, 15], 1) {
            let (namespace, flags) = (Namespace::new(), flags(index));
            let empty = everything(&namespace);
            upstream::set_1_20(&namespace, variant, &flags);
            assert!(
                namespace
                    .stdout(&variant.program(Family::V4, "-save"), &[])
                    .contains("-p tcp -j ISTIO_OUTPUT\n")
            );
            run(&namespace, &[&["diff"], &flags[..]].concat()).with(0, &format!("{flags:?}"));
            succeed(&namespace, &[&["istio-iptables"], &flags[..]].concat());
            let printed = succeed(&namespace, &[&["apply", "--output", "json"], &flags[..]].concat()).stdout;
            assert!(printed.contains("\"changed\": false"), "{flags:?}: {printed}");
            succeed(&namespace, &["clean"]);
            same(&empty, &everything(&namespace), &format!("{variant:?} {flags:?}"));
        }
        // DNS queries over UDP would not be captured.
        let (namespace, dns) = (Namespace::new(), flags(10));
        upstream::set_1_20(&namespace, variant, &dns);
        run(&namespace, &[&["diff"], &dns[..]].concat()).with(3, "with DNS");
        // With TPROXY, the rule against invalid packets is among other owners' rules in the table.
        let (namespace, tproxy) = (Namespace::new(), flags(13));
        let empty = everything(&namespace);
        upstream::set_1_20(&namespace, variant, &tproxy);
        succeed(&namespace, &["clean"]);
        same(&empty, &everything(&namespace), "clean");
    }
}

#[test]
fn upstream_is_replaced_by_other_flags() {
    for variant in VARIANTS {
        for (index, to) in scope::of(vec![(13, 1), (15, 13), (8, 13), (17, 0), (3, 9)], 1) {
            let (from, to) = (flags(index), flags(to));
            let (namespace, alone) = (Namespace::new(), Namespace::new());
            upstream::set(&namespace, variant, &from);
            run(&namespace, &[&["diff"], &to[..]].concat()).with(3, "other flags");
            run(&namespace, &[&["istio-iptables"], &to[..]].concat()).with(1, "other flags");
            succeed(&namespace, &[&["istio-iptables", "--reconcile"], &to[..]].concat());
            succeed(&alone, &call("apply", variant, &to));
            let what = format!("{variant:?} {from:?} {to:?}");
            same(&as_packets_meet_it(&state(&alone)), &as_packets_meet_it(&state(&namespace)), &what);
        }
    }
}

/// Some foreign rules resemble upstream's.
#[test]
fn foreign_rules_beside_upstream_rules_stay() {
    let others = "*nat\n-A POSTROUTING -o eth7 -j RETURN\n-A PREROUTING -i eth7 -p tcp -j RETURN\n-A OUTPUT -o eth7 -m comment --comment \"mine\" -j RETURN\nCOMMIT\n*mangle\n-A PREROUTING -p udp -m mark --mark 1337 -j CONNMARK --save-mark\n-A PREROUTING -m conntrack --ctstate INVALID,NEW -j DROP\nCOMMIT\n";
    for variant in VARIANTS {
        for index in [0, 13] {
            let namespace = Namespace::new();
            namespace.restore(variant, Family::V4, others);
            let before = state(&namespace);
            upstream::set(&namespace, variant, &flags(index));
            succeed(&namespace, &["clean"]);
            same(&before, &state(&namespace), &format!("{variant:?} {index}"));
        }
    }
}

/// Rules with an uncertain owner are kept unless upstream's rules are beside them, and clean reports them.
#[test]
fn rules_without_a_certain_owner_stay_and_are_named() {
    let lines = [
        ("nat", "-A PREROUTING -i eth7 -j RETURN"),
        ("mangle", "-A OUTPUT -o eth7 -j RETURN"),
        ("mangle", "-A PREROUTING -m conntrack --ctstate INVALID -j DROP"),
        (
            "mangle",
            "-A PREROUTING -p tcp -m mark --mark 0x7 -j CONNMARK --save-mark --nfmask 0xffffffff --ctmask 0xffffffff",
        ),
    ];
    for variant in VARIANTS {
        for (table, line) in lines {
            let namespace = Namespace::new();
            namespace.restore(variant, Family::V4, &format!("*{table}\n{line}\nCOMMIT\n"));
            let before = state(&namespace);
            let printed = run(&namespace, &["clean"]).with(1, line).stderr;
            let start = &line[..line.find(" --nfmask").unwrap_or(line.len())].replace("0x7", "7");
            assert!(printed.contains(start) && printed.contains("istio-iptables"), "{printed}");
            same(&before, &state(&namespace), line);
        }
    }
    let alone = Namespace::new();
    upstream::add_address(&alone);
    let pair = Namespace::new();
    pair.ip("route add local default dev lo table 77\nrule add fwmark 7 lookup 77");
    for (namespace, what) in [(alone, "address ::6/128 on lo"), (pair, "policy rule fwmark 7 lookup 77")] {
        let before = state(&namespace);
        let printed = run(&namespace, &["clean"]).with(1, what).stderr;
        assert!(printed.contains(what), "{printed}");
        same(&before, &state(&namespace), what);
    }
}

/// Rules that only upstream makes are recognized even alone.
#[test]
fn the_rest_of_a_half_removed_state_goes() {
    let rest = "*mangle\n-A PREROUTING -p tcp -m mark --mark 1337 -j CONNMARK --save-mark\n-A OUTPUT -p tcp -m connmark --mark 1337 -j CONNMARK --restore-mark\nCOMMIT\n*filter\n-N ISTIO_GUARD\n-A INPUT -j ISTIO_GUARD\nCOMMIT\n";
    for variant in VARIANTS {
        let namespace = Namespace::new();
        let empty = state(&namespace);
        namespace.restore(variant, Family::V4, rest);
        namespace.ip("rule add fwmark 1337 lookup 133\nroute add local default dev lo table 133");
        succeed(&namespace, &["clean"]);
        same(&empty, &state(&namespace), "clean");
        namespace.restore(variant, Family::V4, &rest[rest.find("*filter").expect("there")..]);
        succeed(&namespace, &["clean"]);
        same(&empty, &state(&namespace), "clean of filter alone");
    }
}

/// If the tool's rules have no comment, as in the plainest states, foreign rules that resemble upstream's are kept: the tool's
/// rules come first.
#[test]
fn nothing_is_inherited_beside_plain_rules() {
    let others = "*nat\n-A PREROUTING -i eth7 -j RETURN\n-A OUTPUT -o eth7 -j RETURN\nCOMMIT\n";
    let cases: [(&[&str], &[&str]); 4] = [
        (V4, &["-i", "*"]),
        (V4, &["-b", "*", "-i", "*"]),
        (V6, &["-i", "*"]),
        (V6, &["-b", "*", "-i", "*"]),
    ];
    for variant in VARIANTS {
        for (families, more) in cases {
            let (namespace, flags) = (Namespace::new(), [families, more].concat());
            namespace.restore(variant, Family::V4, others);
            upstream::add_address(&namespace);
            succeed(&namespace, &call("apply", variant, &flags));
            succeed(&namespace, &call("diff", variant, &flags));
            let printed =
                succeed(&namespace, &[&call("apply", variant, &flags)[..], &["--output", "json"]].concat())
                    .stdout;
            assert!(printed.contains("\"changed\": false"), "{printed}");
            run(&namespace, &["clean"]).with(1, "rules with an uncertain owner");
            let saved = namespace.stdout(&variant.program(Family::V4, "-save"), &[]);
            assert_eq!(saved.matches("eth7 -j RETURN").count(), 2, "{saved}");
        }
    }
}

/// Upstream's tables would capture too, so every backend removes them.
#[test]
fn tables_of_upstream_native_mode_are_replaced() {
    for variant in [Variant::Native, Variant::Nft, Variant::Legacy] {
        let (namespace, alone) = (Namespace::new(), Namespace::new());
        let flags = flags(1);
        upstream::set_native(&namespace);
        let compared = [&call("diff", variant, &flags)[..], &["--rules"]].concat();
        let printed = run(&namespace, &compared).with(3, "diff").stdout;
        let part = "@@ table istio-proxy-nat, made by another program (nftables)";
        assert!(printed.contains(part), "{printed}");
        let before = everything(&namespace);
        run(&namespace, &call("istio-iptables", variant, &flags)).with(1, "without --reconcile");
        same(&before, &everything(&namespace), "refused, and yet something changed");
        let reconciling = [&flags[..], &["--reconcile"]].concat();
        succeed(&namespace, &call("istio-iptables", variant, &reconciling));
        succeed(&alone, &call("apply", variant, &flags));
        same(&everything(&alone), &everything(&namespace), &format!("{variant:?}"));
        run(&namespace, &call("diff", variant, &flags)).with(0, "diff");
    }
}

#[test]
fn clean_removes_upstream_native_mode() {
    let namespace = Namespace::new();
    let empty = everything(&namespace);
    upstream::set_native(&namespace);
    namespace.load("table inet istio-proxy-other { }");
    succeed(&namespace, &["clean"]);
    assert!(everything(&namespace).contains("istio-proxy-other"), "a table of another name");
    namespace.load("delete table inet istio-proxy-other");
    same(&empty, &everything(&namespace), "clean");
}

fn everything(namespace: &Namespace) -> String {
    state(namespace) + &without_note(&namespace.stdout("nft", &["-s", "list", "ruleset"]))
}
