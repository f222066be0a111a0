//! The rules as text as upstream's dry run prints them: `-m udp -p udp`, `-m multiport -p tcp --dport`, addresses without a length.

use crate::facts::{PASSTHROUGH_V4, PASSTHROUGH_V6, loopback};
use rules::render::iptables;
use rules::{Checked, Family, Match, Statement, Table};

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

/// Of single addresses, upstream writes the prefix length only of the pod's own; it names some modules before the protocol.
fn words(statement: &Statement) -> String {
    let mut words = iptables::statement(statement);
    let own = [loopback(Family::V4), loopback(Family::V6), PASSTHROUGH_V4.into(), PASSTHROUGH_V6.into()];
    for matched in &statement.rule.matches {
        if let Match::Source(network) | Match::Destination(network) = matched
            && let address = network.value().address()
            && network.value().is_host()
            && !own.contains(&address)
        {
            words = words.replace(&format!(" {} ", network.value()), &format!(" {address} "));
        }
    }
    for protocol in ["-p tcp", "-p udp"] {
        let ports = format!("-m multiport {protocol} --dport");
        words = words.replace(&format!("{protocol} -m multiport --dports"), &ports);
    }
    if words.contains(" -i ") { words.replace("-p udp", "-m udp -p udp") } else { words }
}
