//! The rules as text as upstream's dry run prints them: `-m udp -p udp`, `-m multiport -p tcp --dport`, addresses without a length.

use crate::facts::{PASSTHROUGH_V4, PASSTHROUGH_V6, loopback};
use rules::{Checked, Family, Match, Position, Protocol, Statement, Table};

const TABLES: [Table; 3] = [Table::Raw, Table::Nat, Table::Mangle];

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

/// `verbose` adds long options and headings.
pub fn restore(rules: &Checked, verbose: bool) -> String {
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
        text.extend(chains.iter().map(|chain| spelled(&format!("-N {chain}"), verbose)));
        let mut heading = None;
        for statement in rules.rules().of_table(table) {
            if verbose && heading != Some(&statement.chain) {
                text.push(format!("# rules of {}", statement.chain));
                heading = Some(&statement.chain);
            }
            text.push(spelled(&words(statement), verbose));
        }
        text.push("COMMIT".to_owned());
    }
    text.iter().map(|line| format!("{line}\n")).collect()
}

const OPTIONS: [(&str, &str); 12] = [
    ("-A", "--append"),
    ("-I", "--insert"),
    ("-N", "--new-chain"),
    ("-d", "--destination"),
    ("-i", "--in-interface"),
    ("-j", "--jump"),
    ("-m", "--match"),
    ("-o", "--out-interface"),
    ("-p", "--protocol"),
    ("-s", "--source"),
    ("--dport", "--destination-port"),
    ("--sport", "--source-port"),
];

fn spelled(words: &str, in_full: bool) -> String {
    let long =
        |word: &str| OPTIONS.iter().find(|(short, _)| in_full && *short == word).map(|(_, long)| *long);
    words.split(' ').map(|word| long(word).unwrap_or(word)).collect::<Vec<_>>().join(" ")
}

fn words(statement: &Statement) -> String {
    let Statement { chain, position, rule, .. } = statement;
    let mut words = match position {
        Position::Append => format!("-A {chain}"),
        Position::Insert(number) => format!("-I {chain} {number}"),
    };
    let own = [loopback(Family::V4), loopback(Family::V6), PASSTHROUGH_V4.into(), PASSTHROUGH_V6.into()];
    for (at, matched) in rule.matches.iter().enumerate() {
        let by_interface = rule.matches[..at].iter().any(|before| matches!(before, Match::InInterface(_)));
        words += &match matched {
            // Of single addresses, upstream writes the prefix length only of these.
            Match::Source(network) | Match::Destination(network)
                if network.value().is_host() && !own.contains(&network.value().address()) =>
            {
                format!(" {}", matched.to_string().trim_end_matches("/32").trim_end_matches("/128"))
            }
            Match::Protocol(_) if matches!(rule.matches.get(at + 1), Some(Match::DestinationPorts(_))) => {
                format!(" -m multiport {matched}")
            }
            Match::Protocol(Protocol::Udp) if by_interface => format!(" -m udp {matched}"),
            Match::DestinationPorts(_) => format!(" {matched}").replace("-m multiport --dports", "--dport"),
            other => format!(" {other}"),
        };
    }
    format!("{words} {}", rule.target)
}
