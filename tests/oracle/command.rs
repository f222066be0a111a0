//! Commands of other programs: how they are run, and how a shell would run them.

use crate::support::namespace::Namespace;
use crate::support::setting::{Family, Variant};
use std::fmt;

/// One command that makes a foreign rule, or what one stands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// A line of `nft -f`.
    Nft(String),
    /// `-t TABLE` and what `iptables` takes behind it.
    Iptables(Variant, Family, &'static str, String),
    /// The words behind `ip`.
    Ip(String),
}

impl Command {
    /// Those that one call of a program can take together.
    fn goes_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Nft(_), Self::Nft(_)) | (Self::Ip(_), Self::Ip(_)) => true,
            // A table is committed at once, several are not.
            (Self::Iptables(variant, family, table, _), Self::Iptables(other, of, name, _)) => {
                (variant, family, table) == (other, of, name)
            }
            _ => false,
        }
    }

    /// A policy counts as a rule; what a rule stands in does not.
    pub(crate) fn is_rule(&self) -> bool {
        match self {
            Self::Nft(line) => line.starts_with("add rule"),
            Self::Iptables(.., line) => !line.starts_with("-N"),
            Self::Ip(_) => true,
        }
    }
}

impl fmt::Display for Command {
    /// As a line of a shell script.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nft(line) => write!(f, "nft '{line}'"),
            Self::Iptables(variant, family, table, line) => {
                write!(f, "{} -t {table} {line}", variant.program(*family, ""))
            }
            Self::Ip(line) => write!(f, "ip {line}"),
        }
    }
}

/// Runs commands in a namespace; returns those that their programs and the kernel took.
pub(crate) fn run(namespace: &Namespace, commands: &[Command]) -> Vec<Command> {
    let mut taken = Vec::new();
    for group in commands.chunk_by(Command::goes_with) {
        if run_together(namespace, group) {
            taken.extend_from_slice(group);
        } else {
            let one_by_one = group.iter().filter(|one| run_together(namespace, std::slice::from_ref(one)));
            taken.extend(one_by_one.cloned());
        }
    }
    taken
}

/// Runs commands for one program; nothing of them stays where it refuses one.
fn run_together(namespace: &Namespace, group: &[Command]) -> bool {
    let mut input = String::new();
    let mut program = (String::from("nft"), vec!["-f", "-"]);
    for command in group {
        match command {
            Command::Nft(line) => input.push_str(&format!("{line}\n")),
            Command::Ip(line) => {
                program = ("ip".to_owned(), vec!["-batch", "-"]);
                input.push_str(&format!("{line}\n"));
            }
            Command::Iptables(variant, family, table, line) => {
                let wait = ["--noflush", "--wait=60"];
                let wait = if *variant == Variant::Legacy { &wait[..] } else { &wait[..1] };
                program = (variant.program(*family, "-restore"), wait.to_vec());
                if input.is_empty() {
                    input.push_str(&format!("*{table}\n"));
                }
                input.push_str(&format!("{line}\n"));
            }
        }
    }
    match group[0] {
        Command::Iptables(..) => input.push_str("COMMIT\n"),
        // It would have run those before the one that fails.
        Command::Ip(_) if group.len() > 1 => return false,
        Command::Ip(_) | Command::Nft(_) => {}
    }
    namespace.output(&program.0, &program.1, &input).succeeded()
}
