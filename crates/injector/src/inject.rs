//! `inject`: outputs manifests with injected pods. A drop-in for `istioctl kube-inject`.
//!
//! All input is read and injected before any output: a problem with one object prevents all output.

use crate::input::{Input, revision};
use crate::output::{self, ColourChoice, warn};
use crate::sources::{ConfigurationSources, configuration};
use clap::Args;
use injection::offline::{Manifest, Note, RefusedManifest, Surroundings, diff, manifest};
use injection::{admission::path_variables, pipeline::TEMPLATES};
use mesh::{InputProblem, Problems, pod::KubernetesObject};
use serde_json::{Deserializer, Map, Value};
use std::{error::Error, path::PathBuf, process::ExitCode};

#[derive(Args)]
pub(crate) struct InjectFlags {
    #[command(flatten)]
    input: Input,
    /// Output file, replaced atomically [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    sources: ConfigurationSources,
    /// Control plane revision, overriding the one in the values
    #[arg(short, long, value_name = "NAME", value_parser = revision)]
    revision: Option<String>,
    /// Webhook path; pairs after /inject, such as cluster/east/net/one, become the proxy's variables
    #[arg(long, value_name = "PATH", default_value = "/inject", value_parser = webhook_path)]
    path: String,
    /// Assume that all kubelets support native sidecars (Kubernetes 1.33 and newer)
    #[arg(long)]
    native_sidecars: bool,
    /// Print the changes as a patch; exit with 0 if there are none, 1 if any, 2 on error, like `kubectl diff`
    #[arg(long, conflicts_with = "output")]
    diff: bool,
    /// Colours: auto follows the terminal and NO_COLOR
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColourChoice::Auto)]
    color: ColourChoice,
    #[command(flatten)]
    of_cluster: OfCluster,
}

pub(crate) fn webhook_path(text: &str) -> Result<String, String> {
    match text.strip_prefix("/inject") {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => Ok(text.to_owned()),
        Some(_) | None => {
            Err("expected /inject followed by pairs, such as /inject/cluster/east/net/one".to_owned())
        }
    }
}

pub(crate) fn run(flags: &InjectFlags) -> Result<ExitCode, Box<dyn Error>> {
    flags.color.choose();
    let done = injected(flags).map_err(Box::<dyn Error>::from).and_then(|files| print(flags, &files));
    match done {
        // With --diff, exit code 1 means changes.
        Err(error) if flags.diff => {
            output::fail(error);
            Ok(ExitCode::from(2))
        }
        done => done,
    }
}

struct InjectedFile {
    name: String,
    text: String,
    done: Manifest,
}

