//! `doctor` sees what is wrong, in words and as JSON, and changes nothing.

use crate::support::program::{Outcome, PATH, binary};
use crate::support::wait;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::apply::stage::{FULL, REDIRECT, VARIANTS, call, state};
use crate::support::namespace::{Namespace, run, succeed};
use crate::support::setting::{Family, Variant};
use crate::takeover::upstream;
use testkit::running::Running;

const POD: [&str; 2] = ["--pod-ips", "10.77.0.2"];

/// Each finding as `LEVEL TOPIC TEXT` in words, and the same from JSON.
fn findings(namespace: &Namespace, flags: &[&str]) -> (Option<i32>, String) {
    let before = all(namespace);
    let text = run(namespace, &[&["doctor"], flags].concat());
    let json = run(namespace, &[&["doctor", "--format", "json"], flags].concat());
    assert_eq!(before, all(namespace), "doctor changed something");
    assert_eq!(text.code, json.code);
    let document: Value = serde_json::from_str(&json.stdout).expect("JSON");
    let items = document["findings"].as_array().expect("a list").clone();
    let word = |item: &Value, key: &str| item[key].as_str().unwrap_or_default().to_owned();
    for item in &items {
        let [level, topic, printed] = ["level", "topic", "text"].map(|key| word(item, key));
        let found = text.stdout.lines().any(|line| {
            line.split_whitespace().next().is_some_and(|sign| level.starts_with(sign))
                && line.contains(printed.lines().next().unwrap_or_default())
        });
        // Processes come and go between two calls.
        assert!(found || topic == "processes", "{item} is not in\n{}", text.stdout);
        assert!(matches!(level.as_str(), "ok" | "warning" | "failure"), "{item}");
        assert!(level == "ok" || !word(item, "remedy").is_empty(), "no remedy: {item}");
    }
    (text.code, text.stdout)
}

/// Whether a line of this level says this.
fn says(printed: &str, level: &str, text: &str) -> bool {
    printed.lines().any(|line| line.trim_start().starts_with(level) && line.contains(text))
}

fn all(namespace: &Namespace) -> String {
    let legacy = namespace.run(|| std::fs::read_to_string("/proc/thread-self/net/ip_tables_names"));
    state(namespace)
        + &namespace.stdout("nft", &["list", "ruleset"])
        + &legacy.expect("legacy tables are known")
}

#[test]
fn a_fresh_namespace_is_fine() {
    let (code, printed) = findings(&Namespace::new(), &POD);
    assert_eq!(code, Some(0), "{printed}");
    for text in [
        "not the machine's own",
        "CAP_NET_ADMIN is held",
        "CAP_NET_RAW is held",
        "iptables-legacy 1.",
        "iptables-nft 1.",
        "has all matches and targets",
        "none set by sidecar-init",
        "enabled",
    ] {
        assert!(says(&printed, "ok", text), "{text:?} is not in\n{printed}");
    }
}

/// Ours, upstream's, upstream's native mode, or no difference.
#[test]
fn who_made_what_is_named() {
    let tproxy = &["--dual-stack", "-m", "TPROXY", "-b", "*", "-i", "*", "-c", "eth5"];
    let flags: &[&str] = &[&["--pod-ips", "10.77.0.2,fd77::2"], &tproxy[..]].concat();
    for variant in VARIANTS {
        let namespace = Namespace::new();
        upstream::set(&namespace, variant, flags);
        let (_, printed) = findings(&namespace, &POD);
        let line = printed.lines().find(|line| line.contains("made by istio-iptables: ")).expect(&printed);
        assert!(
            line.contains("IPv4 (iptables-") && line.contains("IPv6") && line.contains(variant.name()),
            "{printed}"
        );
        for object in ["policy rule fwmark 1337 lookup 133", "address ::6/128 on lo"] {
            assert!(says(&printed, "warn", &format!("made by istio-iptables: {object}")), "{printed}");
        }
        succeed(&namespace, &[&["apply"], flags].concat());
        let (_, printed) = findings(&namespace, &POD);
        assert!(
            says(&printed, "ok", "set by sidecar-init: ") && !printed.contains("istio-iptables"),
            "{printed}"
        );
    }
    let namespace = Namespace::new();
    succeed(&namespace, &call("apply", Variant::Nft, REDIRECT));
    let (_, printed) = findings(&namespace, &POD);
    assert!(says(&printed, "ok", "or by istio-iptables, which writes the same"), "{printed}");
    let namespace = Namespace::new();
    upstream::set_native(&namespace);
    let (_, printed) = findings(&namespace, &POD);
    let tables = "native mode: tables of nf_tables istio-proxy-mangle, istio-proxy-nat";
    assert!(says(&printed, "warn", tables), "{printed}");
    assert!(says(&printed, "warn", "made by istio-iptables: address ::6/128 on lo"), "{printed}");
}

