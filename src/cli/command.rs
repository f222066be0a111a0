//! The commands, with their purpose and settings.

mod table;

pub(super) use table::COMMANDS;

use command_line::sections::Exits;
use mesh::settings::{self, Setting, SettingRow, Topic};
use mesh::{Mesh, kuma::Kuma, sources::pflag::Flags};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    IstioIptables,
    LinkerdInit,
    KumaInit,
    Apply,
    Clean,
    Diff,
    Explain,
    Lint,
    Render,
    Status,
    Verify,
    Trace,
    Sandbox,
    CniInstall,
    CniUninstall,
    CniRepair,
    AmbientHost,
    Completions,
    Man,
}

pub(super) struct CommandEntry {
    pub(super) command: Command,
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) long_about: &'static str,
    pub(super) examples: &'static [&'static str],
    pub(super) exits: &'static Exits,
    pub(super) topics: &'static [&'static [Topic]],
    pub(super) also: &'static [&'static [Setting]],
    pub(super) without: &'static [Setting],
    pub(super) word: Option<Setting>,
    pub(super) repeats: bool,
    /// Another command line after `--`: its name in help, and its purpose.
    pub(super) trailing: Option<(&'static str, &'static str)>,
    /// Fixed mesh; `None` if `--mesh` selects one.
    pub(super) mesh: Option<Mesh>,
    /// True if changes outlive the command.
    pub(super) changes: bool,
    /// Accepts unlisted flags of changes and validations, so that a manifest's arguments can be pasted.
    pub(super) pasted: bool,
}

impl CommandEntry {
    pub(super) fn within(&self) -> (Option<&'static str>, &'static str) {
        match self.name.split_once(' ') {
            Some((group, name)) => (Some(group), name),
            None => (None, self.name),
        }
    }

    pub(super) fn rows(&self, mesh: Mesh) -> impl Iterator<Item = &'static SettingRow> {
        settings::of(self.mesh.unwrap_or(mesh)).filter(|row| self.lists(row))
    }

    pub(super) fn takes(&self, row: &SettingRow) -> bool {
        let is_pasted = self.pasted && matches!(row.topic, Topic::Operation | Topic::Validation);
        self.lists(row) || is_pasted && !self.without.contains(&row.setting)
    }

    pub(super) fn lists(&self, row: &SettingRow) -> bool {
        let is_named = is_global(row)
            || self.topics.iter().any(|group| group.contains(&row.topic))
            || self.also.iter().any(|group| group.contains(&row.setting));
        is_named && !self.without.contains(&row.setting)
    }

    pub(super) fn flags(&self, mesh: Mesh) -> Flags {
        let rows = settings::of(self.mesh.unwrap_or(mesh)).filter(|row| self.takes(row));
        Flags(rows.map(|row| (row, self.short(row))).collect())
    }

    pub(super) fn words(&self) -> impl Iterator<Item = Setting> {
        let second = (self.command == Command::KumaInit).then_some(Kuma::Component);
        self.word.into_iter().chain(second)
    }

    /// Letter of a flag. `-f` is upstream's in drop-ins, and a manifest elsewhere, as in kubectl. `-o` is `--output`, except
    /// where upstream's capture flags are accepted, which include `-o`.
    pub(super) fn short(&self, row: &SettingRow) -> Option<char> {
        let upstreams = self.command == Command::IstioIptables;
        match row.setting {
            Setting::RestoreFormat if !upstreams => None,
            // A user with kubectl's `-n shop` in mind would not expect a dry run.
            Setting::DryRun if self.command == Command::Clean => None,
            Setting::Filename if upstreams => None,
            Setting::Format if !self.topics.iter().any(|group| group.contains(&Topic::Capture)) => Some('o'),
            _ => row.short,
        }
    }
}

/// True for a global flag, which may also precede the command, as upstream's log flags do.
pub(super) fn is_global(row: &SettingRow) -> bool {
    matches!(row.topic, Topic::Logging | Topic::Compatibility)
}

impl Command {
    pub(super) fn entry(self) -> &'static CommandEntry {
        COMMANDS.iter().find(|entry| entry.command == self).expect("every command has a row")
    }
}

#[cfg(test)]
mod tests {
    use super::{COMMANDS, Mesh, Setting, settings};

    /// Flags are found by the last word of a command's name.
    #[test]
    fn last_words_of_command_names_are_unique() {
        let mut names: Vec<&str> = COMMANDS.iter().map(|entry| entry.within().1).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    /// The parser would ignore a second flag with the same letter.
    #[test]
    fn flag_letters_are_unique_in_each_command() {
        for (entry, mesh) in
            COMMANDS.iter().flat_map(|entry| Mesh::ALL.iter().map(move |mesh| (entry, *mesh)))
        {
            let mut letters: Vec<char> = entry.flags(mesh).0.iter().filter_map(|(_, short)| *short).collect();
            let count = letters.len();
            letters.sort_unstable();
            letters.dedup();
            assert_eq!(letters.len(), count, "{} for {mesh}", entry.name);
        }
        let short = |name: &str| {
            let entry = COMMANDS.iter().find(|entry| entry.name == name).expect("a command");
            entry.short(Setting::Format.row())
        };
        assert_eq!(["clean", "trace", "apply", "diff"].map(short), [Some('o'), Some('o'), None, None]);
    }

    #[test]
    fn read_only_commands_list_no_change_flags() {
        let of_changes = [
            Setting::DryRun,
            Setting::Reconcile,
            Setting::Replace,
            Setting::CleanupOnly,
            Setting::ForceApply,
            Setting::LockWait,
            Setting::RunValidation,
        ];
        for name in ["explain", "lint", "diff", "render", "status", "verify", "trace"] {
            let entry = COMMANDS.iter().find(|entry| entry.name == name).expect("a command");
            for row in of_changes.map(Setting::row) {
                let takes_rules = !["status", "trace"].contains(&name);
                assert_eq!((entry.lists(row), entry.takes(row)), (false, takes_rules), "{name} {}", row.long);
            }
        }
    }

    #[test]
    fn every_command_has_examples_and_exit_statuses() {
        for entry in COMMANDS {
            let call = format!("sidecar-init {}", entry.name);
            assert!(entry.examples.iter().any(|example| example.contains(&call)), "{call}");
            assert!(entry.exits.iter().any(|(code, _)| *code == "0"), "{call}");
            assert!(entry.about.chars().count() <= 72 && !entry.about.ends_with('.'), "{}", entry.about);
        }
    }

    #[test]
    fn every_setting_belongs_to_a_command() {
        let orphans = settings::all().filter(|row| !COMMANDS.iter().any(|entry| entry.takes(row)));
        assert_eq!(orphans.map(|row| row.long).collect::<Vec<_>>(), Vec::<&str>::new());
    }
}
