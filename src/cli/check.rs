//! `sidecar-init check`: how the rules differ from the desired ones.

use super::noted::{self, NotedSettings};
use super::run::{self, Format, ResolvedCall};
use super::{
    Exit, change, host::System, logging, logging::Stdout, manifest, paint, report, rule_views, warn,
};
use diagnose::{Basis, Style, Subject, basis, fold};
use mesh::OWNERS;
use mesh::Problems;
use rules::{
    Ownership,
    drift::{Compared, Reason, Side},
    render,
};
use serde::Serialize;
use sidecar_init::engine::{self, LiveComparison};
use std::slice;

pub(super) fn run(subjects: &[Subject]) -> Result<Exit, Problems> {
    let subject = manifest::only(subjects)?;
    let Some(basis) = subject.described() else {
        return Ok(match noted::settings(subject)? {
            Ok(NotedSettings::Found(noted, basis)) => check(&noted, &basis)?,
            Ok(other) => return Err(noted::needed(&other)),
            Err(exit) => exit,
        });
    };
    check(subject, &basis)
}

fn check(subject: &Subject, basis: &Basis) -> Result<Exit, Problems> {
    let call = run::resolve(&subject.raw, &System::of(&subject.raw), subject.before.clone())?;
    manifest::begin(slice::from_ref(subject), &call.logging, [&call.warnings], Stdout::Answer)?;
    let exit = compare(&call, basis, subject);
    warn(subject, &call);
    Ok(exit)
}

fn compare(call: &ResolvedCall, basis: &Basis, subject: &Subject) -> Exit {
    let ResolvedCall { capture, run, .. } = call;
    let compared = run.session(capture.owner()).map_err(engine::EngineError::from).and_then(|mut session| {
        let compared = session.check(&capture.desired())?;
        Ok((compared, change::warned(session.preceding_rules()?)))
    });
    let (compared, mut before) = match compared {
        Ok(compared) => compared,
        Err(error) => return report::failure(&error, Exit::Failed),
    };
    let LiveComparison { backend, differences, .. } = &compared;
    let others = others(&compared, &capture.owner());
    for Other { mesh: _, text, remedy } in &others {
        tracing::warn!(target: "iptables", "{text}; {remedy}");
    }
    let is_equal = differences.is_empty();
    // Where the rules themselves differ, packets do as well.
    if is_equal && others.is_empty() {
        match rule_views::decided_by_others(run, capture) {
            Ok(texts) => before.extend(texts.into_iter().inspect(|text| {
                tracing::warn!(target: "iptables", "rules of others decide: {text}");
            })),
            Err(error) => return report::failure(&*error, Exit::Failed),
        }
    }
    let is_alone = before.is_empty() && others.is_empty();
    let printed = match run.format {
        Format::Text => {
            let text = match (is_equal, is_alone) {
                (true, true) => format!("Rules are in place ({backend})\n"),
                (true, false) => "No rule differs\n".to_owned(),
                (false, _) => {
                    let meaning = meaning(&compared, call, subject);
                    meaning + "\n" + &paint::diff(&differences.to_string(), report::line_width())
                }
            };
            report::text(&(basis.line(report::line_width()) + &text))
        }
        Format::Data(encoding) => report::data(encoding, &CheckReport::new(basis, &compared, before, others)),
    };
    if printed == Exit::Done && !is_equal && !logging::is_plain() {
        tracing::warn!(target: "iptables", %backend, "the rules differ from the desired ones");
    }
    match printed {
        Exit::Done if !is_equal || !is_alone => Exit::Drift,
        exit => exit,
    }
}

/// How many rules differ, and which packets that concerns.
fn meaning(compared: &LiveComparison, call: &ResolvedCall, subject: &Subject) -> String {
    let differences = &compared.differences;
    let of_chains = differences.chains.iter().flat_map(|(.., drift)| &drift.lines);
    let of_chains = of_chains.map(|line| (line.side, line.reason));
    let of_table = differences.nftables.iter().flat_map(|part| &part.lines);
    let of_table = of_table.map(|line| (line.side, line.reason));
    let of_routes = differences.routes.iter().map(|(_, reason)| match reason {
        Reason::Missing => (Side::Desired, Some(*reason)),
        _ => (Side::Live, Some(*reason)),
    });
    let lines: Vec<(Side, Option<Reason>)> = of_chains.chain(of_table).chain(of_routes).collect();
    // What is changed or moved has a line on each side.
    let count = |reason: Reason| {
        let on = |side: Side| lines.iter().filter(|line| **line == (side, Some(reason))).count();
        on(Side::Both) + on(Side::Live).max(on(Side::Desired))
    };
    let counted = [
        (Reason::Missing, "missing"),
        (Reason::Extra, "extra"),
        (Reason::Changed, "changed"),
        (Reason::Moved, "moved"),
        (Reason::ForeignBefore, "of other programs first"),
    ];
    let counted =
        counted.into_iter().map(|(reason, word)| (count(reason), word)).filter(|(count, _)| *count > 0);
    let counted: Vec<String> = counted.map(|(count, word)| format!("{count} {word}")).collect();
    let head = if counted.is_empty() { "chains differ".to_owned() } else { counted.join(", ") };
    let mut text = format!("{}\n", Style::Strong.paint(format!("Rules differ: {head}")));
    match rule_views::changed_verdicts(&call.run, &call.capture, subject.dialect()) {
        Ok(comparison) => {
            let changes = comparison.shown().0;
            if !changes.is_empty() {
                text.push_str("Verdicts, as desired -> as live:\n");
            }
            for change in changes.iter().take(CHANGES) {
                text.push_str(&fold(&format!("  {}\n", change.line()), 4, report::line_width()));
            }
            match changes.len() {
                0 if comparison.complete => text.push_str("  no packet ends otherwise\n"),
                count if count > CHANGES => {
                    text.push_str(&format!("  and {} more changes\n", count - CHANGES));
                }
                _ => {}
            }
        }
        Err(error) => tracing::debug!(target: "iptables", "the verdicts can't be compared: {error}"),
    }
    text
}

