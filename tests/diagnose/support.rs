//! `status --kernel` shows what is missing, in words and as JSON, and changes nothing; foreign rules are named by all commands.

use crate::support::program::{Outcome, PATH, binary};
use std::process::Command;

use serde_json::Value;

use crate::apply::stage::{FULL, REDIRECT, VARIANTS, call, state};
use crate::support::namespace::{Namespace, run, succeed};
use crate::support::setting::{Family, Variant};

const POD: [&str; 2] = ["--pod-ips", "10.77.0.2"];

/// Each finding of the JSON is in the text.
fn findings(namespace: &Namespace, flags: &[&str]) -> (Option<i32>, String) {
    let before = all(namespace);
    let text = run(namespace, &[&["status"], flags].concat());
    let json = run(namespace, &[&["status", "--format", "json"], flags].concat());
    assert_eq!(before, all(namespace), "status changed something");
    assert_eq!(text.code, json.code);
    let document: Value = serde_json::from_str(&json.stdout).expect("JSON");
    let words = text.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for item in document["findings"].as_array().expect("a list") {
        let word = |key: &str| item[key].as_str().unwrap_or_default();
        let start = format!("{} {} {}", word("level"), word("code"), word("subject"));
        let is_shown = words.contains(&start) && words.contains(word("text"));
        assert!(is_shown, "{item} is not in\n{}", text.stdout);
        assert_eq!(word("level") == "ok", item["remedy"].is_null(), "{item}");
    }
    (text.code, format!("{words}\n"))
}

fn says(printed: &str, level: &str, text: &str) -> bool {
    let levels = ["ok", "note", "warning", "failure"];
    let findings = printed.split(" SI0").zip(printed.split(" SI0").skip(1));
    assert!(levels.contains(&level));
    findings.into_iter().any(|(before, finding)| before.ends_with(level) && finding.contains(text))
}

fn all(namespace: &Namespace) -> String {
    let legacy = namespace.run(|| std::fs::read_to_string("/proc/thread-self/net/ip_tables_names"));
    state(namespace)
        + &namespace.stdout("nft", &["list", "ruleset"])
        + &legacy.expect("legacy tables are known")
}

#[test]
fn a_fresh_namespace_is_fine() {
    let (code, printed) = findings(&Namespace::new(), &["--kernel"]);
    assert_eq!(code, Some(0), "{printed}");
    for text in [
        "network namespace of a pod",
        "CAP_NET_ADMIN",
        "CAP_NET_RAW",
        "iptables-legacy 1.",
        "iptables-nft 1.",
        "has all matches and targets",
        "IPv6 is enabled",
    ] {
        assert!(says(&printed, "ok", text), "{text:?} is not in\n{printed}");
    }
    let refused = run(&Namespace::new(), &["status", "--kernel", "--all"]).with(2, "two questions");
    assert!(refused.stderr.contains("--kernel: can not be combined"), "{}", refused.stderr);
}

#[test]
fn missing_rights_are_named() {
    let namespace = Namespace::new();
    succeed(&namespace, &call("apply", Variant::Nft, REDIRECT));
    for format in ["text", "json"] {
        let ended = powerless(&namespace, &["status", "--kernel", "--format", format]);
        let printed = ended.with(1, "no rights").stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            printed.contains("CAP_NET_ADMIN is missing") && printed.contains("capabilities.add: [NET_ADMIN]"),
            "{printed}"
        );
        assert!(printed.contains("CAP_NET_RAW is missing"), "{printed}");
        assert!(!printed.contains("modprobe"), "no module is missing: {printed}");
    }
}

#[test]
fn other_commands_without_rights_fail_and_say_why() {
    for variant in VARIANTS {
        let namespace = Namespace::new();
        for arguments in [call("apply", variant, REDIRECT), call("apply", variant, FULL)] {
            let before = all(&namespace);
            let printed = powerless(&namespace, &arguments).with(1, "apply without rights").stderr;
            assert!(printed.contains("CAP_NET_ADMIN"), "{printed}");
            assert_eq!(before, all(&namespace));
        }
    }
    let (namespace, other) = (Namespace::new(), Namespace::new());
    let printed = powerless(&namespace, &["status", "--network-namespace", &other.path()]).with(2, "status");
    assert!(printed.stderr.contains("this needs root, with CAP_SYS_ADMIN"), "{}", printed.stderr);
    assert!(!printed.stderr.contains("a name of ip netns"), "{}", printed.stderr);
}

