//! Foreign rules that the programs of iptables can't show, or show oddly: none of our commands may stumble over them, or
//! apply has to refuse before anything is touched.

use crate::apply::stage::{REDIRECT, VARIANTS, call, routing, same, state};
use crate::support::namespace::{Namespace, run, succeed};
use crate::support::setting::{Family, Variant};

/// Rules that iptables does not understand: by the first its program fails, by the second it leaves out the table and
/// ends with success.
const STRANGE: [&str; 2] = ["meta skuid 5 counter", "fib daddr type broadcast counter"];

fn nft(namespace: &Namespace, line: &str) {
    namespace.stdout("nft", &[line]);
}

fn ruleset(namespace: &Namespace) -> String {
    namespace.stdout("nft", &["--stateless", "list", "ruleset"])
}

#[test]
fn a_foreign_table_that_can_not_be_shown_hinders_no_command() {
    for rule in STRANGE {
        let namespace = Namespace::new();
        nft(&namespace, "add table ip filter");
        for chain in ["mine", "INPUT"] {
            nft(
                &namespace,
                &format!("add chain ip filter {chain} {{ type filter hook input priority 0 ; }}"),
            );
            nft(&namespace, &format!("add rule ip filter {chain} {rule}"));
        }
        let before = ruleset(&namespace);
        for variant in VARIANTS {
            for command in ["apply", "diff"] {
                succeed(&namespace, &call(command, variant, REDIRECT));
            }
            run(&namespace, &["status"]).with(1, "nothing listens, or it is not known");
            succeed(&namespace, &["clean"]);
            same(&before, &ruleset(&namespace), "only ours has gone");
        }
    }
}

#[test]
fn rules_are_not_set_in_a_table_that_can_not_be_shown() {
    for rule in STRANGE {
        let namespace = Namespace::new();
        namespace.stdout("iptables-nft", &["-t", "nat", "-A", "OUTPUT", "-j", "RETURN"]);
        nft(&namespace, &format!("add rule ip nat OUTPUT {rule}"));
        let (before, routes) = (ruleset(&namespace), routing(&namespace));
        for command in ["apply", "diff"] {
            let printed = run(&namespace, &call(command, Variant::Nft, REDIRECT)).with(1, command).stderr;
            for word in ["its table nat of IPv4", "use --backend nftables", "nft list table ip nat"] {
                assert!(printed.contains(word), "{word}: {printed}");
            }
        }
        same(&before, &ruleset(&namespace), "nothing was touched");
        same(&routes, &routing(&namespace), "nothing was touched");
        // By other means they can be set.
        for command in ["apply", "diff"] {
            succeed(&namespace, &[&[command], REDIRECT].concat());
        }
        run(&namespace, &["status"]).with(1, "nothing listens");
        succeed(&namespace, &["clean"]);
        same(&before, &ruleset(&namespace), "only ours has gone");
    }
}

/// A rule that comes later makes ours unreadable.
#[test]
fn rules_that_have_become_hidden_are_removed() {
    for rule in STRANGE {
        let namespace = Namespace::new();
        let apply = call("apply", Variant::Nft, REDIRECT);
        let hide = || {
            succeed(&namespace, &apply);
            nft(&namespace, &format!("add rule ip nat OUTPUT {rule}"));
        };
        let is_clean = || {
            let listed = namespace.stdout("nft", &["--stateless", "list", "ruleset", "ip"]);
            assert!(!listed.contains("ISTIO_") && listed.contains(rule), "{listed}");
            nft(&namespace, "delete table ip nat");
        };
        hide();
        let before = ruleset(&namespace);
        for arguments in [&apply, &call("diff", Variant::Nft, REDIRECT)] {
            let printed = run(&namespace, arguments).with(1, "a table that can't be shown").stderr;
            assert!(printed.contains("can't show its table nat of IPv4"), "{printed}");
            same(&before, &ruleset(&namespace), "a failed run changed something");
        }
        let printed = run(&namespace, &["status", "--format", "json"]).with(1, "a table is hidden").stdout;
        assert!(printed.contains("can't show its table nat of IPv4"), "{printed}");
        succeed(&namespace, &["clean"]);
        is_clean();
        // Another backend takes their place.
        hide();
        for command in ["apply", "diff"] {
            succeed(&namespace, &[&[command], REDIRECT].concat());
        }
        is_clean();
        succeed(&namespace, &["clean"]);
    }
}

/// A comment may hold a line break, and a chain's name a quote: the programs print both as they are.
#[test]
fn odd_texts_of_others_are_read_and_stay() {
    const COMMENT: &str = "a\n-A OUTPUT -j DROP\nCOMMIT\n*nat\nb\"c\\";
    for variant in VARIANTS {
        let namespace = Namespace::new();
        let program = variant.program(Family::V4, "");
        for words in [
            &["-A", "OUTPUT", "-m", "comment", "--comment", COMMENT, "-j", "RETURN"][..],
            &["-N", "a\"b"],
            &["-A", "a\"b", "-j", "RETURN"],
            &["-A", "OUTPUT", "-j", "a\"b"],
        ] {
            namespace.stdout(&program, &[&["-t", "nat"], words].concat());
        }
        let before = state(&namespace);
        for ours in [variant, Variant::Native] {
            for command in ["apply", "diff"] {
                succeed(&namespace, &call(command, ours, REDIRECT));
            }
            let question = ["explain", "--live", "--pod-ips", "10.77.0.2", "--uid", "1000", "10.0.0.5:443"];
            let explained = succeed(&namespace, &question).stdout;
            assert!(explained.contains("captured: goes to the proxy's outbound port 15001"), "{explained}");
            run(&namespace, &["status"]).with(1, "nothing listens");
            succeed(&namespace, &["clean"]);
            same(&before, &state(&namespace), "only ours has gone");
        }
    }
}
