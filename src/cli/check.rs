//! `sidecar-init check`: how the rules differ from the wanted ones.

use super::run::{Call, Format};
use super::{
    Exit, change, report,
    target::{self, Target, Usual},
};
use policy::istio;
use rules::{drift::Side, render};
use serde::Serialize;
use sidecar_init::{
    backend::{Backend, Error, Kernel},
    operations::{self, Differences},
};

/// Runs the command.
pub(super) fn run(call: &Call) -> Exit {
    let (target, differences) = match compare(call) {
        Ok(compared) => compared,
        Err(error) => return report::failure(&error, Exit::Failed),
    };
    let printed = match call.run.format {
        Format::Text => report::text(&differences.to_string()),
        Format::Json => report::json(&Report::new(target, &differences)),
    };
    match printed {
        Exit::Done if !differences.is_empty() => {
            tracing::warn!(target: "iptables", variant = target.name(), "the rules are not as wanted");
            Exit::Drift
        }
        exit => exit,
    }
}

fn compare(call: &Call) -> Result<(Target, Differences), Error> {
    let Call { capture, run, .. } = call;
    let mut kernel = Kernel::open(change::lock(run), istio::OWNERSHIP)?;
    let snapshot = kernel.read()?;
    let target = target::choose(run, Usual::Native, &snapshot, &kernel);
    let wanted = target::wanted(capture, target);
    Ok((target, operations::compare(&snapshot, &wanted, target.variant())))
}

/// The outcome as programs read it.
#[derive(Serialize)]
struct Report {
    equal: bool,
    variant: String,
    chains: Vec<Chain>,
    native: Vec<String>,
    routes: Vec<Route>,
}

#[derive(Serialize)]
struct Chain {
    variant: String,
    family: String,
    table: &'static str,
    chain: String,
    rules: Vec<Rule>,
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

impl Report {
    fn new(target: Target, differences: &Differences) -> Self {
        let chains = differences.chains.iter().map(|(variant, family, drift)| Chain {
            variant: variant.to_string(),
            family: family.to_string(),
            table: drift.table.name(),
            chain: drift.chain.to_string(),
            rules: drift
                .lines
                .iter()
                .map(|compared| Rule {
                    side: match compared.side {
                        Side::Both => "both",
                        Side::Live => "there",
                        Side::Wanted => "wanted",
                    },
                    rule: render::iptables::appended(&drift.chain, &compared.line),
                    reason: compared.reason.map(|reason| reason.to_string()),
                })
                .collect(),
        });
        let routes = differences
            .routes
            .iter()
            .map(|(object, reason)| Route { object: object.to_string(), reason: reason.to_string() });
        Self {
            equal: differences.is_empty(),
            variant: target.name(),
            chains: chains.collect(),
            native: differences.native.iter().map(ToString::to_string).collect(),
            routes: routes.collect(),
        }
    }
}
