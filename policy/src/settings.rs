//! Every setting of the tool in one table: flag, short form, environment, help.
//!
//! The command line is built from it, the environment is read by it, errors are named by it, and a test
//! writes docs/reference.md. Meanings and defaults are upstream's unless the help says otherwise.

pub mod examples;
pub mod levels;
pub mod mapping;
mod table;

pub use table::{Setting, TABLE};

/// How a setting's value is written on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Takes a value.
    Value(&'static str),
    /// A boolean: bare, or with `=true`, `=false`, `=1`, `=0`.
    Switch,
}

/// Heading under which `--help` lists a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// What is captured.
    Capture,
    /// Where and how rules are set.
    Operation,
    /// A pod that says what to capture.
    Manifest,
    /// What the host would otherwise be asked.
    Facts,
    /// Checking that capture works.
    Validation,
    /// Log output.
    Logging,
    /// Accepted so that old manifests keep working.
    Compatibility,
    /// The packet that `explain` is asked about.
    Packet,
    /// Options of `explain` alone.
    Explain,
    /// Options of `lint` alone.
    Lint,
    /// Options of `render` alone.
    Render,
    /// Options of `status` alone.
    Status,
    /// Options of `trace` alone.
    Trace,
    /// Options of `sandbox` alone.
    Sandbox,
    /// Options of `cni install` and of `cni uninstall`.
    Install,
    /// Options of `cni repair` alone.
    Repair,
    /// Options of `completions` and of `man`.
    Generate,
}

impl Topic {
    pub fn heading(self) -> &'static str {
        match self {
            Self::Capture => "Capture",
            Self::Operation => "Operation",
            Self::Manifest => "Manifest",
            Self::Facts => "Facts of the host",
            Self::Validation => "Validation",
            Self::Logging => "Logging",
            Self::Compatibility => "Accepted for compatibility, without effect",
            Self::Packet => "The packet",
            Self::Explain
            | Self::Lint
            | Self::Render
            | Self::Status
            | Self::Trace
            | Self::Sandbox
            | Self::Install
            | Self::Repair
            | Self::Generate => "This command",
        }
    }

    /// Whether its settings belong to a single command, or to one and its reverse.
    pub fn is_of_one_command(self) -> bool {
        match self {
            Self::Capture
            | Self::Operation
            | Self::Manifest
            | Self::Facts
            | Self::Validation
            | Self::Logging
            | Self::Compatibility => false,
            Self::Packet
            | Self::Explain
            | Self::Lint
            | Self::Render
            | Self::Status
            | Self::Trace
            | Self::Sandbox
            | Self::Install
            | Self::Repair
            | Self::Generate => true,
        }
    }
}

/// One setting's row in the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub setting: Setting,
    /// Long flag without dashes; empty if the setting lives in the environment alone.
    pub long: &'static str,
    /// Short flag.
    pub short: Option<char>,
    /// Variables, the first that is set wins.
    pub variables: &'static [&'static str],
    /// How the value is written.
    pub kind: Kind,
    /// Where `--help` lists it.
    pub topic: Topic,
    /// One or two sentences.
    pub help: &'static str,
}

impl Row {
    /// The name by which people speak of the setting: its flag without dashes, or else its variable.
    pub fn name(&self) -> &'static str {
        if self.long.is_empty() { self.variables[0] } else { self.long }
    }

    /// The setting as its author writes it: `--flag`, or its variable where it has no flag.
    pub fn option(&self) -> String {
        match self.long {
            "" => self.variables[0].to_owned(),
            long => format!("--{long}"),
        }
    }
}

/// What the annotations start with that name settings as we do.
pub const ANNOTATIONS: &str = "sidecar-init/";

impl Row {
    /// The name by which annotations and network configurations speak of the setting: its flag's, or else its variable's
    /// in the same form. Only what can be said of a pod has one.
    pub fn key(&self) -> Option<String> {
        let of_pod = matches!(self.topic, Topic::Capture) && self.setting != Setting::EnvoyUser;
        let of_pod = of_pod || self.setting == Setting::DnsServers;
        of_pod.then(|| self.name().to_ascii_lowercase().replace('_', "-"))
    }

    /// The annotation by which a pod says what the setting's flag says.
    pub fn annotation(&self) -> Option<String> {
        self.key().map(|key| format!("{ANNOTATIONS}{key}"))
    }
}

/// The name that is most like a misspelt one, by the measure and the threshold that clap has for commands.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const ALIKE: f64 = 0.7;
    let measured = names.map(|name| (strsim::jaro(wanted, name), name));
    let best = measured.filter(|(alike, _)| *alike > ALIKE).max_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, name)| name)
}

impl Setting {
    /// The setting's row.
    pub fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_stands_where_its_setting_says() {
        for row in TABLE {
            assert_eq!(row.setting.row().long, row.long);
        }
    }

    #[test]
    fn the_first_variable_is_the_flag_in_upper_case() {
        for row in TABLE.iter().filter(|row| !row.long.is_empty()) {
            if let Some(first) = row.variables.first() {
                assert_eq!(*first, row.long.to_uppercase().replace('-', "_"));
            }
        }
    }
}
