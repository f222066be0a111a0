//! The rules as the commands that `proxy-init` would run for them, word for word: what its simulation tells.

use super::config::CaptureConfig;
use crate::mesh::Policy;
use rules::{Chain, Family, Match, Negatable, Position, Rule, Statement, Target};

/// The arguments of each command for a family, in their order, each beginning with the table. In a namespace without rules
/// of linkerd, they make those of [`Policy::rules`].
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
    let mut asked = String::new();
    // What stands behind the target.
    let (mut source, mut comment) = (String::new(), String::new());
    for m in &rule.matches {
        match m {
            Match::Protocol(protocol) => asked.push_str(&format!("-p {protocol} ")),
            Match::DestinationPorts(Negatable::Is(ports)) => {
                asked.push_str(&format!("--match multiport --dports {ports} "));
            }
            Match::DestinationPort(Negatable::Is(port)) => {
                asked.push_str(&format!("--destination-port {port} "));
            }
            Match::UidOwner(Negatable::Is(uid)) => asked.push_str(&format!("-m owner --uid-owner {uid} ")),
            Match::GidOwner(Negatable::Is(gid)) => asked.push_str(&format!("-m owner --gid-owner {gid} ")),
            Match::OutInterface(Negatable::Is(name)) => asked.push_str(&format!("-o {name} ")),
            Match::Source(Negatable::Is(_)) => {
                asked.push_str("-p all ");
                source = format!(" -s {}", written(rule));
            }
            Match::Comment(text) => comment = format!(" -m comment --comment {text}"),
            other => unreachable!("proxy-init does not ask for {other:?}"),
        }
    }
    let target = match &rule.target {
        Target::Return => "RETURN".to_owned(),
        Target::Jump(chain) => chain.to_string(),
        Target::Redirect(ports) => format!("REDIRECT --to-port {}", ports.dashed()),
        other => unreachable!("proxy-init does nothing like {other:?}"),
    };
    format!("{asked}-j {target}{source}{comment}")
}

/// A network in the words of whoever named it, which its rule's comment keeps.
fn written(rule: &Rule) -> &str {
    let mut comments = rule.matches.iter().filter_map(|m| match m {
        Match::Comment(text) => text.as_str().strip_prefix(super::chains::OF_SUBNET),
        _ => None,
    });
    comments.next().expect("a network's rule says it in its comment")
}
