//! What a preview prints besides the texts of the catalogue: commands, log rules, nothing.

use super::{Preview, preview, rules};
use crate::support::program::{BINARY, Outcome};
use mesh::istio::OWNERSHIP;
use rules::{Family, ListedRule, State, Table, Target, parse};
use std::process::{Command, Stdio};

/// A preview of IPv4 without its header.
fn v4(text: &str) -> &str {
    text.strip_prefix("# iptables-restore\n").expect("the header")
}

fn state(text: &str) -> State {
    State::of(&parse::restore(v4(text), Family::V4).expect("a preview"))
}

#[test]
fn commands_say_what_the_restore_text_says() {
    let flags = ["-m", "TPROXY", "-b", "*", "-i", "*", "-k", "vnet0", "--dual-stack", "--drop-invalid"];
    let pod = ["--pod-ips", "10.1.2.3,2001:db8::1"];
    let text = rules(&[&flags[..], &pod].concat());
    let ended = preview::<_, &str>(&[&flags[..], &pod, &["--restore-format=false"]].concat(), &[]);
    let (mut program, mut table, mut expected) = ("", "", Vec::new());
    for line in text.lines() {
        match line.split_once(' ') {
            Some(("#", header)) => program = header.strip_suffix("-restore").expect("a program"),
            Some(("*", name)) => table = name,
            Some(_) => expected.push(format!("{program} -t {table} {line}")),
            None => assert_eq!(line, "COMMIT"),
        }
    }
    assert_eq!(ended.code, Some(0));
    assert_eq!(ended.stdout.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn nothing_is_captured_in_mode_none() {
    let flags = ["-m", "none", "-b", "*", "-i", "*", "--redirect-dns", "--capture-all-dns", "-k", "vnet0"];
    assert_eq!(rules(&flags), "# iptables-restore\n");
    let ended = preview::<_, &str>(&[&flags[..], &["--pod-ips", "2001:db8::1"]].concat(), &[]);
    assert_eq!((ended.rules(), ended.stderr.as_str()), ("# iptables-restore\n# ip6tables-restore\n", ""));
    let commands = preview::<_, &str>(&[&flags[..], &["-f=false"]].concat(), &[]);
    assert_eq!((commands.code, commands.stdout.as_str()), (Some(0), ""));
}

const TRACED: &[&[&str]] = &[
    &[],
    &["-b", "*", "-d", "15090,15021", "-i", "*", "-x", "10.0.0.0/8", "-c", "eth1", "-k", "vnet0,vnet1"],
    &["-m", "TPROXY", "-b", "80,443", "-i", "10.0.0.0/8", "-k", "vnet0", "-c", "eth1", "--drop-invalid"],
    &["--redirect-dns", "--capture-all-dns", "-o", "1-2,5", "-q", "9000"],
];

#[test]
fn with_log_rules_each_chain_is_the_same_but_for_them() {
    for flags in TRACED {
        let plain = state(&rules(flags));
        let traced = state(&rules(&[flags, &["--iptables-trace-logging"][..]].concat()));
        for table in Table::ALL {
            for (chain, lines) in plain.chains(table) {
                let logs = |line: &&ListedRule| matches!(line, ListedRule::Typed(r) if matches!(r.target, Target::Nflog { .. }));
                let kept: Vec<&ListedRule> =
                    traced.lines(table, chain).iter().filter(|line| !logs(line)).collect();
                assert_eq!(kept, lines.lines.iter().collect::<Vec<_>>(), "{flags:?} {table} {chain}");
            }
            assert!(plain.chains(table).map(|c| c.0).eq(traced.chains(table).map(|c| c.0)), "{table}");
        }
    }
}

#[test]
fn each_rule_has_its_log_rule_right_before_it() {
    for flags in TRACED {
        let traced = state(&rules(&[flags, &["--iptables-trace-logging"][..]].concat()));
        for (chain, lines) in Table::ALL.into_iter().flat_map(|table| traced.chains(table)) {
            let lines: Vec<String> = lines.lines.iter().map(|l| rules_text(chain, l)).collect();
            for pair in lines.chunks(2) {
                let [log, rule] = pair else { panic!("{chain} has a rule without its log rule: {lines:#?}") };
                let (matches, target) = log.split_once("-j ").expect("a target");
                assert!(target.starts_with("NFLOG --nflog-prefix \""), "{log}");
                assert!(target.ends_with("\" --nflog-group 1337"), "{log}");
                assert_eq!(
                    OWNERSHIP.owns_chain(chain),
                    !matches.contains("--comment \"sidecar-init\""),
                    "{log}"
                );
                let plain = |text: &str| text.replace("-m comment --comment \"sidecar-init\" ", "");
                assert_eq!(plain(matches), plain(rule.split_once("-j ").expect("a target").0), "{chain}");
            }
        }
    }
}

fn rules_text(chain: &rules::Chain, line: &ListedRule) -> String {
    rules::render::iptables::appended(chain, line)
}

#[test]
fn whoever_has_read_enough_is_no_failure() {
    let mut child = Command::new(BINARY)
        .args(["explain", "--pod-ips", "10.1.2.3", "-i", "*", "-b", "*", "--matrix"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program");
    drop(child.stdout.take());
    let output = Outcome::from(child.wait_with_output().expect("it ends"));
    assert_eq!(output.success().stderr, "");
}