/// So many changed verdicts are shown before the rules themselves.
const CHANGES: usize = 4;

/// Who else captures in the namespace: `apply` would refuse, whatever our rules are like.
fn others(compared: &LiveComparison, owner: &Ownership) -> Vec<Other> {
    let other = |(other, by_what): (Ownership, String)| Other {
        mesh: other.mesh,
        text: format!("{} captures here too ({by_what}), so apply would refuse", other.name),
        remedy: engine::remedy_of(&other),
    };
    compared.live.others(owner, OWNERS).map(other).collect()
}

/// The outcome as programs read it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct CheckReport {
    /// The source of the desired rules.
    basis: basis::BasisReport,
    /// Whether nothing differs, no foreign rule decides before ours, and no other mesh captures.
    equal: bool,
    /// The backend that holds our rules, or would hold them.
    backend: String,
    /// Differing chains of iptables.
    chains: Vec<DifferingChain>,
    /// Differing parts of our nf_tables table.
    nftables: Vec<DifferingPart>,
    /// Differing policy rules, routes and addresses.
    routes: Vec<DifferingRoute>,
    /// Foreign rules that decide before ours.
    before: Vec<String>,
    /// Other meshes that capture in this namespace.
    others: Vec<Other>,
}

/// Another mesh that captures.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Other {
    /// The mesh, a value of `--mesh`.
    mesh: &'static str,
    /// How it was recognized.
    text: String,
    /// The command that removes it.
    remedy: String,
}

/// A differing chain of iptables.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DifferingChain {
    /// The variant of iptables.
    backend: String,
    /// The family: ipv4 or ipv6.
    family: &'static str,
    /// The table of the rule.
    table: &'static str,
    /// Its name.
    chain: String,
    /// All its rules, including equal ones.
    rules: Vec<CheckedRule>,
}

/// A differing part of our nf_tables table.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DifferingPart {
    /// The name of the part.
    part: String,
    /// All its rules or elements, including equal ones.
    rules: Vec<CheckedRule>,
}

/// A rule, existing or desired.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CheckedRule {
    /// Whether the rule is in both sets, or in which one.
    side: &'static str,
    /// The text.
    text: String,
    /// The reason of the difference; null if equal.
    reason: Option<String>,
}

/// A differing policy rule, route or address.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DifferingRoute {
    /// The text.
    text: String,
    /// The reason of the difference.
    reason: String,
}

impl CheckedRule {
    fn new<T>(Compared { side, reason, .. }: &Compared<T>, text: String) -> Self {
        Self { side: side.name(), text, reason: reason.map(|reason| reason.to_string()) }
    }
}

impl CheckReport {
    fn new(basis: &Basis, compared: &LiveComparison, before: Vec<String>, others: Vec<Other>) -> Self {
        let LiveComparison { backend, differences, .. } = compared;
        let chains = differences.chains.iter().map(|(variant, family, drift)| DifferingChain {
            backend: variant.to_string(),
            family: family.word(),
            table: drift.table.name(),
            chain: drift.chain.to_string(),
            rules: drift
                .lines
                .iter()
                .map(|c| CheckedRule::new(c, render::iptables::appended(&drift.chain, &c.line)))
                .collect(),
        });
        let nftables = differences.nftables.iter().map(|difference| DifferingPart {
            part: difference.subject.to_string(),
            rules: difference.lines.iter().map(|c| CheckedRule::new(c, c.line.clone())).collect(),
        });
        let routes = differences
            .routes
            .iter()
            .map(|(object, reason)| DifferingRoute { text: object.to_string(), reason: reason.to_string() });
        Self {
            basis: basis.report(),
            equal: differences.is_empty() && before.is_empty() && others.is_empty(),
            backend: backend.to_string(),
            chains: chains.collect(),
            nftables: nftables.collect(),
            routes: routes.collect(),
            before,
            others,
        }
    }
}
