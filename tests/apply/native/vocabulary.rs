//! Any rules that the model can say are taken by the kernel, whoever writes them, and listed as what they are.
//!
//! By chance rather than from a catalogue: a word that a program spells in another way than we read it, or an encoding
//! that is not quite that of `nft`, would be found here.

use crate::apply::native::arbitrary::{ANY, EVERYBODY, OTHERS, OURS, OWNER, checked_of};
use crate::apply::native::read_back::{NAME, write};
use crate::apply::native::support::{in_namespace, ruleset};
use crate::support::program::stdout;
use crate::support::scope;
use crate::support::setting::{self, Variant};
use proptest::{strategy::Strategy, strategy::ValueTree, test_runner::TestRunner};
use rules::{Checked, Family, ListedRule, Ownership, State, Table, nft, parse, plan::plan, render};

/// How many rule sets are tried.
fn cases() -> usize {
    scope::runs(40, 4)
}

fn one<T: std::fmt::Debug>(runner: &mut TestRunner, strategy: impl Strategy<Value = T>) -> T {
    strategy.new_tree(runner).expect("a case").current()
}

/// Others have chains of these names, to which rules of ours may lead.
fn others() -> String {
    let chains: String = OTHERS.iter().map(|chain| format!(":{chain} - [0:0]\n")).collect();
    Table::ALL.into_iter().map(|table| format!("*{table}\n{chains}COMMIT\n")).collect()
}

fn check_listed(variant: Variant, family: Family, names: &'static [&'static str], owner: &Ownership) {
    let named = match family {
        Family::V4 => setting::Family::V4,
        Family::V6 => setting::Family::V6,
    };
    let (restore, save) = (variant.program(named, "-restore"), variant.program(named, "-save"));
    let mut runner = TestRunner::deterministic();
    for _ in 0..cases() {
        let rules = one(&mut runner, checked_of(family, names));
        let made = State::of(rules.rules());
        let preview = render::iptables::restore(&rules);
        let changes = plan(&State::default(), &made, owner);
        let script: String = changes.iter().map(render::iptables::change).collect();
        let listed = in_namespace(|| {
            if names == OURS {
                stdout(&restore, &["--noflush"], &others());
            }
            stdout(&restore, &["--test", "--noflush"], &preview);
            stdout(&restore, &["--noflush"], &script);
            stdout(&save, &[], "")
        });
        let read = parse::save(&listed, family, owner).expect("a listing").part_of(owner);
        for table in Table::ALL {
            assert!(read.same_table(&made, table), "{restore}, {table}:\n{script}\n{listed}");
        }
    }
}

#[test]
fn any_rules_are_listed_by_iptables_as_they_were_made() {
    for variant in [Variant::Legacy, Variant::Nft] {
        for family in Family::BOTH {
            check_listed(variant, family, ANY, &EVERYBODY);
            check_listed(variant, family, OURS, &OWNER);
        }
    }
}