/// Tables that no program can read may hold anything.
#[test]
fn rules_that_can_not_be_read_are_not_none() {
    let namespace = Namespace::new();
    succeed(&namespace, &call("apply", Variant::Legacy, REDIRECT));
    let mut command = binary(&["status"]);
    let ended = namespace.outcome(command.env("PATH", "/nowhere")).with(1, "status without programs");
    assert!(ended.stdout.is_empty() && ended.stderr.contains("iptables"), "{ended:?}");
}

#[test]
fn a_program_that_does_not_answer_is_named() {
    let folder = crate::support::folder::Folder::new("status-broken");
    for (name, says) in [
        ("iptables", "echo it does not load >&2; exit 127"),
        ("iptables-save", "exit 127"),
        ("iptables-restore", "exit 127"),
    ] {
        crate::support::program::script(folder.join(name), format!("#!/bin/sh\n{says}\n"));
    }
    let namespace = Namespace::new();
    for (arguments, code) in
        [(call("istio-iptables", Variant::Native, REDIRECT), 0), (vec!["status", "--kernel"], 0)]
    {
        let arguments: Vec<&str> =
            arguments.into_iter().filter(|word| *word != "--native-nftables").collect();
        let mut command = binary(&arguments);
        let printed = namespace.outcome(command.env("PATH", format!("{}:/bin", folder.display())));
        let printed = printed.with(code, "with a broken program").stderr;
        assert!(
            printed.contains("does not print its version") && printed.contains("it does not load"),
            "{arguments:?}: {printed}"
        );
    }
}

/// What others have that comes before ours (or may), whatever backend holds ours; and what comes behind.
#[test]
fn apply_and_check_name_nat_that_comes_before_ours() {
    let early = "table ip other { chain early { type nat hook output priority -150; jump there; }; \
                 chain there { tcp dport 443 redirect to :9; }; }";
    let at_once = "table inet other { chain early { type nat hook output priority -100; tcp dport 443 dnat ip to 10.0.0.9; }; }";
    let late =
        "table ip late { chain late { type nat hook output priority -90; tcp dport 443 redirect to :9; }; }
        table ip idle { chain idle { type nat hook output priority -150; counter; }; }
        table ip6 source { chain source { type nat hook input priority -150; }; }";
    for variant in [Variant::Native, Variant::Nft, Variant::Legacy] {
        for (script, comes_first) in [(early, true), (at_once, variant != Variant::Native), (late, false)] {
            let namespace = Namespace::new();
            namespace.load(script);
            for command in ["apply", "diff"] {
                let ended = run(&namespace, &call(command, variant, REDIRECT));
                // Behind ours, it takes the proxy's own calls.
                let ended = ended.with(if comes_first || command == "diff" { 3 } else { 0 }, script);
                let printed = format!(
                    "chain early of table {}",
                    script.split(' ').skip(1).take(2).collect::<Vec<_>>().join(" ")
                );
                assert_eq!(ended.stderr.contains(&printed), comes_first, "{variant:?}: {}", ended.stderr);
            }
        }
    }
}

/// Of the two variants of iptables nobody knows which comes first; our own table comes before both.
#[test]
fn nat_of_the_other_variant_is_named() {
    let rule = "*nat\n-A OUTPUT -p tcp -m tcp --dport 443 -j DNAT --to-destination 10.0.0.9:9\nCOMMIT\n";
    for (ours, other) in [(Variant::Nft, Variant::Legacy), (Variant::Legacy, Variant::Nft)] {
        let namespace = Namespace::new();
        namespace.restore(other, Family::V4, rule);
        let printed = run(&namespace, &call("apply", ours, REDIRECT)).with(3, "beside the other").stderr;
        assert!(printed.contains("--dport 443 -j DNAT"), "{printed}");
        run(&namespace, &call("diff", ours, REDIRECT)).with(3, "beside the other");
        succeed(&namespace, &call("apply", Variant::Native, REDIRECT));
        // Its rules take the proxy's own calls, which ours let pass.
        run(&namespace, &call("diff", Variant::Native, REDIRECT)).with(3, "behind ours");
    }
}