#[test]
fn missing_rights_are_named() {
    let namespace = Namespace::new();
    succeed(&namespace, &call("apply", Variant::Nft, REDIRECT));
    for format in ["text", "json"] {
        let printed = powerless(&namespace, &[&["doctor", "--format", format][..], &POD].concat())
            .with(1, "doctor")
            .stdout;
        assert!(
            printed.contains("CAP_NET_ADMIN is not held")
                && printed.contains("capabilities.add: [NET_ADMIN]"),
            "{printed}"
        );
        assert!(printed.contains("CAP_NET_RAW is not held"), "{printed}");
        assert!(!printed.contains("modprobe"), "no module is missing: {printed}");
        assert!(!printed.contains("none set by sidecar-init"), "it can't know that: {printed}");
    }
}

/// Other commands name the right as well, and touch nothing.
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

#[test]
fn a_stranger_who_runs_as_the_proxy_is_named() {
    let namespace = Namespace::new();
    let one = sleeper(&namespace, "1337");
    let (_, printed) = findings(&namespace, &POD);
    let line = format!("sleep (process {}) runs as user 1337", one.id());
    assert!(says(&printed, "warn", &line), "{line:?} is not in\n{printed}");
    // With another proxy, somebody else is the stranger.
    let other = sleeper(&namespace, "4711");
    let (_, printed) = findings(&namespace, &[&POD[..], &["-u", "4711"]].concat());
    assert!(
        says(&printed, "warn", &format!("sleep (process {}) runs as user 4711", other.id())),
        "{printed}"
    );
    assert!(!printed.contains(&line), "{printed}");
    // Processes of other namespaces are no concern.
    let (_, printed) = findings(&Namespace::new(), &POD);
    assert!(!printed.contains(&format!("process {}", one.id())), "{printed}");
}

/// Whoever may not see where others are says so.
#[test]
fn a_stranger_of_whom_nobody_knows_where_is_named() {
    let namespace = Namespace::new();
    let sleeper = sleeper(&namespace, "1337");
    let printed = powerless(&namespace, &[&["doctor"][..], &POD].concat()).stdout;
    let line = format!("sleep (process {}) runs as user 1337; whether in this", sleeper.id());
    assert!(says(&printed, "warn", &line), "{line:?} is not in\n{printed}");
}

/// Tables that no program can read may hold anything.
#[test]
fn rules_that_can_not_be_read_are_not_none() {
    for variant in VARIANTS {
        let namespace = Namespace::new();
        succeed(&namespace, &call("apply", variant, REDIRECT));
        let mut command = binary(&[&["doctor"][..], &POD].concat());
        let ended = namespace.outcome(command.env("PATH", "/nowhere")).with(1, "doctor without programs");
        let line = format!(
            "IPv4 tables of iptables-{} are there, and no program on PATH to read them",
            variant.name()
        );
        assert!(says(&ended.stdout, "fail", &line), "{line:?} is not in\n{}", ended.stdout);
        assert!(!ended.stdout.contains("none set by sidecar-init"), "{}", ended.stdout);
    }
}

/// A program that is there and does not work is not taken for one that is not there without a word.
#[test]
fn a_program_that_does_not_answer_is_named() {
    let folder = crate::support::folder::Folder::new("doctor-broken");
    for (name, says) in [
        ("iptables", "echo it does not load >&2; exit 127"),
        ("iptables-save", "exit 127"),
        ("iptables-restore", "exit 127"),
    ] {
        crate::support::program::script(folder.join(name), format!("#!/bin/sh\n{says}\n"));
    }
    let namespace = Namespace::new();
    for (arguments, code) in [(call("istio-iptables", Variant::Native, REDIRECT), 0), (vec!["doctor"], 0)] {
        let arguments: Vec<&str> =
            arguments.into_iter().filter(|word| *word != "--native-nftables").collect();
        let arguments = if arguments == ["doctor"] { [&["doctor"][..], &POD].concat() } else { arguments };
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
                let ended = ended.with(if comes_first { 3 } else { 0 }, script);
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
        succeed(&namespace, &call("diff", Variant::Native, REDIRECT));
    }
}

