//! `sidecar-init render`: the rules that the flags describe, in the language of one's choice.

use super::data::{self, Encoding};
use super::manifest::{self, Section, Subject};
use super::run::{self, Call, Preview, Run};
use super::{Exit, logging::Stdout, report};
use policy::istio::{self, CaptureConfig};
use policy::sources::Reader;
use policy::{Problems, Setting};
use rules::render::{dot::dot, graph::graph, iptables, mermaid::mermaid, nft, svg::svg};
use rules::{Checked, Family, Origin, Table};
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    Iptables,
    Commands,
    Nft,
    Data(Encoding),
    Mermaid,
    Dot,
    Svg,
}

/// Runs the command.
pub(super) fn run(subjects: &[Subject]) -> Result<Exit, Problems> {
    let prepared = manifest::each(subjects, prepare)?;
    let Some((language, _, first)) = prepared.first() else { return Ok(Exit::Done) };
    let warnings = prepared.iter().map(|(_, _, call)| &call.warnings);
    manifest::begin(subjects, &first.logging, warnings, Stdout::Answer)?;
    let sections: Vec<Section> = subjects
        .iter()
        .zip(&prepared)
        .map(|(subject, (language, family, call))| Section {
            title: subject.title.clone(),
            body: body(&call.capture, *language, *family),
        })
        .collect();
    Ok(match *language {
        Language::Data(encoding) => manifest::print_data(encoding, &sections),
        Language::Iptables | Language::Commands | Language::Nft => manifest::print(&sections, comment),
        Language::Mermaid => manifest::print(&sections, |title| format!("%% {title}")),
        Language::Dot => manifest::print(&sections, |title| format!("// {title}")),
        // Two dashes would end the comment.
        Language::Svg => {
            manifest::print(&sections, |title| format!("<!-- {} -->", title.replace("--", "- -")))
        }
    })
}

fn comment(title: &str) -> String {
    format!("# {title}")
}

fn prepare(subject: &Subject) -> Result<(Language, Family, Call), Problems> {
    let mut reader = Reader::new(&subject.raw, subject.before.clone());
    let expected = "iptables, commands, nft, json, yaml, mermaid, dot or svg";
    let language = reader.one_of(Setting::RenderFormat, expected, |text| match text {
        "iptables" => Some(Language::Iptables),
        "commands" => Some(Language::Commands),
        "nft" => Some(Language::Nft),
        "mermaid" => Some(Language::Mermaid),
        "dot" => Some(Language::Dot),
        "svg" => Some(Language::Svg),
        other => Encoding::named(other).map(Language::Data),
    });
    let family = reader.one_of(Setting::PictureFamily, "v4 or v6", |text| match text {
        "v4" => Some(Family::V4),
        "v6" => Some(Family::V6),
        _ => None,
    });
    let call = run::finish(reader, &*subject.host())?;
    Ok((language.unwrap_or(Language::Iptables), family.unwrap_or(Family::V4), call))
}

fn body(config: &CaptureConfig, language: Language, family: Family) -> String {
    let picture = || graph(&istio::rules(config, family));
    match language {
        Language::Iptables => text(config, Preview::Restore),
        Language::Commands => text(config, Preview::Commands),
        Language::Nft => text(config, Preview::Nft),
        Language::Data(_) => data::document(Encoding::Json, &Rules::of(config)),
        Language::Mermaid => mermaid(&picture()),
        Language::Dot => dot(&picture()),
        Language::Svg => svg(&picture()),
    }
}

/// Prints what pods of a manifest would get: a dry run, in the form that the command has for it.
pub(super) fn previews(subjects: &[Subject], form: fn(&Run) -> Preview) -> Result<Exit, Problems> {
    let calls = manifest::each(subjects, |subject| {
        run::resolve(&subject.raw, &*subject.host(), subject.before.clone())
    })?;
    let Some(first) = calls.first() else { return Ok(Exit::Done) };
    manifest::begin(subjects, &first.logging, calls.iter().map(|call| &call.warnings), Stdout::Answer)?;
    let section = |(subject, call): (&Subject, &Call)| Section {
        title: subject.title.clone(),
        body: text(&call.capture, form(&call.run)),
    };
    let sections: Vec<Section> = subjects.iter().zip(&calls).map(section).collect();
    Ok(manifest::print(&sections, comment))
}

/// Prints the rules as text: what a dry run shows.
pub(super) fn preview(capture: &CaptureConfig, form: Preview) -> Exit {
    report::text(&text(capture, form))
}

fn text(capture: &CaptureConfig, form: Preview) -> String {
    let rules = || capture.families().map(|family| istio::rules(capture, family)).collect::<Vec<_>>();
    match form {
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
    }
}

fn restore(rules: &Checked) -> String {
    let header = match rules.rules().family {
        Family::V4 => "# iptables-restore\n",
        Family::V6 => "# ip6tables-restore\n",
    };
    format!("{header}{}", iptables::restore(rules))
}

/// The rules as programs read them.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Rules {
    /// A part for each family that is captured.
    families: Vec<OfFamily>,
}

/// The rules of one family.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct OfFamily {
    /// The family: ipv4 or ipv6.
    family: &'static str,
    /// Its chains, table by table.
    chains: Vec<Chain>,
}

/// A chain.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Chain {
    /// The table that it is in.
    table: &'static str,
    /// Its name.
    chain: String,
    /// Its rules, in order.
    rules: Vec<Rule>,
}

/// A rule.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Rule {
    /// As `iptables -A CHAIN` takes it.
    text: String,
    /// Its conditions.
    matches: Vec<String>,
    /// What it does.
    target: String,
    /// The rule's short name.
    rule: Option<&'static str>,
    /// The option that made it; empty for what is always there.
    option: Option<String>,
}

impl Rules {
    fn of(config: &CaptureConfig) -> Self {
        let of_family = |family| OfFamily {
            family: report::family(family),
            chains: Table::LISTED
                .into_iter()
                .flat_map(|table| chains(&istio::rules(config, family), table))
                .collect(),
        };
        Self { families: config.families().map(of_family).collect() }
    }
}

fn option(origin: Origin) -> String {
    if origin.option.is_empty() { String::new() } else { origin.option_text() }
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
                rule: statement.origin.map(|origin| origin.name),
                option: statement.origin.map(option),
            })
            .collect(),
    });
    chains.collect()
}
