//! `check-templates`: compares a cluster's pods with this injector's output for the cluster's ConfigMaps.

use crate::output::{self, ColourChoice, fail, warn};
use crate::{inject::webhook_path, input, sources};
use clap::Args;
use command_line::program::BAD_INPUT;
use diagnose::Style;
use injection::compare::{ComparisonVerdict, PodComparison, compare};
use injection::trial::{TemplateTrial, trial};
use injection::{Configuration, Namespaces, admission::path_variables};
use mesh::{InputProblem, Problems, visible};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::{error::Error, fmt::Write, process::ExitCode};

/// Exit code if a template fails, or a pod would differ.
const DIFFERS: u8 = 3;

/// Templates in Istio's ConfigMap from which its control plane deploys gateways; pods don't use them.
const OF_GATEWAYS: [&str; 3] = ["agentgateway", "kube-gateway", "waypoint"];

#[derive(Args)]
pub(crate) struct CheckTemplatesFlags {
    /// ConfigMaps istio-sidecar-injector and istio, as kubectl prints them; - is standard input; repeatable
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    filenames: Vec<String>,
    /// Running pods to compare, as kubectl prints them; by default, templates are rendered for plain pods; repeatable
    #[arg(long, value_name = "FILE")]
    against: Vec<String>,
    /// Webhook path; pairs after /inject, such as cluster/east/net/one, become the proxy's variables
    #[arg(long, value_name = "PATH", default_value = "/inject", value_parser = webhook_path)]
    path: String,
    /// Colours: auto follows the terminal and NO_COLOR
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColourChoice::Auto)]
    color: ColourChoice,
}

pub(crate) fn run(flags: &CheckTemplatesFlags) -> Result<ExitCode, Box<dyn Error>> {
    flags.color.choose();
    let (text, is_equal) = match checked(flags) {
        Ok(checked) => checked,
        Err(problems) => {
            fail(problems);
            return Ok(ExitCode::from(BAD_INPUT));
        }
    };
    output::print_styled(&text)?;
    Ok(ExitCode::from(if is_equal { 0 } else { DIFFERS }))
}

fn checked(flags: &CheckTemplatesFlags) -> Result<(String, bool), Problems> {
    let configuration = sources::of_config_maps(&flags.filenames)?;
    configuration.warnings.iter().for_each(warn);
    if flags.against.is_empty() {
        return Ok(templates(&configuration));
    }
    let objects = input::objects("--against", &flags.against, "output of kubectl get pods -o yaml")?;
    let mut namespaces = Namespaces::new("default", None, BTreeMap::new());
    objects.iter().for_each(|object| namespaces.describe(object));
    let pods: Vec<&Value> = objects.iter().filter(|object| object["kind"] == "Pod").collect();
    if pods.is_empty() {
        let text = "holds no pod; expected output of kubectl get pods -o yaml";
        return Err(Problems(vec![InputProblem::of("--against", text)]));
    }
    let variables = path_variables(&flags.path);
    let compared: Vec<PodComparison> =
        pods.iter().map(|pod| compare(pod, &namespaces, &variables, &configuration)).collect();
    Ok((summary(&compared), !compared.iter().any(|one| one.verdict.is_change())))
}

fn templates(configuration: &Configuration) -> (String, bool) {
    let (mut out, mut is_equal) = (String::new(), true);
    for TemplateTrial { template, problems, refusals, .. } in trial(configuration) {
        let name = Style::Strong.paint(&template);
        let line = if OF_GATEWAYS.contains(&&*template) {
            Style::Quiet.paint("not checked: Istio's control plane deploys gateways from it")
        } else if problems.is_empty() && refusals.is_empty() {
            Style::Captured.paint("renders for plain pods")
        } else {
            is_equal = false;
            let problems = problems.iter().chain(&refusals);
            let problems = problems.map(|problem| format!("\n  {problem}")).collect::<String>();
            format!("{}{problems}", Style::Dropped.paint("fails for plain pods"))
        };
        writeln!(out, "{name}: {line}").expect("a String can't fail");
    }
    (out, is_equal)
}

fn summary(compared: &[PodComparison]) -> String {
    let mut groups: BTreeMap<(String, Vec<String>), BTreeSet<&str>> = BTreeMap::new();
    let mut counts = [0_usize; 5];
    for PodComparison { pod, verdict } in compared {
        let (at, words, lines) = match verdict {
            ComparisonVerdict::Same => (0, String::new(), Vec::new()),
            ComparisonVerdict::Differs(found) => {
                (1, "would differ".to_owned(), found.iter().map(ToString::to_string).collect())
            }
            ComparisonVerdict::Refused(Problems(found)) => {
                (2, "would be refused".to_owned(), found.iter().map(ToString::to_string).collect())
            }
            ComparisonVerdict::Skipped(reason) => (3, format!("would not be injected: {reason}"), Vec::new()),
            ComparisonVerdict::NotInjected => (4, String::new(), Vec::new()),
        };
        counts[at] += 1;
        if verdict.is_change() {
            groups.entry((words, lines)).or_default().insert(pod);
        }
    }
    let mut out = String::new();
    for ((words, lines), pods) in groups {
        let first = pods.first().copied().unwrap_or_default();
        let others = match pods.len() - 1 {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
        let title = Style::Strong.paint(format!("{}{others}", visible(first)));
        write!(out, "{title}: {}\n{lines}", Style::Dropped.paint(words)).expect("a String can't fail");
    }
    let [same, differ, refused, without, never] = counts;
    let pods = if compared.len() == 1 { "pod" } else { "pods" };
    writeln!(
        out,
        "{} {pods}: {same} the same, {differ} would differ, {refused} would be refused, {without} would not be injected, \
         {never} never injected",
        compared.len()
    )
    .expect("a String can't fail");
    out
}
