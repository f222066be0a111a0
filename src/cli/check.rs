//! `sidecar-init check`: how the rules differ from the wanted ones.

use super::run::{Call, Format};
use super::{Exit, change, paint, report};
use policy::istio;
use rules::{drift::Compared, render};
use serde::Serialize;
use sidecar_init::engine::{self, Comparison, Preference};

/// Runs the command.
pub(super) fn run(call: &Call) -> Exit {
    let Call { capture, run, .. } = call;
    let choice = run.backend.choice(Preference::Nftables);
    let compared = run.open().map_err(engine::Error::from).and_then(|mut kernel| {
        let compared = engine::check(&mut kernel, &istio::desired(capture), choice)?;
        Ok((compared, change::before(&mut kernel)?))
    });
    let (compared, before) = match compared {
        Ok(compared) => compared,
        Err(error) => return report::failure(&error, Exit::Failed),
    };
    let Comparison { backend, differences } = &compared;
    let is_equal = differences.is_empty();
    let printed = match run.format {
        Format::Text => report::text(&paint::diff(&differences.to_string(), report::line_width())),
        Format::Json => report::json(&Report::new(&compared, before.clone())),
    };
    if printed == Exit::Done && !is_equal {
        tracing::warn!(target: "iptables", %backend, "the rules are not as wanted");
    }
    match printed {
        Exit::Done if !is_equal || !before.is_empty() => Exit::Drift,
        exit => exit,
    }
}

/// The outcome as programs read it.
#[derive(Serialize)]
struct Report {
    equal: bool,
    backend: String,
    chains: Vec<Chain>,
    nftables: Vec<Part>,
    routes: Vec<Route>,
    /// What of others decides before our rules.
    before: Vec<String>,
}

#[derive(Serialize)]
struct Chain {
    backend: String,
    family: String,
    table: &'static str,
    chain: String,
    rules: Vec<Rule>,
}

/// A part of our table of nf_tables.
#[derive(Serialize)]
struct Part {
    part: String,
    lines: Vec<Rule>,
}

#[derive(Serialize)]
struct Rule {
    side: &'static str,
    rule: String,
    reason: Option<String>,
}

#[derive(Serialize)]
struct Route {
    object: String,
    reason: String,
}

impl Rule {
    fn new<T>(Compared { side, reason, .. }: &Compared<T>, rule: String) -> Self {
        Self { side: side.name(), rule, reason: reason.map(|reason| reason.to_string()) }
    }
}

impl Report {
    fn new(Comparison { backend, differences }: &Comparison, before: Vec<String>) -> Self {
        let chains = differences.chains.iter().map(|(variant, family, drift)| Chain {
            backend: variant.to_string(),
            family: family.to_string(),
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
            lines: difference.lines.iter().map(|c| Rule::new(c, c.line.clone())).collect(),
        });
        let routes = differences
            .routes
            .iter()
            .map(|(object, reason)| Route { object: object.to_string(), reason: reason.to_string() });
        Self {
            equal: differences.is_empty() && before.is_empty(),
            backend: backend.to_string(),
            chains: chains.collect(),
            nftables: nftables.collect(),
            routes: routes.collect(),
            before,
        }
    }
}