#[test]
fn foreign_rules_that_drop_are_named_and_our_own_table_is_not_foreign() {
    let namespace = Namespace::new();
    let flags = [&POD[..], &["--native-nftables"]].concat();
    succeed(&namespace, &[&["apply"], &flags[..]].concat());
    let (_, printed) = findings(&namespace, &POD);
    assert!(!printed.contains("sidecar_init"), "{printed}");
    // Somebody else's table of this name is of another family.
    let script = "table ip sidecar_init { chain early { type nat hook output priority -110; tcp dport 1 redirect to :9; }; }
    table ip6 wall { chain in { type filter hook input priority 0; policy drop; }; }
    table inet gate { chain out { type filter hook output priority 5; jump shut; }; chain shut { tcp dport 25 reject; }; }
    table inet open { chain out { type filter hook output priority 5; tcp dport 25 accept; }; }";
    namespace.load(script);
    let drop = "*filter\n-A INPUT -p tcp -m tcp --dport 23 -j DROP\nCOMMIT\n";
    namespace.restore(Variant::Nft, Family::V4, drop);
    let (_, printed) = findings(&namespace, &POD);
    for line in [
        "chain early of table ip sidecar_init (priority -110) may send packets elsewhere",
        "chain in of table ip6 wall may drop packets: its policy, where no rule of it accepts",
        "chain out of table inet gate may drop packets: tcp dport 25 reject",
        "chain INPUT of table filter may drop packets: -p tcp -m tcp --dport 23 -j DROP",
    ] {
        assert!(says(&printed, "warn", line), "{line:?} is not in\n{printed}");
    }
    assert!(!printed.contains("inet open") && !printed.contains("inet sidecar_init"), "{printed}");
}

#[test]
fn ipv6_is_told_as_it_is() {
    for (scope, level, text) in
        [("all", "ok", "disabled in this namespace"), ("lo", "warn", "enabled, but not on lo")]
    {
        let namespace = Namespace::new();
        namespace.set(&format!("ipv6/conf/{scope}/disable_ipv6"), "1");
        let (_, printed) = findings(&namespace, &POD);
        assert!(says(&printed, level, text), "{text:?} is not in\n{printed}");
    }
    // `all` keeps its value when an interface is changed afterwards.
    let namespace = Namespace::new();
    namespace.set("ipv6/conf/all/disable_ipv6", "1");
    namespace.set("ipv6/conf/lo/disable_ipv6", "0");
    let (_, printed) = findings(&namespace, &POD);
    assert!(says(&printed, "ok", "enabled") && !printed.contains("disabled in"), "{printed}");
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

/// A process of some user's in a namespace.
fn sleeper(namespace: &Namespace, uid: &str) -> Running {
    let mut command = Command::new("setpriv");
    command.env("PATH", PATH).args(["--reuid", uid, "--clear-groups", "--", "sleep", "600"]);
    let sleeper = Running(namespace.run(|| command.stdin(Stdio::null()).spawn()).expect("setpriv starts"));
    let name = format!("/proc/{}/comm", sleeper.id());
    wait::until("setpriv starts sleep", || std::fs::read_to_string(&name).expect("it lives") == "sleep\n");
    sleeper
}

/// The variants that are there, in the order of preference, whatever the family.
#[test]
fn a_missing_variant_is_a_warning() {
    let namespace = Namespace::new();
    let folder = crate::support::folder::Folder::new("doctor-legacy");
    for action in ["", "-save", "-restore"] {
        let name = Variant::Legacy.program(Family::V4, action);
        let script = format!("#!/bin/sh\nexec /usr/sbin/{name} \"$@\"\n");
        crate::support::program::script(folder.join(&name), script);
    }
    let mut command = binary(&[&["doctor"][..], &POD].concat());
    let printed = namespace.outcome(command.env("PATH", format!("{}:/bin", folder.display()))).stdout;
    assert!(
        says(&printed, "warn", "for IPv4 only") && says(&printed, "warn", "iptables-nft is not on PATH"),
        "{printed}"
    );
}