#[test]
fn foreign_rules_that_drop_are_named_and_our_own_table_is_not_foreign() {
    let namespace = Namespace::new();
    let flags = [&POD[..], &["--native-nftables"]].concat();
    succeed(&namespace, &[&["apply"], &flags[..]].concat());
    let (_, printed) = findings(&namespace, &[]);
    assert!(!printed.contains("sidecar_init"), "{printed}");
    // Somebody else's table of this name is of another family.
    let script = "table ip sidecar_init { chain early { type nat hook output priority -110; tcp dport 1 redirect to :9; }; }
    table ip6 wall { chain in { type filter hook input priority 0; policy drop; }; }
    table inet gate { chain out { type filter hook output priority 5; jump shut; }; chain shut { tcp dport 25 reject; }; }
    table inet open { chain out { type filter hook output priority 5; tcp dport 25 accept; }; }";
    namespace.load(script);
    let drop = "*filter\n-A INPUT -p tcp -m tcp --dport 23 -j DROP\nCOMMIT\n";
    namespace.restore(Variant::Nft, Family::V4, drop);
    let (_, printed) = findings(&namespace, &[]);
    for line in [
        "chain early of table ip sidecar_init (priority -110) may send packets elsewhere",
        "chain in of table ip6 wall may drop packets: its policy, where no rule of it accepts",
        "chain out of table inet gate may drop packets: tcp dport 25 reject",
        "chain INPUT of table filter may drop packets: -p tcp -m tcp --dport 23 -j DROP",
    ] {
        assert!(says(&printed, "warning", line), "{line:?} is not in\n{printed}");
    }
    assert!(!printed.contains("inet open") && !printed.contains("inet sidecar_init"), "{printed}");
}

#[test]
fn ipv6_is_told_as_it_is() {
    for (scope, level, text) in
        [("all", "ok", "IPv6 is disabled in this"), ("lo", "warning", "enabled, but not on lo")]
    {
        let namespace = Namespace::new();
        namespace.set(&format!("ipv6/conf/{scope}/disable_ipv6"), "1");
        let (_, printed) = findings(&namespace, &["--kernel"]);
        assert!(says(&printed, level, text), "{text:?} is not in\n{printed}");
    }
    // `all` keeps its value when an interface is changed afterwards.
    let namespace = Namespace::new();
    namespace.set("ipv6/conf/all/disable_ipv6", "1");
    namespace.set("ipv6/conf/lo/disable_ipv6", "0");
    let (_, printed) = findings(&namespace, &["--kernel"]);
    assert!(says(&printed, "ok", "IPv6 is enabled") && !printed.contains("disabled in"), "{printed}");
}

/// Runs the binary inside as root without any capability.
fn powerless(namespace: &Namespace, arguments: &[&str]) -> Outcome {
    let binary = binary(arguments);
    let mut command = Command::new("setpriv");
    command.env_clear().env("PATH", PATH);
    command.args(["--bounding-set", "-all", "--inh-caps", "-all", "--ambient-caps", "-all", "--"]);
    command.arg(binary.get_program()).args(binary.get_args());
    namespace.outcome(&mut command)
}

/// The variants that are there, in the order of preference, whatever the family.
#[test]
fn a_missing_variant_is_a_warning() {
    let namespace = Namespace::new();
    let folder = crate::support::folder::Folder::new("status-legacy");
    for action in ["", "-save", "-restore"] {
        let name = Variant::Legacy.program(Family::V4, action);
        let script = format!("#!/bin/sh\nexec /usr/sbin/{name} \"$@\"\n");
        crate::support::program::script(folder.join(&name), script);
    }
    let mut command = binary(&["status", "--kernel"]);
    let printed = namespace.outcome(command.env("PATH", format!("{}:/bin", folder.display()))).stdout;
    assert!(
        printed.contains("for IPv4 only") && printed.contains("warning  SI062 iptables-nft is not on PATH"),
        "{printed}"
    );
}
