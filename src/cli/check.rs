//! `sidecar-init check`: how the rules differ from the desired ones.

use super::noted::{self, NotedSettings};
use super::run::{self, Call, Format};
use super::{Exit, change, host::System, logging::Stdout, manifest, paint, report, scenes, warn};
use diagnose::{Basis, Subject, basis};
use mesh::OWNERS;
use mesh::Problems;
use rules::{Ownership, drift::Compared, render};
use serde::Serialize;
use sidecar_init::engine::{self, Comparison};
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
    let call = run::resolve(&subject.raw, &System::Any, subject.before.clone())?;
    manifest::begin(slice::from_ref(subject), &call.logging, [&call.warnings], Stdout::Answer)?;
    let exit = compare(&call, basis);
    warn(subject, &call);
    Ok(exit)
}

fn compare(call: &Call, basis: &Basis) -> Exit {
    let Call { capture, run, .. } = call;
    let compared = run.session(capture.owner()).map_err(engine::Error::from).and_then(|mut session| {
        let compared = session.check(&capture.desired())?;
        Ok((compared, change::warned(session.preceding_rules()?)))
    });
    let (compared, mut before) = match compared {
        Ok(compared) => compared,
        Err(error) => return report::failure(&error, Exit::Failed),
    };
    let Comparison { backend, differences, .. } = &compared;
    let others = others(&compared, &capture.owner());
    for Other { mesh: _, text, remedy } in &others {
        tracing::warn!(target: "iptables", "{text}; {remedy}");
    }
    let is_equal = differences.is_empty();
    // Where the rules themselves differ, packets do as well.
    if is_equal && others.is_empty() {
        match scenes::decided_by_others(run, capture) {
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
                (true, true) => format!("the rules are in place ({backend})\n"),
                (true, false) => "nothing differs\n".to_owned(),
                (false, _) => paint::diff(&differences.to_string(), report::line_width()),
            };
            report::text(&(basis.line(report::line_width()) + &text))
        }
        Format::Data(encoding) => report::data(encoding, &Report::new(basis, &compared, before, others)),
    };
    if printed == Exit::Done && !is_equal {
        tracing::warn!(target: "iptables", %backend, "the rules differ from the desired ones");
    }
    match printed {
        Exit::Done if !is_equal || !is_alone => Exit::Drift,
        exit => exit,
    }
}

/// Who else captures in the namespace: `apply` would refuse, whatever our rules are like.
fn others(compared: &Comparison, owner: &Ownership) -> Vec<Other> {
    let other = |(other, by_what): (Ownership, String)| Other {
        mesh: other.mesh,
        text: format!("{} captures here too ({by_what}), so apply would refuse", other.name),
        remedy: engine::remedy_of(&other),
    };
    compared.there.others(owner, OWNERS).map(other).collect()
}

/// The outcome as programs read it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Report {
    /// The source of the desired rules.
    basis: basis::Report,
    /// Whether nothing differs, no rule of another program decides before ours, and no other mesh captures.
    equal: bool,
    /// Which holds our rules, or would.
    backend: String,
    /// Chains of iptables that differ.
    chains: Vec<Chain>,
    /// Parts of our table of nf_tables that differ.
    nftables: Vec<Part>,
    /// Policy rules, routes and addresses that differ.
    routes: Vec<Route>,
    /// What of others decides before our rules.
    before: Vec<String>,
    /// The other meshes that capture here too.
    others: Vec<Other>,
}

/// Another mesh that captures.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Other {
    /// The mesh, as `--mesh` takes it.
    mesh: &'static str,
    /// By what it is known.
    text: String,
    /// What removes it.
    remedy: String,
}

/// A chain of iptables that differs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Chain {
    /// The variant of iptables.
    backend: String,
    /// The family: ipv4 or ipv6.
    family: &'static str,
    /// The table that it is in.
    table: &'static str,
    /// Its name.
    chain: String,
    /// Its rules, those that are equal too.
    rules: Vec<Rule>,
}

/// A part of our table of nf_tables that differs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Part {
    /// Which part.
    part: String,
    /// Its rules or elements, those that are equal too.
    rules: Vec<Rule>,
}

/// A rule, existing or desired.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Rule {
    /// Whether it is in both, or in one only.
    side: &'static str,
    /// What it says.
    text: String,
    /// Why it differs; null where it does not.
    reason: Option<String>,
}

/// A policy rule, route or address that differs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Route {
    /// What it says.
    text: String,
    /// Why it differs.
    reason: String,
}

impl Rule {
    fn new<T>(Compared { side, reason, .. }: &Compared<T>, text: String) -> Self {
        Self { side: side.name(), text, reason: reason.map(|reason| reason.to_string()) }
    }
}

impl Report {
    fn new(basis: &Basis, compared: &Comparison, before: Vec<String>, others: Vec<Other>) -> Self {
        let Comparison { backend, differences, .. } = compared;
        let chains = differences.chains.iter().map(|(variant, family, drift)| Chain {
            backend: variant.to_string(),
            family: report::family(*family),
            table: drift.table.name(),
            chain: drift.chain.to_string(),
            rules: drift
                .lines
                .iter()
                .map(|c| Rule::new(c, render::iptables::appended(&drift.chain, &c.line)))
                .collect(),
        });
        let nftables = differences.nftables.iter().map(|difference| Part {
            part: difference.subject.to_string(),
            rules: difference.lines.iter().map(|c| Rule::new(c, c.line.clone())).collect(),
        });
        let routes = differences
            .routes
            .iter()
            .map(|(object, reason)| Route { text: object.to_string(), reason: reason.to_string() });
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
