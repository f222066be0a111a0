//! No string in any setting becomes a rule that is not in the typed model. Settings get strings made to break out: line breaks,
//! options, quotes, negations. The configuration either refuses them, or the preview parses as exactly the intended rules.

use crate::support::scope;
use mesh::settings::{self, Setting};
use mesh::sources::{Host, Raw};
use mesh::{Capture, Mesh, Resolved, resolve};
use proptest::{collection::vec, prelude::*, sample::select, test_runner::TestCaseResult};
use rules::{Family, Gid, RuleSet, Uid, parse, render::iptables};
use std::{io, net::IpAddr};

/// A host with every user name, so no string is refused as an unknown user.
struct PermissiveHost;

impl Host for PermissiveHost {
    fn user(&self, _: &str) -> io::Result<Option<Uid>> {
        Ok(Uid::new(1000))
    }

    fn group(&self, _: &str) -> io::Result<Option<Gid>> {
        Ok(Gid::new(1000))
    }

    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        Ok(vec![[10, 1, 2, 3].into(), [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into()])
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        Ok(vec![[10, 0, 0, 53].into()])
    }
}

fn valid(setting: Setting) -> &'static str {
    match setting {
        Setting::EnvoyPort | Setting::InboundCapturePort | Setting::InboundTunnelPort => "16001",
        Setting::ProxyUid | Setting::ProxyGid | Setting::OwnerGroups | Setting::OwnerGroupsExclude => {
            "istio-proxy,4294967294"
        }
        Setting::InterceptionMode => "tproxy",
        Setting::InboundPorts
        | Setting::InboundPortsExclude
        | Setting::OutboundPorts
        | Setting::OutboundPortsExclude => "80,8000-9000",
        Setting::ExcludeInterfaces | Setting::VmInterfaces => "eth1,br+",
        Setting::ServiceCidr | Setting::ServiceExcludeCidr => "10.1.2.3/8,2001:db8::/32",
        Setting::TproxyMark | Setting::TproxyRouteTable => "0x10",
        Setting::LoopbackCidr => "127.0.0.0/8",
        Setting::Mesh => "istio",
        Setting::EnvoyUser => "istio-proxy",
        Setting::PodIps => "10.1.2.3,2001:db8::1",
        Setting::DnsServers => "10.0.0.53,2001:db8::53",
        _ => "true",
    }
}

fn settings() -> Vec<Setting> {
    use mesh::settings::Topic;
    let shaping =
        settings::of(Mesh::default()).filter(|row| matches!(row.topic, Topic::Capture | Topic::Facts));
    shaping.map(|row| row.setting).filter(|setting| *setting != Setting::IptablesVersion).collect()
}

/// Strings with a meaning for iptables, a shell or a list parser.
const TROUBLE: &[&str] = &[
    "\n",
    "\r\n",
    "\n-A OUTPUT -j ACCEPT",
    "\nCOMMIT\n* filter\n",
    " -j ACCEPT",
    "-j",
    "! ",
    "!",
    "\"",
    "'",
    "\\",
    "$(id)",
    "`id`",
    ";",
    "#",
    "*",
    ",",
    " ",
    "\t",
    "\0",
    "/",
    "+",
    "-",
    ":",
    "..",
    "\u{2028}",
    "\u{85}",
    "\u{a0}",
    "\u{feff}",
    "٣",
    "０",
    "é",
];

fn text(setting: Setting) -> impl Strategy<Value = String> {
    let trouble = || select(TROUBLE).prop_map(str::to_owned);
    let piece = prop_oneof![
        2 => Just(valid(setting).to_owned()),
        2 => trouble(),
        1 => any::<String>(),
        1 => "[0-9a-zA-Z.:/,+_@* -]{0,20}",
    ];
    let spoilt = (any::<prop::sample::Index>(), trouble()).prop_map(move |(at, piece)| {
        let mut text = valid(setting).to_owned();
        text.insert_str(at.index(text.len() + 1), &piece);
        text
    });
    prop_oneof![vec(piece, 0..4).prop_map(|pieces| pieces.concat()), spoilt]
}

/// A call: each setting is absent, valid or arbitrary.
fn call() -> impl Strategy<Value = Vec<(Setting, String)>> {
    let given = |setting: Setting| {
        prop_oneof![
            6 => Just(None),
            5 => Just(Some((setting, valid(setting).to_owned()))),
            1 => text(setting).prop_map(move |text| Some((setting, text))),
        ]
    };
    settings().into_iter().map(given).collect::<Vec<_>>().prop_map(|all| all.into_iter().flatten().collect())
}

fn resolved(flags: &[(Setting, String)]) -> Option<Resolved> {
    resolve(&Raw::new(flags.iter().cloned(), |_| true, |_| None), &PermissiveHost, Vec::new()).ok()
}

/// Checks that both formats of the preview have exactly the model's rules.
fn check(capture: &Capture) -> TestCaseResult {
    for family in Family::BOTH {
        let checked = capture.rules(family);
        let intended = text_order(checked.rules());
        let text = iptables::restore(&checked);
        prop_assert_eq!(parse::restore(&text, family), Ok(intended));
        let commands = iptables::commands(&checked);
        let in_tables = text.lines().filter(|line| !line.starts_with("* ") && *line != "COMMIT");
        let without_table = commands.lines().map(|line| line.splitn(4, ' ').nth(3).unwrap_or_default());
        prop_assert!(without_table.eq(in_tables), "{commands}");
        let harmless = |c: char| c.is_ascii_alphanumeric() || " \n!\"*+,-./:@_".contains(c);
        prop_assert!(text.chars().all(harmless), "{text}");
    }
    Ok(())
}

fn text_order(rules: &RuleSet) -> RuleSet {
    let mut rules = rules.clone();
    rules.statements.sort_by_key(|statement| statement.table.name());
    rules.statements.iter_mut().for_each(|statement| statement.origin = None);
    rules
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scope::runs(1500, 300)))]

    #[test]
    fn one_string_in_one_setting(
        (setting, text) in select(settings()).prop_flat_map(|setting| (Just(setting), text(setting))),
    ) {
        if let Some(resolved) = resolved(&[(setting, text)]) {
            check(&resolved.capture)?;
        }
    }

    #[test]
    fn strings_in_all_settings(flags in call()) {
        if let Some(resolved) = resolved(&flags) {
            check(&resolved.capture)?;
        }
    }
}

#[test]
fn valid_values_are_accepted_separately_and_together() {
    for setting in settings() {
        assert!(resolved(&[(setting, valid(setting).to_owned())]).is_some(), "{setting:?}");
    }
    let all: Vec<_> = settings().into_iter().map(|setting| (setting, valid(setting).to_owned())).collect();
    let all = resolved(&all).expect("all values together");
    check(&all.capture).expect("the preview reads back");
}

#[test]
fn no_setting_takes_a_second_line() {
    for setting in
        settings::of(Mesh::default()).filter(|row| !row.topic.is_of_one_command()).map(|row| row.setting)
    {
        for tail in ["\n", "\n-A OUTPUT -j ACCEPT", "\r", "\0", "\u{1b}", "\u{85}"] {
            let text = format!("{}{tail}", valid(setting));
            assert!(resolved(&[(setting, text.clone())]).is_none(), "{setting:?} takes {text:?}");
        }
    }
}
