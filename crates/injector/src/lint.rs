//! `lint`: suspicious pods, webhooks and Services in manifests, or in kubectl's output from a cluster.

use crate::input::Input;
use crate::output::{self, ColourChoice};
use clap::{Args, ValueEnum};
use command_line::{columns, program::BAD_INPUT};
use diagnose::lint::Code;
use injection::cluster_lint::{
    ClusterLintReport, ClusterQuestion, lint_cluster, objects_of_file, sarif, text,
};
use mesh::Problems;
use std::{error::Error, process::ExitCode};

const DENIED: u8 = 1;

#[derive(Args)]
#[command(after_help = "\
The input is any set of pods, workloads, Namespaces, MutatingWebhookConfigurations, Services, and the injector's ConfigMaps. \
Checks that need more input are listed after the findings.")]
pub(crate) struct LintFlags {
    #[command(flatten)]
    input: Input,
    /// Exit with 1 if there is a warning
    #[arg(long)]
    deny: bool,
    /// Include notes
    #[arg(long)]
    notes: bool,
    /// Omit findings of this code, such as SI033; repeatable
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = Code::given)]
    allow: Vec<Code>,
    /// Output format
    #[arg(short, long, alias = "format", value_enum, value_name = "FORMAT", default_value_t = LintOutput::Text)]
    output: LintOutput,
    /// Colours: auto follows the terminal and NO_COLOR
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColourChoice::Auto)]
    color: ColourChoice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LintOutput {
    Text,
    Json,
    Sarif,
}

pub(crate) fn run(flags: &LintFlags) -> Result<ExitCode, Box<dyn Error>> {
    flags.color.choose();
    let mut found = match findings(flags) {
        Ok(found) => found,
        Err(problems) => {
            output::fail(problems);
            return Ok(ExitCode::from(BAD_INPUT));
        }
    };
    found.select(flags.notes, &flags.allow);
    let is_denied = flags.deny && found.has_warning();
    match flags.output {
        LintOutput::Text => output::print_styled(&text(&found, columns::of_terminal()))?,
        LintOutput::Json => output::print(&format!("{}\n", serde_json::to_string_pretty(&found)?))?,
        LintOutput::Sarif => output::print(&sarif(&found, env!("CARGO_PKG_VERSION")))?,
    }
    Ok(ExitCode::from(if is_denied { DENIED } else { 0 }))
}

fn findings(flags: &LintFlags) -> Result<ClusterLintReport, Problems> {
    let (files, namespaces, mut problems) = flags.input.read();
    let mut objects = Vec::new();
    for file in &files {
        match objects_of_file(&file.name, &file.text) {
            Ok(found) => objects.extend(found),
            Err(Problems(found)) => problems.extend(found),
        }
    }
    Problems::check(problems)?;
    for object in &mut objects {
        object.place.take_if(|place| flags.input.is_standard_input(&place.file));
    }
    Ok(lint_cluster(&ClusterQuestion { objects: &objects, namespaces, is_whole: false }))
}
