//! What is refused, flag by flag: named, with the value and what would be right, all at once, and nothing touched.

use crate::meshes::kuma::drop_in::call;
use crate::support::flags;
use crate::support::namespace::Namespace;
use mesh::Mesh;
use mesh::kuma::Kuma;
use mesh::settings::{SettingKind, SettingRow, Topic};

/// A value that each flag refuses; `None` for what takes any text.
fn bad(row: &SettingRow) -> Option<&'static str> {
    match row.setting {
        _ if row.kind == SettingKind::Switch => Some("maybe"),
        Kuma::ProxyUser | Kuma::DpUid => Some("nobody-is-called-so"),
        Kuma::IpFamilyMode => Some("ipv6"),
        Kuma::InboundPort | Kuma::OutboundPort | Kuma::DnsPort => Some("0"),
        Kuma::InboundPortsInclude
        | Kuma::OutboundPortsInclude
        | Kuma::InboundPortsExclude
        | Kuma::OutboundPortsExclude => Some("80,http"),
        Kuma::InboundIpsExclude | Kuma::OutboundIpsExclude => Some("10.0.0.0/33"),
        Kuma::OutboundPortsForUids => Some("tcp:80:"),
        Kuma::InboundPortsForUids => Some("7"),
        Kuma::ResolvConf => Some("/is/not/there"),
        Kuma::Vnet => Some("br0"),
        Kuma::LogLevel => Some("8"),
        Kuma::Verb => Some("inspect"),
        Kuma::Component => Some("control-plane"),
        Kuma::Config | Kuma::ConfigFile => Some("/is/not/there.yaml"),
        Kuma::LockWait | Kuma::LockWaitInterval | Kuma::MaxRetries => Some("-1"),
        Kuma::RetrySleep => Some("2 seconds"),
        Kuma::Executables => Some("iptables:/is/not/there"),
        _ => None,
    }
}

fn rows() -> impl Iterator<Item = &'static SettingRow> {
    Mesh::Kuma.settings().iter().filter(|row| matches!(row.topic, Topic::Capture | Topic::DropIn))
}

/// What the flags refuse that Kuma's table does not hold. Those without effect take any text.
const OTHERS: [(&str, &str); 17] = [
    ("pod-ips", "x"),
    ("dns-servers", "x"),
    ("iptables-version", "x"),
    ("network-namespace", "/is/not/there"),
    ("backend", "x"),
    ("timeout", "soon"),
    ("native-nftables", "maybe"),
    ("log_output_level", "loud"),
    ("log_as_json", "maybe"),
    ("log_target", "/is/not/there"),
    ("log_caller", "a\nb"),
    ("log_stacktrace_level", "a\nb"),
    ("log_rotate", "a\nb"),
    ("log_rotate_max_age", "a\nb"),
    ("log_rotate_max_backups", "a\nb"),
    ("log_rotate_max_size", "a\nb"),
    ("vklog", "a\nb"),
];

#[test]
fn no_flag_is_left_out() {
    let help = call(&Namespace::new(), &["--help-all"], &[]);
    let taken = flags::listed(&help.stdout);
    assert!(taken.len() >= 50, "{taken:?}");
    for (flag, _) in taken {
        let is_tried = rows().any(|row| row.long == flag) || OTHERS.iter().any(|(tried, _)| *tried == flag);
        assert!(is_tried, "--{flag} refuses nothing");
    }
}