fn print(flags: &InjectFlags, files: &[InjectedFile]) -> Result<ExitCode, Box<dyn Error>> {
    if flags.diff {
        let differences = files.iter().map(|file| diff(&file.name, &file.text, &file.done.text));
        let text: String = differences.collect();
        output::print_styled(&text)?;
        return Ok(ExitCode::from(u8::from(!text.is_empty())));
    }
    let texts: Vec<&str> = files.iter().map(|file| file.done.text.as_str()).collect();
    let text = join(&texts);
    match flags.output.as_deref() {
        Some(path) if path.as_os_str() != "-" => output::replace(path, &text)?,
        _ => output::print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// All files, or all their problems. Warnings are printed in either case.
fn injected(flags: &InjectFlags) -> Result<Vec<InjectedFile>, Problems> {
    let (configuration, mut problems) = configuration(&flags.sources, None, flags.revision.as_deref());
    configuration.warnings.iter().for_each(warn);
    let is_configured = problems.is_empty();
    let (read, mut namespaces, unread) = flags.input.read();
    problems.extend(unread);
    let objects = read.iter().filter_map(|file| KubernetesObject::all(&file.name, &file.text).ok());
    objects.flatten().for_each(|object| namespaces.describe(&object.value));
    let around = Surroundings {
        namespaces,
        variables: path_variables(&flags.path),
        native_sidecars: flags.native_sidecars,
    };
    let mut files = Vec::new();
    for file in read {
        let (name, text) = (file.name, file.text);
        match manifest(&name, &text, &around, &configuration) {
            Ok(done) => {
                done.notes.iter().for_each(report);
                files.push(InjectedFile { name, text, done });
            }
            Err(RefusedManifest { problems: Problems(found), notes }) => {
                notes.iter().for_each(report);
                // Missing templates may be in unreadable files.
                let counts = |problem: &InputProblem| is_configured || !problem.name.contains(TEMPLATES);
                problems.extend(found.into_iter().filter(counts));
            }
        }
    }
    Problems::check(problems).map(|()| files)
}

fn report(note: &Note) {
    match note {
        // Upstream's format, for scripts that search logs.
        Note::Skipped(_) => output::report(note),
        Note::Warning(_) => warn(note),
    }
}

/// `istioctl kube-inject` flags that read a cluster; refusals name their replacements.
#[derive(Args)]
struct OfCluster {
    #[arg(long = "injectConfigMapName", hide = true, value_parser = refused(INJECTOR))]
    config_map: Option<String>,
    #[arg(long = "webhookConfig", hide = true, value_parser = refused(INJECTOR))]
    webhook: Option<String>,
    #[arg(long = "meshConfigMapName", hide = true, value_parser = refused(MESH))]
    mesh_config_map: Option<String>,
    #[arg(long = "operatorFileName", hide = true, value_parser = refused(OPERATOR))]
    operator: Option<String>,
    #[arg(short = 'c', long, hide = true, value_parser = refused(CLUSTER))]
    kubeconfig: Option<String>,
    #[arg(long, hide = true, value_parser = refused(CLUSTER))]
    context: Option<String>,
    #[arg(short = 'i', long = "istioNamespace", hide = true, value_parser = refused(CLUSTER))]
    istio_namespace: Option<String>,
}

const INJECTOR: &str = "no cluster is read; save the ConfigMap istio-sidecar-injector to a file and pass \
                        it with --inject-config";
const MESH: &str = "no cluster is read; save the ConfigMap istio to a file and pass it with --mesh-config";
const OPERATOR: &str =
    "IstioOperators are not read; give values with --values and a MeshConfig with --mesh-config";
const CLUSTER: &str =
    "no cluster is read; save its ConfigMaps to files and pass them with --inject-config and --mesh-config";

fn refused(remedy: &'static str) -> impl Fn(&str) -> Result<String, String> + Clone {
    move |_| Err(remedy.to_owned())
}

/// Joins documents, adding missing markers between them; a single text is unchanged.
fn join(texts: &[&str]) -> String {
    let [first, rest @ ..] = texts else { return String::new() };
    let mut out = (*first).to_owned();
    let all_json = texts.iter().all(|text| is_json(text));
    for text in rest {
        // A byte order mark belongs at the start of a stream.
        let text = text.trim_start_matches('\u{feff}');
        let newline = if out.contains("\r\n") { "\r\n" } else { "\n" };
        if !out.is_empty() && !out.ends_with('\n') {
            out.push_str(newline);
        }
        let is_comment = |line: &str| matches!(line.trim_start().chars().next(), None | Some('#'));
        let begin = text.lines().find(|line| !is_comment(line)).unwrap_or_default();
        if !all_json && !begin.starts_with("---") && !out.is_empty() {
            // A directive has to follow the end of a document.
            out.push_str(if begin.starts_with('%') { "..." } else { "---" });
            out.push_str(newline);
        }
        out.push_str(text);
    }
    out
}

/// True for a stream of JSON objects. YAML may begin with a brace too.
fn is_json(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}');
    Deserializer::from_str(text).into_iter::<Map<String, Value>>().all(|object| object.is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_of_several_files_are_distinguished() {
        let check = |texts: &[&str], expected: &str| assert_eq!(join(texts), expected, "{texts:?}");
        check(&["a: 1"], "a: 1");
        check(&["a: 1", "b: 2\n"], "a: 1\n---\nb: 2\n");
        check(&["a: 1\r\n", "\u{feff}---\nb: 2\n"], "a: 1\r\n---\nb: 2\n");
        check(&["{}\n", "{}\n"], "{}\n{}\n");
        check(&["a: 1\n", "{}\n"], "a: 1\n---\n{}\n");
        check(&["a: 1\n", "%YAML 1.1\n---\nb: 2\n"], "a: 1\n...\n%YAML 1.1\n---\nb: 2\n");
        check(&["a: 1\n", "# c\n\n%YAML 1.1\n---\nb\n"], "a: 1\n...\n# c\n\n%YAML 1.1\n---\nb\n");
        check(&["a: 1\n", "# c\n---\nb: 2\n"], "a: 1\n# c\n---\nb: 2\n");
        check(&["a: 1\n", "# c\nb: 2\n"], "a: 1\n---\n# c\nb: 2\n");
    }

    #[test]
    fn yaml_that_begins_with_a_brace_is_not_taken_for_json() {
        for texts in [["{a: 1}\n", "{b: 2}\n"], ["{}\n---\n{}\n", "{}\n"], ["{}\n{}\n", "{}\n"]] {
            let joined = join(&texts);
            let values = mesh::pod::values("joined", &joined).unwrap_or_else(|problems| panic!("{problems}"));
            let each = texts.iter().flat_map(|text| mesh::pod::values("text", text)).flatten();
            assert_eq!(values, each.collect::<Vec<_>>(), "{joined}");
        }
    }
}
