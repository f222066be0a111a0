//! `explain`: would the pods of a manifest be injected, who says so, and what becomes of their traffic then.

use crate::arguments::Sources;
use crate::sources::configuration;
use clap::{Args, ValueEnum};
use injection::explain::{Explained, Question, Verdict, explain, injected, text};
use policy::data::{Tree, yaml};
use policy::{Problem, Problems};
use std::{
    collections::BTreeMap,
    error::Error,
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

/// How it ends where some pod is not injected.
const NOT_INJECTED: u8 = 3;
/// How it ends where some pod is refused, or nothing can be said.
const PROBLEMS: u8 = 1;

/// Its flags.
#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 where all pods are injected, 3 where one is not, 1 where one is refused or the input is wrong, 2 for a wrong call. \
With --explain, that of sidecar-init where it fails.

The labels of a namespace come from --namespace-labels, and from Namespaces in the manifest.")]
pub(crate) struct Flags {
    /// A manifest, YAML or JSON; - is standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    filename: PathBuf,
    /// The namespace of objects that name none
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// Labels of the namespaces, with commas between; an empty text for none
    #[arg(long, value_name = "KEY=VALUE,..")]
    namespace_labels: Option<String>,
    /// Whose webhooks are asked: the control plane's revision, or a tag of one
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    revision: String,
    /// There is a webhook for namespaces and pods that say nothing, too
    #[arg(long)]
    auto: bool,
    /// All kubelets run native sidecars (Kubernetes 1.33 and newer)
    #[arg(long)]
    native_sidecars: bool,
    #[command(flatten)]
    sources: Sources,
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Text)]
    format: Format,
    /// Go on: ask sidecar-init about the traffic of the injected pods. What stands behind it are arguments of its `explain`,
    /// such as 10.0.0.5:443, or --matrix for all usual packets
    #[arg(long, value_name = "ARGUMENTS", num_args = 1.., allow_hyphen_values = true, conflicts_with = "format")]
    explain: Vec<String>,
    /// The program that --explain starts
    #[arg(long, value_name = "PROGRAM", default_value = "sidecar-init")]
    sidecar_init: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Yaml,
}

pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Box<dyn Error>> {
    let revision = (flags.revision != "default").then_some(flags.revision.as_str());
    let mut problems = Vec::new();
    let mut take = |found: Problems| problems.extend(found.0);
    let configuration = configuration(&flags.sources, revision).map_err(&mut take).ok();
    let labels = labels(flags.namespace_labels.as_deref()).map_err(&mut take).ok();
    let manifest = read(&flags.filename).map_err(&mut take).ok();
    let (Some(configuration), Some(labels), Some(manifest)) = (configuration, labels, manifest) else {
        return Err(Problems(problems).into());
    };
    for warning in &configuration.warnings {
        anstream::eprintln!("warning: {warning}");
    }
    let question = Question {
        name: &flags.filename.display().to_string(),
        text: &manifest,
        namespace: &flags.namespace,
        labels: labels.as_ref(),
        revision: &flags.revision,
        everywhere: flags.auto,
        native_sidecars: flags.native_sidecars,
    };
    let explained = explain(&question, &configuration)?;
    print(flags, &explained)?;
    let code = explained.iter().map(code).max_by_key(|code| (*code == PROBLEMS, *code)).unwrap_or(0);
    match injected(&explained) {
        Some(pods) if !flags.explain.is_empty() => {
            let ended = hand_over(flags, &pods.to_string())?;
            Ok(ExitCode::from(if ended == 0 { code } else { ended }))
        }
        Some(_) | None => Ok(ExitCode::from(code)),
    }
}

fn code(explained: &Explained) -> u8 {
    match explained.verdict {
        Verdict::Injected => 0,
        Verdict::NotCalled | Verdict::LeftAlone => NOT_INJECTED,
        Verdict::Refused => PROBLEMS,
    }
}

fn print(flags: &Flags, explained: &[Explained]) -> Result<(), Box<dyn Error>> {
    let mut out = anstream::stdout().lock();
    match flags.format {
        Format::Text => {
            write!(out, "{}", text(explained))?;
            if flags.explain.is_empty() && injected(explained).is_some() {
                writeln!(out, "\nWhat becomes of its traffic:\n  {}", command(flags))?;
            }
        }
        Format::Json => writeln!(out, "{}", serde_json::to_string_pretty(explained)?)?,
        Format::Yaml => write!(out, "{}", yaml::block(&Tree::read(&serde_json::to_string(explained)?)))?,
    }
    Ok(())
}

/// The command that goes on, for a shell.
fn command(flags: &Flags) -> String {
    let mut words = vec!["sidecar-injector".to_owned(), "inject".to_owned(), "-f".to_owned()];
    words.push(flags.filename.display().to_string());
    let Sources { config, values, mesh } = &flags.sources;
    for (flag, path) in [("--inject-config", config), ("--values", values), ("--mesh-config", mesh)] {
        if let Some(path) = path {
            words.extend([flag.to_owned(), path.display().to_string()]);
        }
    }
    if flags.revision != "default" {
        words.extend(["--revision".to_owned(), flags.revision.clone()]);
    }
    if flags.namespace != "default" {
        words.extend(["--namespace".to_owned(), flags.namespace.clone()]);
    }
    words.extend(flags.native_sidecars.then(|| "--native-sidecars".to_owned()));
    format!("{} | sidecar-init explain -f - --matrix", injection::explain::command(&words))
}

/// Starts `sidecar-init explain` with the injected pods as its manifest; ends with its exit code.
fn hand_over(flags: &Flags, pods: &str) -> Result<u8, Problems> {
    let program = flags.sidecar_init.display();
    let failed = |error: &io::Error| {
        let text = format!("can't be run: {error}; say where it is with --sidecar-init");
        Problems(vec![Problem::of(&program, text)])
    };
    let mut child = Command::new(&flags.sidecar_init)
        .args(["explain", "-f", "-"])
        .args(&flags.explain)
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| failed(&error))?;
    if let Some(mut input) = child.stdin.take() {
        // One that ends without reading tells why itself.
        match input.write_all(pods.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(failed(&error)),
            Ok(()) | Err(_) => {}
        }
    }
    let status = child.wait().map_err(|error| failed(&error))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(PROBLEMS))
}

fn labels(text: Option<&str>) -> Result<Option<BTreeMap<String, String>>, Problems> {
    let Some(text) = text else { return Ok(None) };
    let (mut labels, mut problems) = (BTreeMap::new(), Vec::new());
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        match item.split_once('=') {
            Some((key, value)) if !key.is_empty() => {
                labels.insert(key.to_owned(), value.to_owned());
            }
            _ => problems.push(Problem::with_item(
                "--namespace-labels",
                item,
                "is no label; expected KEY=VALUE, such as istio-injection=enabled",
            )),
        }
    }
    if problems.is_empty() { Ok(Some(labels)) } else { Err(Problems(problems)) }
}

fn read(path: &Path) -> Result<String, Problems> {
    let done = match path.to_str() {
        Some("-") => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map(|_| text)
        }
        _ => fs::read_to_string(path),
    };
    let failed = |error: io::Error| {
        let name = format!("--filename {}", path.display());
        Problems(vec![Problem::of(
            &name,
            format!("can't be read: {error}; expected a manifest, or - for standard input"),
        )])
    };
    done.map_err(failed)
}