#[test]
fn other_flags_refuse_what_they_can_not_mean() {
    let namespace = Namespace::new();
    for (flag, bad) in OTHERS {
        let word = format!("--{flag}={bad}");
        let ended = call(&namespace, &["install", "transparent-proxy", &word], &[]);
        assert_eq!(ended.code, Some(1), "{word:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("nothing was changed"), "{word:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(&format!("\n  --{flag}: \"")), "{word:?}: {}", ended.stderr);
    }
    assert_eq!(namespace.stdout("nft", &["list", "ruleset"]), "");
}

#[test]
fn every_flag_refuses_what_it_can_not_mean() {
    let namespace = Namespace::new();
    for row in rows() {
        let bad = bad(row).unwrap_or_else(|| panic!("no bad value is known for {}", row.name()));
        let given = match row.long {
            "" => row.variables[0].to_owned(),
            long => format!("--{long}"),
        };
        let flag = format!("{given}={bad}");
        let mut words: Vec<&str> = match row.setting {
            Kuma::Verb => vec![bad, "transparent-proxy"],
            Kuma::Component => vec!["install", bad],
            _ => vec!["install", "transparent-proxy"],
        };
        let is_word = matches!(row.setting, Kuma::Verb | Kuma::Component);
        words.extend((!row.long.is_empty() && !is_word).then_some(flag.as_str()));
        // Only where servers are asked for is anybody asked for a file of them.
        words.extend((row.setting == Kuma::ResolvConf).then_some("--redirect-dns"));
        let variables =
            row.long.is_empty().then_some((row.variables.first().copied().unwrap_or_default(), bad));
        let ended = call(&namespace, &words, variables.as_slice());
        assert_eq!(ended.code, Some(1), "{words:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("nothing was changed"), "{words:?}: {}", ended.stderr);
        let printed = ended.stderr.lines().any(|line| line.trim_start().starts_with(&format!("{given}: \"")));
        assert!(printed && ended.stdout.is_empty(), "{words:?}: {}", ended.stderr);
    }
    let rules = namespace.stdout("nft", &["list", "ruleset"]);
    assert_eq!(rules, "");
}

#[test]
fn every_variable_is_read_and_refused_by_its_name() {
    let namespace = Namespace::new();
    let variables: Vec<(&str, &str)> = rows()
        .filter(|row| row.setting != Kuma::ResolvConf)
        .filter_map(|row| Some((*row.variables.first()?, bad(row)?)))
        .collect();
    let ended = call(&namespace, &["install", "transparent-proxy"], &variables);
    assert_eq!(ended.code, Some(1));
    for (name, _) in variables {
        assert!(ended.stderr.contains(&format!("\n  {name}: \"")), "{name}: {}", ended.stderr);
    }
}

#[test]
fn what_to_do_has_to_be_said() {
    let namespace = Namespace::new();
    for (words, printed) in [
        (
            &[][..],
            "kuma-init: names no action; expected install transparent-proxy or uninstall transparent-proxy",
        ),
        (
            &["install"],
            "kuma-init: names no action; expected install transparent-proxy or uninstall transparent-proxy",
        ),
        (&["install", "transparent-proxy", "now"], "argument: \"now\" is not expected"),
        (
            &["install", "transparent-proxy", "--", "--dry-run"],
            "argument: \"--dry-run\" is not expected; values of switches are written --dry-run=false",
        ),
        (&["install", "transparent-proxy", "--version"], "unknown flag --version"),
        (
            &["install", "transparent-proxy", "--redirect-dns", "--redirect-all-dns-traffic"],
            "--redirect-all-dns-traffic: \"true\" contradicts --redirect-dns",
        ),
        (&["install", "transparent-proxy", "--ebpf-enabled"], "--ebpf-enabled: \"true\" asks for eBPF"),
        (
            &["install", "transparent-proxy", "--iptables-executables", "iptables:/bin/sh"],
            "names some programs of iptables and not all",
        ),
        (
            &[
                "install",
                "transparent-proxy",
                "--iptables-executables",
                "iptables:/bin/false,iptables-save:/bin/false,iptables-restore:/bin/false",
            ],
            "names a program that does not report its version: /bin/false --version failed",
        ),
    ] {
        let ended = call(&namespace, words, &[]);
        assert_eq!(ended.code, Some(1), "{words:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(printed), "{words:?}: {}", ended.stderr);
    }
}

#[test]
fn what_was_captured_keeps_nobody_from_uninstalling() {
    let gone = [("KUMA_TRANSPARENT_PROXY_KUMA_DP_USER", "nobody-is-called-so")];
    let ended = call(&Namespace::new(), &["uninstall", "transparent-proxy"], &gone);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn a_faulty_file_is_told_key_by_key() {
    let folder = std::env::temp_dir().join(format!("sidecar-init-kuma-faulty-{}.yaml", std::process::id()));
    std::fs::write(&folder, "redirect: {inbound: {port: x, prot: 1}}\nkumaDPUser: [1]\n").expect("a file");
    let path = folder.to_str().expect("UTF-8");
    let ended = call(&Namespace::new(), &["install", "transparent-proxy", "--config", path, "--vnet=x"], &[]);
    std::fs::remove_file(&folder).expect("it was there");
    assert_eq!(ended.code, Some(1));
    for printed in [
        format!("{path}: kumaDPUser: is a list or a mapping; expected a single value"),
        format!("{path}: redirect.inbound.prot: unknown key; did you mean redirect.inbound.port?"),
        format!("{path}: redirect.inbound.port: \"x\" is not a port; expected a number from 1 to 65535"),
        "--vnet: \"x\" has no colon".to_owned(),
    ] {
        assert!(ended.stderr.contains(&printed), "no {printed:?} in {}", ended.stderr);
    }
}
