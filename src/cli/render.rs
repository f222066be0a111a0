//! `sidecar-init render`: the rules that the flags describe, in a chosen language.

use super::manifest::{self, NotedSettings, Subject, SubjectSection};
use super::report::{self, Encoding};
use super::run::{self, Preview, ResolvedCall, Run};
use super::{Exit, RunResult, logging::Stdout};
use mesh::preview::{self, Printed};
use mesh::{Capture, CapturePolicy, Problems, Setting, sources::SettingReader};
use rules::{Checked, Family, Origin, Table};
use serde::Serialize;
use sidecar_init::engine::Choice;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    Rules(Preview),
    Preview(Preview),
    Data(Encoding),
}

pub(super) fn run(subjects: &[Subject]) -> RunResult {
    // A network namespace's rules are rendered from the settings stored there.
    if let [subject] = subjects
        && subject.namespace().is_some()
        && subject.described().is_none()
    {
        return match manifest::settings(subject)? {
            NotedSettings::Found(noted, _) => printed(&[*noted], prepare),
            other => Err(manifest::needed(&other).into()),
        };
    }
    printed(subjects, prepare)
}

pub(super) fn previews(subjects: &[Subject], form: fn(&Run) -> Preview) -> RunResult {
    printed(subjects, |subject| {
        let call = run::resolve(&subject.raw, &*subject.host(), subject.before.clone())?;
        Ok((Language::Preview(form(&call.run)), call))
    })
}

fn printed(
    subjects: &[Subject],
    prepare: impl Fn(&Subject) -> Result<(Language, ResolvedCall), Problems>,
) -> RunResult {
    let prepared = manifest::each(subjects, prepare)?;
    let Some((language, first)) = prepared.first() else { return Ok(Exit::Done) };
    let warnings = prepared.iter().map(|(_, call)| &call.warnings);
    manifest::begin(subjects, &first.run, warnings, Stdout::Answer)?;
    subjects.iter().for_each(manifest::note_assumption);
    let section = |(subject, (language, call)): (&Subject, &(_, ResolvedCall))| SubjectSection {
        title: subject.title.clone(),
        body: body(&call.capture, &call.run, *language),
    };
    let sections: Vec<SubjectSection> = subjects.iter().zip(&prepared).map(section).collect();
    match *language {
        Language::Data(encoding) => manifest::print_data(encoding, &sections),
        Language::Rules(_) | Language::Preview(_) => manifest::print(&sections, |title| format!("# {title}")),
    }
}

pub(super) fn as_comment(title: &str) -> String {
    // An XML comment can't contain two dashes. The second pass separates three dashes.
    format!("<!-- {} -->", title.replace("--", "- -").replace("--", "- -"))
}

fn prepare(subject: &Subject) -> Result<(Language, ResolvedCall), Problems> {
    let mut reader = SettingReader::new(&subject.raw, subject.before.clone());
    let rules = [Preview::Restore, Preview::Commands, Preview::Nft].map(Language::Rules);
    let languages = [&rules[..], &[Encoding::Json, Encoding::Yaml].map(Language::Data)].concat();
    let language = run::one_of(&mut reader, Setting::RenderFormat, &languages).unwrap_or(languages[0]);
    let call = run::finish(reader, &*subject.host())?;
    Ok((language, call))
}

fn body(config: &Capture, run: &Run, language: Language) -> String {
    match language {
        Language::Rules(form @ (Preview::Restore | Preview::Commands)) => {
            set_by(run) + &text(&**config, form)
        }
        Language::Rules(form) | Language::Preview(form) => text(&**config, form),
        Language::Data(_) => report::document(Encoding::Json, &RenderedRules::of(&**config)),
    }
}

fn set_by(run: &Run) -> String {
    let named = Choice::NAMED.iter().find(|(_, choice)| *choice == run.backend);
    format!("# apply sets these rules with {}\n", named.map_or("nftables", |(name, _)| name))
}

pub(super) fn preview(capture: &dyn CapturePolicy, form: Preview) -> RunResult {
    report::whole(&text(capture, form))
}

fn text(capture: &dyn CapturePolicy, form: Preview) -> String {
    let Printed { text, warning } = preview::print(capture, form);
    if let Some(warning) = warning {
        tracing::warn!(target: "config", "{warning}");
    }
    text
}

/// The rules, for programs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RenderedRules {
    /// One item for each captured family.
    families: Vec<OfFamily>,
}

/// The rules of one family.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct OfFamily {
    /// The family: ipv4 or ipv6.
    family: &'static str,
    /// Its chains, table by table.
    chains: Vec<RenderedChain>,
}

/// A chain.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RenderedChain {
    /// The chain's table.
    table: &'static str,
    /// Its name.
    chain: String,
    /// Its rules, in order.
    rules: Vec<RenderedRule>,
}

/// A rule.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RenderedRule {
    /// The rule as arguments of `iptables -A CHAIN`.
    text: String,
    /// Its conditions.
    matches: Vec<String>,
    /// The target.
    target: String,
    /// The rule's short name.
    rule: Option<&'static str>,
    /// The option that made the rule; empty for unconditional rules.
    option: Option<String>,
}

impl RenderedRules {
    fn of(config: &dyn CapturePolicy) -> Self {
        let of_family = |family: Family| {
            let rules = config.rules(family);
            let chains = Table::LISTED.into_iter().flat_map(|table| chains(&rules, table)).collect();
            OfFamily { family: family.word(), chains }
        };
        Self { families: config.families().map(of_family).collect() }
    }
}

fn option(origin: Origin) -> String {
    if origin.option.is_empty() { String::new() } else { origin.option_text() }
}

fn chains(rules: &Checked, table: Table) -> Vec<RenderedChain> {
    let chains = rules.rules().chains(table).into_iter().map(|(chain, statements)| RenderedChain {
        table: table.name(),
        chain: chain.to_string(),
        rules: statements
            .into_iter()
            .map(|statement| RenderedRule {
                text: statement.rule.to_string(),
                matches: statement.rule.matches.iter().map(ToString::to_string).collect(),
                target: statement.rule.target.to_string(),
                rule: statement.origin.map(|origin| origin.name),
                option: statement.origin.map(option),
            })
            .collect(),
    });
    chains.collect()
}

#[cfg(test)]
mod tests {
    use super::as_comment;

    #[test]
    fn titles_do_not_end_their_comment() {
        for count in 1..9 {
            let comment = as_comment(&format!("a{}>", "-".repeat(count)));
            let inner = comment.strip_prefix("<!-- ").and_then(|text| text.strip_suffix(" -->"));
            assert!(inner.is_some_and(|text| !text.contains("--")), "{comment}");
        }
    }
}
