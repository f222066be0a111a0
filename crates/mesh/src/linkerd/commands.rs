//! The rules as the commands that `proxy-init` would run for them, word for word: what its simulation prints.

use super::chains::OF_SUBNET;
use super::config::CaptureConfig;
use super::ownership::COMMENTS;
use crate::policy::CapturePolicy;
use rules::{Chain, Family, Match, Position, Rule, Statement};

/// The arguments of each command for a family, in their order, each beginning with the table. In a namespace without rules
/// of linkerd, they make those of [`CapturePolicy::rules`].
///
/// # Panics
/// If the policy wrote what `proxy-init` has no words for, which would be a defect of it.
pub fn commands(config: &CaptureConfig, family: Family) -> Vec<String> {
    let rules = config.rules(family);
    let mut commands = Vec::new();
    let mut made: Vec<&Chain> = Vec::new();
    for Statement { table, chain, position, rule, .. } in &rules.rules().statements {
        if matches!(chain, Chain::User(_)) && !made.contains(&chain) {
            made.push(chain);
            commands.push(format!("-t {table} -N {chain}"));
        }
        assert_eq!(*position, Position::Append, "proxy-init inserts nothing");
        commands.push(format!("-t {table} -A {chain} {}", words(rule)));
    }
    commands
}

fn words(rule: &Rule) -> String {
    let mut conditions = String::new();
    // What follows the target.
    let (mut source, mut comment) = (String::new(), String::new());
    for m in &rule.matches {
        match m {
            Match::Source(_) => {
                conditions.push_str("-p all ");
                source = format!(" -s {}", written(rule));
            }
            Match::Comment(text) => comment = format!(" -m comment --comment {text}"),
            other => conditions.push_str(&format!("{other} ")),
        }
    }
    let conditions = conditions.replace("-m multiport", "--match multiport");
    let conditions = conditions.replace("--dport ", "--destination-port ");
    let target = rule.target.to_string().replace("--to-ports", "--to-port");
    format!("{conditions}{target}{source}{comment}")
}

/// The comment of a network's rule keeps it as it was written.
fn written(rule: &Rule) -> &str {
    let mut comments = rule.matches.iter().filter_map(|m| match m {
        Match::Comment(text) => text.as_str().strip_prefix(COMMENTS)?.strip_prefix(OF_SUBNET),
        _ => None,
    });
    comments.next().expect("a network's rule says it in its comment")
}
