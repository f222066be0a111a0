//! Other programs' commands, run in a namespace or printed for a shell.

use crate::support::namespace::Namespace;
use crate::support::setting::{Family, Variant};
use std::fmt;

/// A command that creates a foreign rule or its container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Nft(String),
    /// `-t TABLE` and the `iptables` arguments after it.
    Iptables(Variant, Family, &'static str, String),
    Ip(String),
}

impl Command {
    /// True if one call of a program can run both commands.
    fn goes_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Nft(_), Self::Nft(_)) | (Self::Ip(_), Self::Ip(_)) => true,
            // One table is committed at once, several are not.
            (Self::Iptables(variant, family, table, _), Self::Iptables(other, of, name, _)) => {
                (variant, family, table) == (other, of, name)
            }
            _ => false,
        }
    }

    /// A policy counts as a rule; a chain or table does not.
    pub(crate) fn is_rule(&self) -> bool {
        match self {
            Self::Nft(line) => line.starts_with("add rule"),
            Self::Iptables(.., line) => !line.starts_with("-N"),
            Self::Ip(_) => true,
        }
    }
}

impl fmt::Display for Command {
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

/// Runs commands in one program; a refused command reverts all.
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
        // `ip` would have run the commands before the failing one.
        Command::Ip(_) if group.len() > 1 => return false,
        Command::Ip(_) | Command::Nft(_) => {}
    }
    namespace.output(&program.0, &program.1, &input).succeeded()
}
