//! `sidecar-init render`: the rules that the flags describe, in the language of one's choice.

use super::run::{self, Preview};
use super::{Exit, begin, logging::Stdout, report};
use policy::istio::{self, CaptureConfig};
use policy::sources::{Host, Raw, Reader};
use policy::{Problem, Problems, Setting};
use rules::render::{dot::dot, graph::graph, iptables, mermaid::mermaid, nft, svg::svg};
use rules::{Checked, Family, Table};
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    Iptables,
    Commands,
    Nft,
    Json,
    Mermaid,
    Dot,
    Svg,
}

/// Runs the command.
pub(super) fn run(raw: &Raw, host: &dyn Host, problems: Vec<Problem>) -> Result<Exit, Problems> {
    let mut reader = Reader::new(raw, problems);
    let expected = "iptables, commands, nft, json, mermaid, dot or svg";
    let language = reader.one_of(Setting::RenderFormat, expected, |text| match text {
        "iptables" => Some(Language::Iptables),
        "commands" => Some(Language::Commands),
        "nft" => Some(Language::Nft),
        "json" => Some(Language::Json),
        "mermaid" => Some(Language::Mermaid),
        "dot" => Some(Language::Dot),
        "svg" => Some(Language::Svg),
        _ => None,
    });
    let family = reader.one_of(Setting::PictureFamily, "v4 or v6", |text| match text {
        "v4" => Some(Family::V4),
        "v6" => Some(Family::V6),
        _ => None,
    });
    let call = run::finish(reader, host)?;
    begin(raw, &call, Stdout::Answer)?;
    let config = &call.capture;
    let picture = || graph(&istio::rules(config, family.unwrap_or(Family::V4)));
    Ok(match language.unwrap_or(Language::Iptables) {
        Language::Iptables => preview(config, Preview::Restore),
        Language::Commands => preview(config, Preview::Commands),
        Language::Nft => preview(config, Preview::Nft),
        Language::Json => report::json(&data(config)),
        Language::Mermaid => report::text(&mermaid(&picture())),
        Language::Dot => report::text(&dot(&picture())),
        Language::Svg => report::text(&svg(&picture())),
    })
}

/// Prints the rules as text: what a dry run shows.
pub(super) fn preview(capture: &CaptureConfig, form: Preview) -> Exit {
    let rules = || capture.families().map(|family| istio::rules(capture, family)).collect::<Vec<_>>();
    report::text(&match form {
        Preview::Restore => {
            let rules = rules();
            if rules.iter().any(iptables::exceeds) {
                tracing::warn!(
                    target: "config",
                    "ISTIO_OUTBOUND_OWNER_GROUPS makes a rule of more words than iptables-restore takes; apply sets it, \
                     in fewer words, but these lines can't be piped there"
                );
            }
            rules.iter().map(restore).collect()
        }
        Preview::Commands => rules().iter().map(iptables::commands).collect(),
        Preview::Nft => {
            let table = istio::desired(capture).nft_table();
            format!("# nft -f\n{}", table.as_ref().map(nft::script).unwrap_or_default())
        }
    })
}

fn restore(rules: &Checked) -> String {
    let header = match rules.rules().family {
        Family::V4 => "# iptables-restore\n",
        Family::V6 => "# ip6tables-restore\n",
    };
    format!("{header}{}", iptables::restore(rules))
}

/// The rules of one family, as programs read them.
#[derive(Serialize)]
struct Rules {
    family: &'static str,
    chains: Vec<Chain>,
}

#[derive(Serialize)]
struct Chain {
    table: &'static str,
    chain: String,
    rules: Vec<Rule>,
}

#[derive(Serialize)]
struct Rule {
    /// As `iptables -A CHAIN` takes it.
    text: String,
    matches: Vec<String>,
    target: String,
    /// The rule's short name, and the option that made it.
    name: Option<&'static str>,
    option: Option<&'static str>,
}

fn data(config: &CaptureConfig) -> Vec<Rules> {
    let of_family = |family| Rules {
        family: report::family(family),
        chains: Table::LISTED
            .into_iter()
            .flat_map(|table| chains(&istio::rules(config, family), table))
            .collect(),
    };
    config.families().map(of_family).collect()
}

fn chains(rules: &Checked, table: Table) -> Vec<Chain> {
    let chains = rules.rules().chains(table).into_iter().map(|(chain, statements)| Chain {
        table: table.name(),
        chain: chain.to_string(),
        rules: statements
            .into_iter()
            .map(|statement| Rule {
                text: iptables::rule(&statement.rule),
                matches: statement.rule.matches.iter().map(iptables::condition).collect(),
                target: iptables::target_text(&statement.rule.target),
                name: statement.origin.map(|origin| origin.name),
                option: statement.origin.map(|origin| origin.option),
            })
            .collect(),
    });
    chains.collect()
}
