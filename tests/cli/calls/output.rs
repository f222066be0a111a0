//! What a preview prints besides the texts of the catalogue: log rules, and as much as is read.

use super::{preview, rules};
use crate::support::program::{BINARY, Outcome};
use mesh::istio::OWNERSHIP;
use rules::render::iptables::appended;
use rules::{Family, State, Table, parse};
use std::process::{Command, Stdio};

fn state(text: &str) -> State {
    let text = text.strip_prefix("# iptables-restore\n").expect("the header");
    State::of(&parse::restore(text, Family::V4).expect("a preview"))
}

const TRACED: &[&[&str]] = &[
    &[],
    &["-b", "*", "-d", "15090,15021", "-i", "*", "-x", "10.0.0.0/8", "-c", "eth1", "-k", "vnet0,vnet1"],
    &["-m", "TPROXY", "-b", "80,443", "-i", "10.0.0.0/8", "-k", "vnet0", "-c", "eth1", "--drop-invalid"],
    &["--redirect-dns", "--capture-all-dns", "-o", "1-2,5", "-q", "9000"],
];

#[test]
fn each_rule_has_its_log_rule_right_before_it() {
    for flags in TRACED {
        let traced = state(&rules(&[flags, &["--iptables-trace-logging"][..]].concat()));
        let mut without = Vec::new();
        for (chain, lines) in Table::ALL.into_iter().flat_map(|table| traced.chains(table)) {
            let lines: Vec<String> = lines.lines.iter().map(|line| appended(chain, line)).collect();
            without.extend(lines.iter().skip(1).step_by(2).cloned());
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
        let plain = state(&rules(flags));
        let chains = Table::ALL.into_iter().flat_map(|table| plain.chains(table));
        let lines = chains.flat_map(|(chain, lines)| lines.lines.iter().map(|line| appended(chain, line)));
        assert_eq!(without, lines.collect::<Vec<_>>(), "{flags:?}");
    }
}

#[test]
fn whoever_has_read_enough_is_no_failure() {
    let mut child = Command::new(BINARY)
        .args(["explain", "--pod-ips", "10.1.2.3", "-i", "*", "-b", "*"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program");
    drop(child.stdout.take());
    let output = Outcome::from(child.wait_with_output().expect("it ends"));
    assert_eq!(output.success().stderr, "");
}

#[test]
fn without_the_format_of_restore_a_preview_is_commands() {
    let text = preview::<_, &str>(&["-b", "*", "--restore-format=false"], &[]).success().stdout;
    assert!(!text.is_empty() && text.lines().all(|line| line.starts_with("iptables -t ")), "{text}");
}
