//! How to run, as opposed to what to capture.

use rules::{Port, Version};
use std::{path::PathBuf, time::Duration};
use tracing::level_filters::LevelFilter;

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Print the rules and touch nothing.
    Preview(Preview),
    /// Set the rules.
    Apply,
    /// Remove all that is ours.
    Clean,
    /// Set nothing; somebody else has.
    Nothing,
}

/// How a preview is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preview {
    /// Text for `iptables-restore`.
    Restore,
    /// Commands for a shell.
    Commands,
    /// A script for `nft -f`.
    Nft,
}

/// By which interface of the kernel the rules are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendChoice {
    /// Nobody says: what is in use decides.
    Any,
    /// nf_tables, natively.
    Nftables,
    /// iptables, perhaps a certain variant of it.
    Iptables(Option<VariantChoice>),
}

/// A variant of iptables that somebody insists on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariantChoice {
    /// The old kernel interface.
    Legacy,
    /// iptables' syntax over nf_tables.
    Nft,
}

/// How the outcome of a command is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Proof by real connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validation {
    /// The port dialled.
    pub probe_port: Port,
    /// How long to try.
    pub timeout: Duration,
}

/// Where log lines go and which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logging {
    /// Level of everything that no scope names.
    pub level: LevelFilter,
    /// Levels of scopes.
    pub scopes: Vec<(String, LevelFilter)>,
    /// JSON instead of text.
    pub json: bool,
    /// `stderr`, `stdout`, or paths.
    pub targets: Vec<String>,
}

/// How to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// What to do.
    pub mode: Mode,
    /// The namespace to work in; `None` for the one we are in.
    pub namespace: Option<PathBuf>,
    /// Whether we run on the node's file system.
    pub cni: bool,
    /// By which interface the rules are set.
    pub backend: BackendChoice,
    /// The version of iptables, where the caller knows it.
    pub iptables_version: Option<Version>,
    /// Replace rules that are not as wanted.
    pub reconcile: bool,
    /// Apply even where the state looks right.
    pub force: bool,
    /// Seconds to wait for the lock that programs of iptables share.
    pub lock_wait: u32,
    /// Whether the machine's own namespace is fair game.
    pub allow_host: bool,
    /// How to print the outcome.
    pub format: Format,
    /// Validate afterwards.
    pub validation: Option<Validation>,
}
