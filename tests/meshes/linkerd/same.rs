//! Upstream's commands, run by real programs, and the tool give equal listings. A simulation prints the commands.

use crate::meshes::linkerd::upstream::Configuration;
use crate::meshes::linkerd::{Namespace, call, listed};
use crate::support::random::{Random, number};
use crate::support::rows::rows;
use crate::support::scope;
use rules::Family;

fn programs(variant: &str, v6: bool) -> Vec<(Family, String)> {
    let mut programs = vec![(Family::V4, format!("iptables-{variant}"))];
    programs.extend(v6.then(|| (Family::V6, format!("ip6tables-{variant}"))));
    programs
}

/// A namespace with upstream's rules, with networks only for their family, as the other family's program would refuse them.
fn by_upstream(configuration: &Configuration, variant: &str) -> Namespace {
    let pod = Namespace::new();
    for (family, program) in programs(variant, configuration.v6) {
        let subnets = match (family, configuration.v6) {
            (Family::V4, true) => Vec::new(),
            _ => configuration.subnets.clone(),
        };
        let own = Configuration { subnets, ..configuration.clone() };
        let script: Vec<String> =
            own.commands().iter().map(|arguments| format!("{program} {arguments}\n")).collect();
        pod.stdout("sh", &["-ec", &script.concat()]);
    }
    pod
}

fn check(variant: &str) {
    let seed: u64 = number("LINKERD_SEED", 1);
    for turn in scope::of((0..number("LINKERD_PAIRS", 300) / 2).collect(), 10) {
        let mut random = Random::new(seed ^ u64::from(variant == "nft") << 32 ^ turn << 33);
        let configuration = Configuration::random(&mut random);
        let flags = configuration.flags();
        let theirs = by_upstream(&configuration, variant);
        let ours = Namespace::new();
        let words: Vec<&str> = ["linkerd-init", "--iptables-mode", variant]
            .into_iter()
            .chain(flags.iter().map(String::as_str))
            .collect();
        call(Some(&ours), &words).with(0, "linkerd");
        let again = call(Some(&theirs), &words).with(0, "linkerd");
        assert!(again.stderr.contains("changed=false"), "seed {seed}: {flags:?}\n{}", again.stderr);
        for (_, program) in programs(variant, configuration.v6) {
            let expected = listed(&theirs, &program);
            assert_eq!(sorted(&listed(&ours, &program)), sorted(&expected), "seed {seed}: {flags:?}");
        }
    }
}

/// A listing with its chains sorted by name: legacy programs list them in order of creation. Rules keep their order.
fn sorted(lines: &[String]) -> Vec<String> {
    let (mut lines, chain) = (lines.to_vec(), |line: &String| {
        let mut words = line.split(' ');
        let first = words.next().unwrap_or_default().to_owned();
        match first.as_str() {
            "-A" => (1, words.next().unwrap_or_default().to_owned()),
            "COMMIT" => (2, String::new()),
            _ => (0, first),
        }
    });
    lines.sort_by_key(chain);
    lines
}

rows! {
    legacy_rules_are_upstreams_letter_for_letter: check("legacy");
    nft_rules_are_upstreams_letter_for_letter: check("nft");
}

fn simulated(flags: &[String]) -> Vec<String> {
    let flags = flags.iter().map(String::as_str);
    let words = ["linkerd-init", "--simulate", "--firewall-bin-path=iptables-nft"].into_iter().chain(flags);
    let message = |line: &str| {
        let (_, text) = line.split_once("\" level=info msg=\"").unwrap_or_else(|| panic!("{line}"));
        let (program, arguments) = text.trim_end_matches('"').split_once(' ').expect("arguments");
        format!("{} {arguments}", program.rsplit('/').next().expect("a name"))
    };
    call(None, &words.collect::<Vec<_>>()).with(0, "linkerd").stdout.lines().map(message).collect()
}

#[test]
fn simulation_prints_upstream_commands_between_two_listings() {
    let mut random = Random::new(7);
    for _ in 0..40 {
        let configuration = Configuration { subnets: Vec::new(), ..Configuration::random(&mut random) };
        let expected = programs("nft", configuration.v6).into_iter().flat_map(|(_, program)| {
            let save = format!("{program}-save -t nat");
            let commands = configuration.commands().into_iter().map(|words| format!("{program} {words}"));
            [save.clone()].into_iter().chain(commands.collect::<Vec<_>>()).chain([save])
        });
        let flags = configuration.flags();
        assert_eq!(simulated(&flags), expected.collect::<Vec<_>>(), "{flags:?}");
    }
}
