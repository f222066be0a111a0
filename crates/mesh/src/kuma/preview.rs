//! The rules as text in upstream's form, as its dry run prints them, for comparison.
//!
//! The words of a rule are in upstream's order and spelling: `-m udp -p udp`, `-m multiport -p tcp --dport`, single
//! addresses without a prefix length.

use super::defaults::{PASSTHROUGH_V4, PASSTHROUGH_V6};
use rules::{Chain, Checked, Cidr, Family, Match, Negatable, Position, Protocol, Statement, Table, Target};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The order in which upstream writes tables.
const TABLES: [Table; 3] = [Table::Raw, Table::Nat, Table::Mangle];

/// The rules of the families, each under its heading, as text that its restore program takes.
pub fn dry_run<'a>(rules: impl IntoIterator<Item = &'a Checked>, verbose: bool) -> String {
    let of_family = |rules: &Checked| {
        let name = match rules.rules().family {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        };
        format!("### {name} ###\n\n{}", restore(rules, verbose))
    };
    rules.into_iter().map(of_family).collect::<Vec<_>>().join("\n")
}

/// The rules of a family. `verbose` is for long options, and for headings.
pub fn restore(rules: &Checked, verbose: bool) -> String {
    let words = OptionSpelling { verbose };
    let mut text = Vec::new();
    for table in TABLES {
        if rules.rules().of_table(table).next().is_none() {
            continue;
        }
        text.push(format!("* {table}"));
        let chains = rules.rules().user_chains(table);
        if verbose && !chains.is_empty() {
            text.push("# chains".to_owned());
        }
        text.extend(chains.iter().map(|chain| format!("{} {chain}", words.pick("-N", "--new-chain"))));
        let mut heading = None;
        for statement in rules.rules().of_table(table) {
            if verbose && heading != Some(&statement.chain) {
                text.push(format!("# rules of {}", statement.chain));
                heading = Some(&statement.chain);
            }
            text.push(words.statement(statement));
        }
        text.push("COMMIT".to_owned());
    }
    text.iter().map(|line| format!("{line}\n")).collect()
}

/// Options in short, or in full.
#[derive(Clone, Copy)]
struct OptionSpelling {
    verbose: bool,
}

impl OptionSpelling {
    fn pick(self, short: &'static str, long: &'static str) -> &'static str {
        if self.verbose { long } else { short }
    }

    fn statement(self, statement: &Statement) -> String {
        let Statement { chain, position, rule, .. } = statement;
        let mut words = vec![self.place(chain, *position)];
        for (at, matched) in rule.matches.iter().enumerate() {
            let next = rule.matches.get(at + 1);
            words.push(self.matched(matched, next, &rule.matches[..at]));
        }
        words.push(self.target(&rule.target));
        words.join(" ")
    }

    fn place(self, chain: &Chain, position: Position) -> String {
        match position {
            Position::Append => format!("{} {chain}", self.pick("-A", "--append")),
            Position::Insert(number) => format!("{} {chain} {number}", self.pick("-I", "--insert")),
        }
    }

    /// A condition, between the preceding ones and the next one.
    fn matched(self, matched: &Match, next: Option<&Match>, before: &[Match]) -> String {
        let module = |name: &str| format!("{} {name}", self.pick("-m", "--match"));
        let port = self.pick("--dport", "--destination-port");
        match matched {
            Match::Source(cidr) => option(self.pick("-s", "--source"), cidr, network),
            Match::Destination(cidr) => option(self.pick("-d", "--destination"), cidr, network),
            Match::InInterface(name) => option(self.pick("-i", "--in-interface"), name, ToString::to_string),
            Match::OutInterface(name) => {
                option(self.pick("-o", "--out-interface"), name, ToString::to_string)
            }
            Match::Protocol(protocol) => {
                let by_interface = before.iter().any(|m| matches!(m, Match::InInterface(_)));
                let protocol_matches = format!("{} {protocol}", self.pick("-p", "--protocol"));
                match next {
                    Some(Match::DestinationPorts(_)) => format!("{} {protocol_matches}", module("multiport")),
                    _ if by_interface && *protocol == Protocol::Udp => {
                        format!("{} {protocol_matches}", module("udp"))
                    }
                    _ => protocol_matches,
                }
            }
            Match::SourcePort(range) => {
                option(self.pick("--sport", "--source-port"), range, ToString::to_string)
            }
            Match::DestinationPort(range) => option(port, range, ToString::to_string),
            Match::DestinationPorts(set) => option(port, set, ToString::to_string),
            Match::UidOwner(uids) => {
                format!("{} {}", module("owner"), option("--uid-owner", uids, ToString::to_string))
            }
            Match::Comment(comment) => format!("{} --comment \"{comment}\"", module("comment")),
            Match::ConnState(states) => {
                format!("{} {}", module("conntrack"), option("--ctstate", states, ToString::to_string))
            }
            Match::ProtocolModule(protocol) => module(&protocol.to_string()),
            other => other.to_string(),
        }
    }

    fn target(self, target: &Target) -> String {
        let text = target.to_string();
        match (self.verbose, text.strip_prefix("-j ")) {
            (true, Some(rest)) => format!("--jump {rest}"),
            _ => text,
        }
    }
}

fn option<T>(name: &str, value: &Negatable<T>, text: impl Fn(&T) -> String) -> String {
    let not = if value.is_negated() { "! " } else { "" };
    format!("{not}{name} {}", text(value.value()))
}

/// A network. A single address has no prefix length, except those that upstream writes with one.
fn network(cidr: &Cidr) -> String {
    let with_length: [IpAddr; 4] = [
        Ipv4Addr::LOCALHOST.into(),
        Ipv6Addr::LOCALHOST.into(),
        PASSTHROUGH_V4.into(),
        PASSTHROUGH_V6.into(),
    ];
    match cidr.is_host() && !with_length.contains(&cidr.address()) {
        true => cidr.address().to_string(),
        false => cidr.to_string(),
    }
}
