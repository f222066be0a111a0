//! The flags, as values.

use crate::{repair_queue::FailureSignature, sandbox::NodePaths};
use clap::builder::{
    NonEmptyStringValueParser, PossibleValuesParser, RangedU64ValueParser, TypedValueParser,
};
use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};
use command_line::program::CommandHelp;
use injection::syntax::{is_label_key, is_label_value};
use sidecar_init::engine::Choice;
use std::{net::SocketAddr, ops::RangeInclusive, path::PathBuf, time::Duration};
use tracing::level_filters::LevelFilter;

/// Repairs pods that started before the CNI plugin was ready
#[derive(Debug, Parser)]
#[command(name = "sidecar-node", version)]
pub(crate) struct NodeArguments {
    #[command(subcommand)]
    pub(crate) command: NodeCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// Repair pods whose traffic is not captured
    #[command(
        long_about = "Finds a node's injected pods whose validation failed because their traffic is not \
                      captured, and repairs, labels or deletes them."
    )]
    Repair(Box<Repair>),
    /// Print a pod from the API server, for the plugin
    Pod(Lookup),
}

pub(crate) const SECTIONS: &[CommandHelp] = &[
    CommandHelp {
        command: "repair",
        examples: &[
            "sidecar-node repair --watch --node worker-1",
            "sidecar-node repair --node worker-1 --kubeconfig admin.conf --action label",
        ],
        exits: &[("0", "done"), ("1", "a pod could not be repaired"), ("2", "invalid input")],
    },
    CommandHelp {
        command: "pod",
        examples: &["sidecar-node pod --kubeconfig plugin.conf --namespace shop --name web-0"],
        exits: &[
            ("0", "printed"),
            ("1", "the API server did not answer"),
            ("2", "invalid input"),
            ("4", "the pod does not exist"),
        ],
    },
];

#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repair {
    /// Keep running until stopped by a signal
    #[arg(long)]
    pub(crate) watch: bool,
    /// What to do with a broken pod
    #[arg(long, value_name = "ACTION", value_enum, default_value_t = PodAction::Repair)]
    pub(crate) action: PodAction,
    /// Node whose pods to repair
    #[arg(long, value_name = "NAME", env = "NODE_NAME", hide_env_values = true, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) node: String,
    /// Kubeconfig for the API server [default: the pod's service account]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) signature: FailureSignature,
    /// Label for --action label
    #[arg(long, value_name = "KEY=VALUE", default_value = "cni.istio.io/uninitialized=true", value_parser = label)]
    pub(crate) label: PodLabel,
    /// Backend that sets the rules
    #[arg(long, value_name = "NAME", default_value = "nftables", value_parser = backend())]
    pub(crate) backend: Choice,
    /// Namespaces whose pods are not repaired
    #[arg(long = "exclude-namespaces", value_name = "NAMES", default_value = "kube-system", value_parser = names)]
    pub(crate) excluded_namespaces: NameList,
    /// Maximum pods to repair per minute
    #[arg(long, value_name = "NUMBER", default_value = "60", value_parser = RangedU64ValueParser::<usize>::new().range(1..=100_000))]
    pub(crate) rate: usize,
    #[command(flatten)]
    pub(crate) places: NodePaths,
    /// How long the API server should keep a watch open
    #[arg(long, value_name = "SECONDS", default_value = "240", value_parser = seconds(1..=290))]
    pub(crate) watch_timeout: Duration,
    /// How long any other call may take
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = seconds(1..=600))]
    pub(crate) call_timeout: Duration,
    /// Serve /metrics, /healthz and /readyz at this address, such as 0.0.0.0:15014
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// How often to read all the node's network namespaces, for metrics and drift events; 0 for never
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds(0..=86_400))]
    pub(crate) status_interval: Duration,
    /// Also label the pods metric by namespace and pod
    #[arg(long)]
    pub(crate) metrics_per_pod: bool,
    /// Level of the JSON log on standard error
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = level())]
    pub(crate) log_level: LevelFilter,
}

#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lookup {
    /// Kubeconfig for the API server
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: PathBuf,
    /// The pod's namespace
    #[arg(long, value_name = "NAME")]
    pub(crate) namespace: String,
    /// The pod's name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: String,
    /// How long to try
    #[arg(long, value_name = "MILLISECONDS", default_value = "8000", value_parser = value_parser!(u64).range(1..=600_000).map(Duration::from_millis))]
    pub(crate) timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PodAction {
    Repair,
    Label,
    Delete,
}

impl PodAction {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Repair => "repair",
            Self::Label => "label",
            Self::Delete => "delete",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodLabel {
    pub(crate) key: String,
    pub(crate) value: String,
}

/// Not a `Vec`, for which clap derives a repeatable flag.
pub(crate) type NameList = Box<[String]>;

fn backend() -> impl TypedValueParser<Value = Choice> {
    PossibleValuesParser::new(Choice::NAMED.map(|(name, _)| name))
        .map(|given| Choice::named(&given).expect("clap knows them"))
}

fn level() -> impl TypedValueParser<Value = LevelFilter> {
    PossibleValuesParser::new(["error", "warn", "info", "debug"])
        .map(|given| given.parse().expect("clap knows them"))
}

fn seconds(range: RangeInclusive<u64>) -> impl TypedValueParser<Value = Duration> {
    value_parser!(u64).range(range).map(Duration::from_secs)
}

/// Comma-separated names; an empty string has none.
#[expect(clippy::unnecessary_wraps, reason = "clap's parsers return a result")]
pub(crate) fn names(text: &str) -> Result<NameList, String> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    Ok(items.map(str::to_owned).collect())
}

fn label(text: &str) -> Result<PodLabel, String> {
    let form = "expected KEY=VALUE, such as cni.istio.io/uninitialized=true: each at most 63 letters, digits, - _ and ., \
                starting and ending with a letter or digit; a DNS name and / may precede the key";
    let (key, value) = text.split_once('=').ok_or(form)?;
    match is_label_key(key) && (value.is_empty() || is_label_value(value)) {
        true => Ok(PodLabel { key: key.to_owned(), value: value.to_owned() }),
        false => Err(form.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Box<Repair>, String> {
        let words = ["sidecar-node", "repair", "--node=node-1"].iter().chain(arguments);
        match NodeArguments::try_parse_from(words).map_err(|error| error.to_string())?.command {
            NodeCommand::Repair(repair) => Ok(repair),
            NodeCommand::Pod(_) => Err("it is another command".to_owned()),
        }
    }

    #[test]
    fn lists_may_be_empty() {
        let excluded = |flag: &str| parse(&[flag]).expect("valid").excluded_namespaces;
        assert!(excluded("--exclude-namespaces=").is_empty());
        assert_eq!(*excluded("--exclude-namespaces=a, b,"), ["a", "b"]);
    }

    #[test]
    fn labels_have_the_form_of_kubernetes() {
        for good in ["a=b", "a.b/c=d", "a=", "a_b.c-d/e=f_g"] {
            assert_eq!(label(good).is_ok(), good != "a_b.c-d/e=f_g", "{good}");
        }
        for bad in ["a", "=b", "a=b-", "a/b/c=d"] {
            assert!(label(bad).is_err(), "{bad}");
        }
        assert!(parse(&["--label", "nonsense"]).is_err_and(|error| error.contains("expected KEY=VALUE")));
    }
}
