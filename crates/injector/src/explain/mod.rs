//! `explain`: shows whether a manifest's pods are injected, the reasons, and injected pods' traffic.

mod cluster;

use crate::api::block_on;
use crate::input::{Input, revision};
use crate::output::{self, ColourChoice, warn};
use crate::sources::{ConfigurationSources, configuration};
use clap::{Args, ValueEnum};
use injection::explain::{Explained, InjectionVerdict, command, explain, injected, text};
use injection::{offline::Surroundings, webhook::DeployedInjector};
use mesh::data::{Tree, yaml};
use mesh::{InputProblem, Problems};
use std::io::{self, Write};
use std::process::{Command, ExitCode, Stdio};
use std::{error::Error, path::PathBuf};

const NOT_INJECTED: u8 = 3;
/// Exit code if a pod is refused, or the input is invalid.
const PROBLEMS: u8 = 1;

#[derive(Args)]
#[command(after_help = "\
--kubeconfig or --context reads namespaces, injection webhooks, their injectors' ConfigMaps and kubelet versions from the \
cluster; flags and the manifest override these values.")]
pub(crate) struct ExplainFlags {
    #[command(flatten)]
    input: Input,
    /// Revision or tag of the webhooks
    #[arg(
        short,
        long,
        value_name = "NAME",
        default_value = "default",
        value_parser = revision,
        conflicts_with_all = ["kubeconfig", "context"]
    )]
    revision: String,
    /// Assume the webhook for namespaces and pods without labels
    #[arg(long, conflicts_with_all = ["kubeconfig", "context"])]
    auto: bool,
    #[command(flatten)]
    cluster: cluster::ExplainClusterFlags,
    /// Assume that all kubelets support native sidecars (Kubernetes 1.33 and newer)
    #[arg(long)]
    native_sidecars: bool,
    #[command(flatten)]
    sources: ConfigurationSources,
    /// Output format
    #[arg(short, long, alias = "format", value_enum, value_name = "FORMAT", default_value_t = ExplanationFormat::Text)]
    output: ExplanationFormat,
    /// Colours: auto follows the terminal and NO_COLOR
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColourChoice::Auto)]
    color: ColourChoice,
    /// Also run `sidecar-init explain` on the injected pods, with the arguments that follow, such as 8080
    #[arg(long, value_name = "ARGUMENTS", num_args = 0.., allow_hyphen_values = true)]
    explain: Option<Vec<String>>,
    /// Program that --explain starts
    #[arg(long, value_name = "PROGRAM", default_value = "sidecar-init")]
    sidecar_init: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExplanationFormat {
    Text,
    Json,
    Yaml,
}

pub(crate) fn run(flags: &ExplainFlags) -> Result<ExitCode, Box<dyn Error>> {
    flags.color.choose();
    // `sidecar-init explain` prints text, which would make the document invalid.
    if flags.explain.is_some() && flags.output != ExplanationFormat::Text {
        return Err("--explain prints text; drop --output".into());
    }
    let (files, namespaces, mut problems) = flags.input.read();
    let manifests: Vec<(&str, &str)> =
        files.iter().map(|file| (file.name.as_str(), file.text.as_str())).collect();
    let native_sidecars = flags.native_sidecars;
    let mut around = Surroundings { namespaces, native_sidecars, ..Surroundings::default() };
    let injectors = if flags.cluster.is_asked() {
        let asked = block_on(flags.cluster.ask(&flags.sources, &manifests, &mut around, &mut problems))?;
        asked.unwrap_or_else(|text| {
            problems.push(InputProblem::of(&flags.cluster.flag(), text));
            Vec::new()
        })
    } else {
        let revision = (flags.revision != "default").then_some(flags.revision.as_str());
        let (configuration, found) = configuration(&flags.sources, None, revision);
        problems.extend(found);
        vec![DeployedInjector::installed(&flags.revision, flags.auto, configuration)]
    };
    injectors.iter().for_each(|injector| injector.configuration.warnings.iter().for_each(warn));
    Problems::check(problems)?;
    let explained = explain(&manifests, around, &injectors)?;
    print(flags, &explained)?;
    let code = explained.iter().map(code).max_by_key(|code| (*code == PROBLEMS, *code)).unwrap_or(0);
    match injected(&explained) {
        Some(pods) if flags.explain.is_some() => {
            let ended = hand_over(flags, &pods.to_string())?;
            Ok(ExitCode::from(if ended == 0 { code } else { ended }))
        }
        Some(_) | None => Ok(ExitCode::from(code)),
    }
}

fn code(explained: &Explained) -> u8 {
    match explained.verdict {
        InjectionVerdict::Injected => 0,
        InjectionVerdict::NotCalled | InjectionVerdict::Skipped => NOT_INJECTED,
        InjectionVerdict::Refused => PROBLEMS,
    }
}

const HANG: usize = 14;

fn print(flags: &ExplainFlags, explained: &[Explained]) -> Result<(), Box<dyn Error>> {
    match flags.output {
        ExplanationFormat::Text => {
            output::print_folded(&text(explained), HANG)?;
            // Not folded, so the command can be copied.
            if flags.explain.is_none() && injected(explained).is_some() {
                let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
                let words = command(&words.collect::<Vec<_>>());
                let traffic =
                    format!("\nTraffic of the injected pod:\n  sidecar-injector {words} --explain\n");
                output::print(&traffic)?;
            }
        }
        ExplanationFormat::Json => output::print(&format!("{}\n", serde_json::to_string_pretty(explained)?))?,
        ExplanationFormat::Yaml => {
            output::print(&yaml::block(&Tree::read(&serde_json::to_string(explained)?)))?;
        }
    }
    Ok(())
}

/// Runs `sidecar-init explain` on the injected pods; returns its exit code.
fn hand_over(flags: &ExplainFlags, pods: &str) -> Result<u8, Problems> {
    let program = flags.sidecar_init.display();
    let failed = |error: &io::Error| {
        let text = format!("can't be run: {error}; give its path with --sidecar-init");
        Problems(vec![InputProblem::of(&program, text)])
    };
    let mut child = Command::new(&flags.sidecar_init)
        .args(["explain", "-f", "-"])
        .args(flags.explain.iter().flatten())
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| failed(&error))?;
    let written = child.stdin.take().map_or(Ok(()), |mut input| input.write_all(pods.as_bytes()));
    let status = child.wait().map_err(|error| failed(&error))?;
    match written {
        // A program that ends without reading reports its reason itself.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(failed(&error)),
        Ok(()) | Err(_) => Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(PROBLEMS)),
    }
}
