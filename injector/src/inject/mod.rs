//! `inject`: manifests in, the same manifests with injected pods out. A drop-in for `istioctl kube-inject`.
//!
//! Everything is read and injected before anything is printed: where one object has a problem, there is no output at all.

mod join;
mod replace;

use crate::arguments::Sources;
use crate::output;
use crate::sources::configuration;
use clap::{Args, ValueEnum};
use injection::offline::{Manifest, Note, Surroundings, diff, manifest};
use injection::{Configuration, Namespace, path};
use policy::{Problem, Problems, Tone};
use std::{
    collections::BTreeMap,
    error::Error,
    fs,
    io::{self, Read},
    path::PathBuf,
    process::ExitCode,
};

/// Its flags.
#[derive(Args)]
pub(crate) struct Flags {
    /// A manifest, YAML or JSON; - is standard input. As often as need be
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    filenames: Vec<String>,
    /// Where the outcome is written, whole or not at all [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    sources: Sources,
    /// The control plane's revision, in place of that of the values
    #[arg(short, long, value_name = "NAME")]
    revision: Option<String>,
    /// The namespace of objects that name none
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// That namespace's labels, with commas between
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = pair)]
    namespace_labels: Vec<(String, String)>,
    /// One of its annotations, such as those that OpenShift gives to namespaces. As often as need be
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    namespace_annotations: Vec<(String, String)>,
    /// The path of a webhook, whose pairs become variables of the proxy, such as cluster/east/net/one behind /inject
    #[arg(long, value_name = "PATH", default_value = "/inject")]
    path: String,
    /// All kubelets run native sidecars (Kubernetes 1.33 and newer): so does a pod that says nothing about it
    #[arg(long)]
    native_sidecars: bool,
    /// Print what would change, for people and for patch. Ends with 0 if nothing would, with 1 if something would, and with
    /// 2 on an error, as `kubectl diff` does
    #[arg(long, conflicts_with = "output")]
    diff: bool,
    /// Whether the difference is coloured: auto follows the terminal, and NO_COLOR
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Colour::Auto)]
    color: Colour,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Colour {
    Auto,
    Always,
    Never,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Box<dyn Error>> {
    match flags.color {
        Colour::Auto => {}
        Colour::Always => anstream::ColorChoice::Always.write_global(),
        Colour::Never => anstream::ColorChoice::Never.write_global(),
    }
    let done = injected(flags).map_err(Box::<dyn Error>::from).and_then(|files| {
        files.iter().flat_map(|file| &file.done.notes).for_each(tell);
        print(flags, &files)
    });
    match done {
        // With a difference asked for, 1 is no error.
        Err(error) if flags.diff => {
            anstream::eprintln!("sidecar-injector: {error}");
            Ok(ExitCode::from(2))
        }
        done => done,
    }
}

/// A file, before and after.
struct File {
    name: String,
    text: String,
    done: Manifest,
}

fn print(flags: &Flags, files: &[File]) -> Result<ExitCode, Box<dyn Error>> {
    if flags.diff {
        let differences = files.iter().map(|file| diff(&file.name, &file.text, &file.done.text));
        let text: String = differences.collect();
        output::print_styled(&text)?;
        return Ok(ExitCode::from(u8::from(!text.is_empty())));
    }
    let texts: Vec<&str> = files.iter().map(|file| file.done.text.as_str()).collect();
    let text = join::join(&texts);
    match flags.output.as_deref() {
        Some(path) if path.as_os_str() != "-" => replace::write(path, &text)?,
        _ => output::print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// All files, or all that is wrong with them.
fn injected(flags: &Flags) -> Result<Vec<File>, Problems> {
    let mut problems = Vec::new();
    let mut keep = |Problems(found): Problems| problems.extend(found);
    let configuration = configuration(&flags.sources, flags.revision.as_deref()).map_err(&mut keep).ok();
    let mut texts = Vec::new();
    for name in &flags.filenames {
        match read(name) {
            Ok(text) => texts.push((if name == "-" { "input" } else { name }.to_owned(), text)),
            Err(error) => keep(Problems(vec![Problem::with_item("--filename", name, told(&error))])),
        }
    }
    let mut files = Vec::new();
    if let Some(configuration) = configuration {
        configuration.warnings.iter().for_each(warn);
        for (name, text) in texts {
            match inject(flags, &name, &text, &configuration) {
                Ok(done) => files.push(File { name, text, done }),
                Err(found) => keep(found),
            }
        }
    }
    if problems.is_empty() { Ok(files) } else { Err(Problems(problems)) }
}

fn inject(
    flags: &Flags,
    name: &str,
    text: &str,
    configuration: &Configuration,
) -> Result<Manifest, Problems> {
    let known = |pairs: &[(String, String)]| pairs.iter().cloned().collect::<BTreeMap<_, _>>();
    let surroundings = Surroundings {
        namespace: Namespace {
            name: flags.namespace.clone(),
            labels: known(&flags.namespace_labels),
            annotations: known(&flags.namespace_annotations),
        },
        variables: path::variables(&flags.path),
        native_sidecars: flags.native_sidecars,
    };
    manifest(name, text, &surroundings, configuration)
}

fn read(name: &str) -> io::Result<String> {
    let mut bytes = Vec::new();
    match name {
        "-" => io::stdin().read_to_end(&mut bytes)?,
        path => fs::File::open(path)?.read_to_end(&mut bytes)?,
    };
    String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}

fn told(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::InvalidData => "is no UTF-8; expected a manifest as YAML or JSON in UTF-8".to_owned(),
        io::ErrorKind::IsADirectory => {
            "is a folder; name each of its files with a flag of its own".to_owned()
        }
        _ => format!("can't be read: {error}; expected a manifest as YAML or JSON, or - for standard input"),
    }
}

fn tell(note: &Note) {
    match note {
        // As upstream prints it, for whoever looks for it in logs.
        Note::Skipped { .. } => anstream::eprintln!("{note}"),
        Note::Stranger { .. } | Note::Warning { .. } | Note::Anew { .. } => warn(note),
    }
}

fn warn(text: impl std::fmt::Display) {
    anstream::eprintln!("{} {text}", Tone::Passing.paint("warning:"));
}
