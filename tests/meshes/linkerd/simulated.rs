//! What a simulation tells: upstream's commands in upstream's log lines, without any right.

use crate::meshes::linkerd::call;
use crate::meshes::linkerd::upstream::Configuration;
use crate::support::random::Random;

const BASE: [&str; 6] = ["linkerd-init", "--simulate", "-p", "4143", "-o", "4140"];

/// The messages of a simulation, without the folders of the programs.
fn printed(words: &[&str]) -> Vec<String> {
    let ended = call(None, words).with(0, "linkerd");
    let message = |line: &str| {
        let rest = line.strip_prefix("time=\"").unwrap_or_else(|| panic!("{line}"));
        let (time, rest) = rest.split_once("\" level=info msg=\"").unwrap_or_else(|| panic!("{line}"));
        assert!(time.len() == 20 && time.ends_with('Z') && time.contains('T'), "{time}");
        let text = rest.strip_suffix('"').expect("a quote");
        let (program, arguments) = text.split_once(' ').expect("arguments");
        format!("{} {arguments}", program.rsplit('/').next().expect("a name"))
    };
    ended.stdout.lines().map(message).collect()
}

#[test]
fn each_family_has_upstreams_commands_between_two_looks() {
    let mut random = Random::new(7);
    for _ in 0..40 {
        let configuration = Configuration { subnets: Vec::new(), ..Configuration::random(&mut random) };
        let flags = configuration.flags();
        let words: Vec<&str> = ["linkerd-init", "--simulate", "--firewall-bin-path=iptables-nft"]
            .into_iter()
            .chain(flags.iter().map(String::as_str))
            .collect();
        let families =
            if configuration.v6 { &["iptables-nft", "ip6tables-nft"][..] } else { &["iptables-nft"] };
        let expected = families.iter().flat_map(|program| {
            let save = format!("{program}-save -t nat");
            let commands =
                configuration.commands().into_iter().map(move |words| format!("{program} {words}"));
            [save.clone()].into_iter().chain(commands.collect::<Vec<_>>()).chain([save])
        });
        assert_eq!(printed(&words), expected.collect::<Vec<_>>(), "{flags:?}");
    }
}

#[test]
fn programs_are_those_that_are_named() {
    let check = |words: &[&str], expected: &str| {
        let printed = printed(&[&BASE[..], &["--ipv6=false"], words].concat());
        assert_eq!(printed[0], format!("{expected}-save -t nat"), "{words:?}");
        assert_eq!(printed[1], format!("{expected} -t nat -N PROXY_INIT_REDIRECT"), "{words:?}");
    };
    check(&[], "iptables-legacy");
    check(&["--iptables-mode="], "iptables-legacy");
    check(&["--iptables-mode=nft"], "iptables-nft");
    check(&["--iptables-mode=plain"], "iptables");
    check(&["--firewall-bin-path=iptables"], "iptables");
    check(
        &["--firewall-bin-path=iptables-nft", "--firewall-save-bin-path=iptables-nft-save"],
        "iptables-nft",
    );
    // The mode wins.
    check(&["--firewall-bin-path=iptables-nft", "--iptables-mode=legacy"], "iptables-legacy");
}

#[test]
fn waiting_and_another_namespace_are_said_as_upstream_says_them() {
    let printed =
        printed(&[&BASE[..], &["-w", "--ipv6=false", "--netns", "/nowhere", "--iptables-mode=nft"]].concat());
    assert_eq!(printed[0], "nsenter --net=/nowhere -- iptables-nft-save -t nat");
    assert_eq!(printed[1], "nsenter --net=/nowhere -- iptables-nft -t nat -N PROXY_INIT_REDIRECT -w");
    assert!(printed[1..printed.len() - 1].iter().all(|line| line.ends_with(" -w")), "{printed:?}");
}

#[test]
fn json_holds_the_same() {
    let ended = call(None, &[&BASE[..], &["--log-format=json", "--ipv6=false"]].concat()).with(0, "linkerd");
    let lines = ended.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let lines: Vec<serde_json::Value> = lines.collect();
    assert!(lines.iter().all(|line| line["level"] == "info" && line["time"].is_string()), "{lines:?}");
    let message = lines[0]["msg"].as_str().expect("a text");
    assert!(message.ends_with("iptables-legacy-save -t nat"), "{message}");
    assert_eq!(lines.len(), 9);
}

#[test]
fn a_level_hides_no_simulation() {
    let ended = call(None, &[&BASE[..], &["--log-level=error"]].concat()).with(0, "linkerd");
    assert_eq!((ended.stdout.lines().count(), ended.stderr.as_str()), (18, ""));
}
