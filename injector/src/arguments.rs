//! The flags. Each command's own stand beside the command.

use clap::{
    Args, Parser, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};
use std::path::PathBuf;

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

/// Where the configuration is. What is left out stands for Istio's defaults.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Sources {
    /// Policy, templates and selectors: key `config` of the ConfigMap istio-sidecar-injector
    #[arg(long = "inject-config", alias = "injectConfigFile", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Values of the templates: key `values` of the same ConfigMap
    #[arg(long, alias = "valuesFile", value_name = "FILE")]
    pub(crate) values: Option<PathBuf>,
    /// MeshConfig: key `mesh` of the ConfigMap istio
    #[arg(long = "mesh-config", alias = "meshConfigFile", value_name = "FILE")]
    pub(crate) mesh: Option<PathBuf>,
}

/// Reads one of these words as what it stands for.
pub(crate) fn one_of<T: Clone + Send + Sync + 'static>(
    words: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let names = PossibleValuesParser::new(words.iter().map(|(name, _)| *name));
    names.try_map(|text| {
        let found = words.iter().find(|(name, _)| *name == text);
        found.map(|(_, meant)| meant.clone()).ok_or("expected one of the words listed")
    })
}
