//! The flags. Each command's own stand beside the command.

use clap::{Parser, Subcommand};

/// Puts the init container and the proxy of a service mesh into pods.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Inject the pods of a manifest and print it
    Inject(crate::inject::Flags),
    /// Run the admission webhook
    Serve(Box<crate::serve::Flags>),
    /// Print the manifests that install the injector in a cluster
    Manifests(crate::manifests::Flags),
    /// Explain whether a pod would be injected, by which webhook, and why
    Explain(crate::explain::Flags),
    /// Compare a cluster's injected pods with the result of this injector
    CheckTemplates(crate::check_templates::Flags),
    /// Environments: routes for tagged requests, offline and in a cluster
    Environment(crate::environment::Flags),
}
