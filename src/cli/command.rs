//! The commands: what each is for and which settings it takes.

mod drop_ins;
mod table;

pub(super) use table::COMMANDS;

use mesh::Mesh;
use mesh::kuma::Kuma;
use mesh::settings::{self, Row, Setting, Topic};
use mesh::sources::pflag::Flags;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// The drop-in for `istio-iptables`.
    IstioIptables,
    /// The drop-in for linkerd's `proxy-init`.
    LinkerdInit,
    /// The drop-in for kumactl.
    KumaInit,
    /// Bring the namespace to the wanted state.
    Apply,
    /// Compare the namespace with the wanted state.
    Check,
    /// Remove what is ours.
    Clean,
    /// Tell what works here.
    Doctor,
    /// Tell what becomes of a packet, and why.
    Explain,
    /// Find likely mistakes in what the flags say.
    Lint,
    /// Print the rules in some language.
    Render,
    /// Tell what is captured here, and how that goes.
    Status,
    /// Try real connections.
    Probe,
    /// Show packets as they meet rules.
    Trace,
    /// Show the rules at work, or run a command behind them.
    Sandbox,
    /// Put the CNI plugin into a node's runtime.
    CniInstall,
    /// Take it out again.
    CniUninstall,
    /// Set the rules of a running container.
    CniRepair,
    /// Give the host's own calls to pods of the ambient mesh an address of their own.
    AmbientHost,
    /// Print what completes our words in a shell.
    Completions,
    /// Write the manual.
    Man,
}

/// A command's row in the table.
pub(super) struct Entry {
    pub(super) command: Command,
    /// Its name on the command line; that of a command's command has two words.
    pub(super) name: &'static str,
    /// One line for the list of commands.
    pub(super) about: &'static str,
    /// What a newcomer should know.
    pub(super) long_about: &'static str,
    /// What it takes the settings of ..
    pub(super) topics: &'static [&'static [Topic]],
    /// .. and single ones beside,
    pub(super) also: &'static [Setting],
    /// but for these.
    pub(super) without: &'static [Setting],
    /// What a word means that belongs to no flag.
    pub(super) word: Option<Setting>,
    /// The one mesh that it is for; `None` where `--mesh` says which.
    pub(super) mesh: Option<Mesh>,
}

impl Entry {
    /// The command whose command it is, and its name there.
    pub(super) fn within(&self) -> (Option<&'static str>, &'static str) {
        match self.name.split_once(' ') {
            Some((group, name)) => (Some(group), name),
            None => (None, self.name),
        }
    }

    /// The settings that the command takes for a mesh.
    pub(super) fn rows(&self, mesh: Mesh) -> impl Iterator<Item = &'static Row> {
        settings::of(self.mesh.unwrap_or(mesh)).filter(|row| self.takes(row))
    }

    /// Whether the command takes a setting, for the mesh whose it is.
    pub(super) fn takes(&self, row: &Row) -> bool {
        let is_named =
            self.topics.iter().any(|group| group.contains(&row.topic)) || self.also.contains(&row.setting);
        is_named && !self.without.contains(&row.setting)
    }

    /// The command's flags for a mesh.
    pub(super) fn flags(&self, mesh: Mesh) -> Flags {
        Flags(self.rows(mesh).map(|row| (row, self.short(row))).collect())
    }

    /// What the words mean, in their order, that belong to no flag.
    pub(super) fn words(&self) -> impl Iterator<Item = Setting> {
        let second = (self.command == Command::KumaInit).then_some(Kuma::Component);
        self.word.into_iter().chain(second)
    }

    /// Whether words behind `--` are another program's command line.
    pub(super) fn takes_command(&self) -> bool {
        self.command == Command::Sandbox
    }

    /// The letter of a flag. `-f` is upstream's for `--restore-format` where we take upstream's place, and a manifest
    /// everywhere else, as it is for kubectl. So would `-o` be for `--format`; but wherever upstream's flags of capture are
    /// taken it is one of those.
    pub(super) fn short(&self, row: &Row) -> Option<char> {
        let upstreams = self.command == Command::IstioIptables;
        match row.setting {
            Setting::RestoreFormat if !upstreams => None,
            Setting::Filename if upstreams => None,
            Setting::Format if !self.topics.iter().any(|group| group.contains(&Topic::Capture)) => Some('o'),
            _ => row.short,
        }
    }
}

impl Command {
    /// Whether the command is there to change something that outlives it.
    pub(super) fn changes(self) -> bool {
        match self {
            Self::IstioIptables
            | Self::LinkerdInit
            | Self::KumaInit
            | Self::Apply
            | Self::Clean
            | Self::CniInstall
            | Self::CniUninstall
            | Self::CniRepair
            | Self::AmbientHost => true,
            Self::Check
            | Self::Doctor
            | Self::Explain
            | Self::Lint
            | Self::Render
            | Self::Status
            | Self::Probe
            | Self::Trace
            | Self::Sandbox
            | Self::Completions
            | Self::Man => false,
        }
    }

    /// The command's row.
    pub(super) fn entry(self) -> &'static Entry {
        COMMANDS.iter().find(|entry| entry.command == self).expect("every command has a row")
    }
}

#[cfg(test)]
mod tests {
    use super::{COMMANDS, Mesh, Setting, settings};

    /// Their flags are found by the last word of the name.
    #[test]
    fn the_last_words_of_names_differ() {
        let mut names: Vec<&str> = COMMANDS.iter().map(|entry| entry.within().1).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    /// A letter that meant two flags would mean the first of them.
    #[test]
    fn letters_of_a_command_differ() {
        for (entry, mesh) in
            COMMANDS.iter().flat_map(|entry| Mesh::ALL.iter().map(move |mesh| (entry, *mesh)))
        {
            let mut letters: Vec<char> = entry.rows(mesh).filter_map(|row| entry.short(row)).collect();
            let count = letters.len();
            letters.sort_unstable();
            letters.dedup();
            assert_eq!(letters.len(), count, "{} for {mesh}", entry.name);
        }
        let short = |name: &str| {
            let entry = COMMANDS.iter().find(|entry| entry.name == name).expect("a command");
            entry.short(Setting::Format.row())
        };
        assert_eq!(
            ["clean", "trace", "apply", "check", "doctor"].map(short),
            [Some('o'), Some('o'), None, None, None]
        );
    }

    #[test]
    fn every_setting_is_taken_by_a_command() {
        let orphans = settings::all().filter(|row| !COMMANDS.iter().any(|entry| entry.takes(row)));
        assert_eq!(orphans.map(|row| row.long).collect::<Vec<_>>(), Vec::<&str>::new());
    }
}
