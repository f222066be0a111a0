//! What is proposed, to any shell: commands, flags, and what may follow a flag.

use crate::cli::command::{COMMANDS, Entry};
use crate::cli::{pflag, tree};
use mesh::Mesh;
use mesh::settings::{self, Kind, Row, Topic};

/// The program, by its name.
pub(super) const PROGRAM: &str = "sidecar-init";
/// The name by which it is one command.
pub(super) const DROP_IN: &str = "istio-iptables";

/// What may follow a flag, or be a word of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    /// Nothing, or `=true` and `=false`.
    Switch,
    /// One of these.
    Closed(&'static [&'static str]),
    File,
    Folder,
    /// Any other value.
    Free,
}

impl Values {
    pub(super) fn of(row: &Row) -> Self {
        match row.kind {
            Kind::Switch => Self::Switch,
            Kind::Value(_) if !row.values.is_empty() => Self::Closed(row.values),
            Kind::Value("DIR") => Self::Folder,
            Kind::Value("FILE" | "PATH") => Self::File,
            Kind::Value(_) => Self::Free,
        }
    }
}

/// A flag, as one command takes it.
pub(super) struct Flag {
    pub(super) short: Option<char>,
    pub(super) long: &'static str,
    /// What stands for its value in help.
    pub(super) value: &'static str,
    pub(super) values: Values,
    pub(super) help: &'static str,
}

impl Flag {
    pub(super) fn new(row: &Row, short: Option<char>) -> Self {
        let value = match row.kind {
            Kind::Value(name) => name,
            Kind::Switch => "BOOL",
        };
        Self { short, long: row.long, value, values: Values::of(row), help: brief(row.help) }
    }

    /// The forms with their dashes.
    pub(super) fn forms(&self) -> impl Iterator<Item = String> {
        let short = self.short.map(|short| format!("-{short}"));
        short.into_iter().chain([format!("--{}", self.long)])
    }
}

/// The flags that a command takes for a mesh.
pub(super) fn flags(entry: &Entry, mesh: Mesh) -> Vec<Flag> {
    let rows = entry.rows(mesh).filter(|row| is_proposed(row));
    rows.map(|row| Flag::new(row, entry.short(row))).collect()
}

/// The meshes for which a command takes other flags than for the default.
pub(super) fn other_meshes(entry: &Entry) -> impl Iterator<Item = Mesh> {
    let differs = |mesh: &Mesh| {
        let settings = |mesh| entry.rows(mesh).map(|row| row.setting);
        !settings(*mesh).eq(settings(Mesh::default()))
    };
    Mesh::ALL.iter().copied().filter(differs)
}

/// The flags that may stand before a command.
pub(super) fn global_flags() -> Vec<Flag> {
    let rows = settings::all().filter(|row| pflag::is_global(row) && is_proposed(row));
    rows.map(|row| Flag::new(row, row.short)).collect()
}

pub(super) fn is_proposed(row: &Row) -> bool {
    !row.long.is_empty() && row.topic != Topic::Compatibility
}

/// The help without what it says of the default.
pub(super) fn brief(help: &'static str) -> &'static str {
    help.split(" [default").next().unwrap_or(help)
}

/// The commands of a group, or those of no group: names and what they are for.
pub(super) fn commands(group: Option<&str>) -> Vec<(&'static str, &'static str)> {
    let of = COMMANDS.iter().filter(|entry| entry.within().0 == group);
    let mut found: Vec<_> = of.map(|entry| (entry.within().1, entry.about)).collect();
    if group.is_none() {
        found.extend(groups().map(|name| (name, tree::GROUP)));
        found.push((tree::VERSION, tree::VERSION_ABOUT));
    }
    found
}

/// The names that commands of two words start with.
pub(super) fn groups() -> impl Iterator<Item = &'static str> {
    let mut names: Vec<&str> = COMMANDS.iter().filter_map(|entry| entry.within().0).collect();
    names.dedup();
    names.into_iter()
}