/// What linkerd, kuma and Istio's ambient mode write, each word of it at least once.
const OF_MESHES: [&str; 3] = [
    "*nat
:PROXY_INIT_REDIRECT - [0:0]
:PROXY_INIT_OUTPUT - [0:0]
-A PROXY_INIT_REDIRECT -p tcp --match multiport --dports 4190,4191,22:23 -j RETURN -m comment --comment proxy-init/ignore
-A PROXY_INIT_REDIRECT -p all -j RETURN -s 172.17.0.0/16
-A PROXY_INIT_REDIRECT -p tcp -j REDIRECT --to-port 4143
-A PROXY_INIT_REDIRECT -p tcp --destination-port 80 -j REDIRECT --to-port 4143
-A PREROUTING -j PROXY_INIT_REDIRECT
-A PROXY_INIT_OUTPUT -m owner --uid-owner 2102 -j RETURN
-A PROXY_INIT_OUTPUT -m owner --gid-owner 2102 -j RETURN
-A PROXY_INIT_OUTPUT -o lo -j RETURN
-A OUTPUT -j PROXY_INIT_OUTPUT
COMMIT
",
    "*raw
-A PREROUTING -s 10.0.0.10 -p udp --sport 53 -j CT --zone 1
-A OUTPUT -p udp --sport 15053 -m owner --uid-owner 5678 -j CT --zone 2
-A OUTPUT -d 127.0.0.53 -p udp --dport 53 -j CT --zone 2
-A OUTPUT -s 127.0.0.53 -d 127.0.0.1/32 -p udp -j CT --zone 1
COMMIT
*nat
:KUMA_MESH_OUTBOUND - [0:0]
:KUMA_MESH_OUTBOUND_REDIRECT - [0:0]
:DOCKER_OUTPUT - [0:0]
-A PREROUTING -j LOG --log-prefix PREROUTING: --log-level 7
-A PREROUTING -i br+ -m udp -p udp --dport 53 -j REDIRECT --to-ports 15053
-A PREROUTING ! -d 172.18.0.0/16 -i br+ -p tcp -j REDIRECT --to-ports 15001
-A OUTPUT -m multiport -p tcp --dport 1900,1000:2000 -m owner --uid-owner 106:108 -j RETURN
-A OUTPUT -m multiport -p udp --dport 1:65535 -m owner --uid-owner 123 -j RETURN
-A OUTPUT -p udp --dport 53 -m owner --uid-owner 5678 -j DOCKER_OUTPUT
-A KUMA_MESH_OUTBOUND -p tcp -o lo ! -d 127.0.0.1/32 -m owner --uid-owner 5678 -j KUMA_MESH_OUTBOUND_REDIRECT
-A KUMA_MESH_OUTBOUND -j KUMA_MESH_OUTBOUND_REDIRECT
COMMIT
*mangle
-A PREROUTING -m conntrack --ctstate INVALID -j DROP
COMMIT
",
    "*mangle
:ISTIO_PRERT - [0:0]
:ISTIO_OUTPUT - [0:0]
-A PREROUTING -j ISTIO_PRERT
-A ISTIO_PRERT -m mark --mark 0x539/0xfff -j CONNMARK --set-xmark 0x111/0xfff
-A ISTIO_OUTPUT -m connmark --mark 0x111/0xfff -j CONNMARK --restore-mark --nfmask 0xffffffff --ctmask 0xffffffff
COMMIT
*nat
:ISTIO_PRERT - [0:0]
:ISTIO_OUTPUT - [0:0]
-A ISTIO_PRERT -i virt0 -p tcp -j REDIRECT --to-ports 15001
-A ISTIO_PRERT -s 169.254.7.127 -p tcp -m tcp -j ACCEPT
-A ISTIO_PRERT ! -d 127.0.0.1/32 -p tcp ! --dport 15008 -m mark ! --mark 0x539/0xfff -j REDIRECT --to-ports 15006
-A ISTIO_OUTPUT ! -o lo -p udp -m mark ! --mark 0x539/0xfff -m udp --dport 53 -j REDIRECT --to-port 15053
-A ISTIO_OUTPUT -p tcp -m mark --mark 0x111/0xfff -j ACCEPT
-A ISTIO_OUTPUT ! -d 127.0.0.1/32 -o lo -j ACCEPT
COMMIT
*raw
:ISTIO_OUTPUT - [0:0]
-A ISTIO_OUTPUT -p udp -m mark --mark 0x539/0xfff -m udp --dport 53 -j CT --zone 1
COMMIT
",
];

#[test]
fn what_other_meshes_write_is_understood_as_it_is_listed() {
    for (restore, save) in
        [("iptables-legacy-restore", "iptables-legacy-save"), ("iptables-nft-restore", "iptables-nft-save")]
    {
        for text in OF_MESHES {
            let listed = in_namespace(|| {
                stdout(restore, &[], text);
                stdout(save, &[], "")
            });
            let listing = parse::listing(&listed, Family::V4).expect("a listing");
            let lines: Vec<_> = listing.chains.values().flat_map(|chain| &chain.rules).collect();
            assert_eq!(lines.len(), text.matches("-A ").count(), "{listed}");
            for listed in lines {
                assert!(matches!(listed.line, ListedRule::Typed(_)), "{save}: {listed:#?}");
            }
        }
    }
}

fn tables(runner: &mut TestRunner) -> Option<nft::InetTable> {
    let (one, other): (Checked, Checked) =
        (self::one(runner, checked_of(Family::V4, OURS)), self::one(runner, checked_of(Family::V6, OURS)));
    nft::table(NAME, &one, Some(&other))
}

#[test]
fn any_rules_are_the_same_by_script_and_by_batch() {
    let mut runner = TestRunner::deterministic();
    let made = std::iter::from_fn(|| Some(tables(&mut runner))).take(cases()).flatten();
    for table in made {
        let script = render::nft::script(&table);
        let by_nft = in_namespace(|| {
            stdout("nft", &["-f", "-"], &script);
            ruleset()
        });
        let by_batch = in_namespace(|| {
            write(&table).expect("nft took the same");
            ruleset()
        });
        assert_eq!(by_nft, by_batch, "{script}");
    }
}
