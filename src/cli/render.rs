//! `sidecar-init render`: the rules that the flags describe, in the language of one's choice.

use super::manifest::{self, Section, Subject};
use super::run::{self, Call, Preview, Run};
use super::{Exit, logging::Stdout, report};
use policy::istio::{self, CaptureConfig};
use policy::sources::Reader;
use policy::{Problems, Setting, preview};
use rules::render::{dot::dot, graph::graph, iptables, mermaid::mermaid, svg::svg};
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
        Language::Json => manifest::print_json(&sections),
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
    let call = run::finish(reader, &*subject.host())?;
    Ok((language.unwrap_or(Language::Iptables), family.unwrap_or(Family::V4), call))
}

fn body(config: &CaptureConfig, language: Language, family: Family) -> String {
    let picture = || graph(&istio::rules(config, family));
    match language {
        Language::Iptables => text(config, Preview::Restore),
        Language::Commands => text(config, Preview::Commands),
        Language::Nft => text(config, Preview::Nft),
        Language::Json => report::document(&data(config)),
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
    if let Some(warning) = preview::warning(capture, form) {
        tracing::warn!(target: "config", "{warning}");
    }
    preview::text(capture, form)
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
