//! The rules as text as upstream's dry run prints them: `-m udp -p udp`, `-m multiport -p tcp --dport`, addresses without a length.

use crate::facts::{PASSTHROUGH_V4, PASSTHROUGH_V6, loopback};
use rules::{Checked, Family, Match, Position, Protocol, Statement, Table};

const TABLES: [Table; 3] = [Table::Raw, Table::Nat, Table::Mangle];

/// `verbose` adds long options and headings.
pub fn dry_run<'a>(rules: impl IntoIterator<Item = &'a Checked>, verbose: bool) -> String {
    rules.into_iter().map(|rules| of_family(rules, verbose)).collect::<Vec<_>>().join("\n")
}

fn of_family(rules: &Checked, verbose: bool) -> String {
    let rules = rules.rules();
    let mut lines = vec![format!("### {} ###", rules.family), String::new()];
    for table in TABLES.into_iter().filter(|table| rules.of_table(*table).next().is_some()) {
        lines.push(format!("* {table}"));
        let chains = rules.user_chains(table);
        if verbose && !chains.is_empty() {
            lines.push("# chains".to_owned());
        }
        lines.extend(chains.iter().map(|chain| format!("-N {chain}")));
        let mut heading = None;
        for statement in rules.of_table(table) {
            if verbose && heading.replace(&statement.chain) != Some(&statement.chain) {
                lines.push(format!("# rules of {}", statement.chain));
            }
            lines.push(words(statement));
        }
        lines.push("COMMIT".to_owned());
    }
    lines.iter().map(|line| if verbose { in_full(line) } else { line.clone() } + "\n").collect()
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

fn in_full(line: &str) -> String {
    let long = |word| OPTIONS.iter().find(|(short, _)| *short == word).map_or(word, |(_, long)| *long);
    line.split(' ').map(long).collect::<Vec<_>>().join(" ")
}

fn words(Statement { chain, position, rule, .. }: &Statement) -> String {
    let mut words = match position {
        Position::Append => format!("-A {chain}"),
        Position::Insert(number) => format!("-I {chain} {number}"),
    };
    let own = [loopback(Family::V4), loopback(Family::V6), PASSTHROUGH_V4.into(), PASSTHROUGH_V6.into()];
    for matched in &rule.matches {
        let text = matched.to_string();
        words += " ";
        words += match matched {
            // Of single addresses, upstream writes the prefix length only of these.
            Match::Source(network) | Match::Destination(network)
                if network.value().is_host() && !own.contains(&network.value().address()) =>
            {
                text.trim_end_matches("/32").trim_end_matches("/128")
            }
            Match::Protocol(Protocol::Udp) if words.contains(" -i ") => "-m udp -p udp",
            _ => &text,
        };
    }
    // Upstream names this module before the protocol.
    for protocol in ["-p tcp", "-p udp"] {
        words = words.replace(
            &format!("{protocol} -m multiport --dports"),
            &format!("-m multiport {protocol} --dport"),
        );
    }
    format!("{words} {}", rule.target)
}
