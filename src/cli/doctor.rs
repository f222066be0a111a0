//! `sidecar-init doctor`: what this namespace and kernel can do.

use super::run::{Call, Format, Run};
use super::{Exit, ipv6, report};
use policy::{
    Problems,
    istio::{OWNERSHIP, defaults::PROXY_ID},
    sources::Raw,
};
use serde::Serialize;
use sidecar_init::engine::{Finding, Level, examine};

/// Runs the command. What is wrong with the capture flags is a finding like any other.
pub(super) fn run(raw: &Raw, run: &Run, call: &Result<Call, Problems>) -> Exit {
    let mut kernel = match run.open() {
        Ok(kernel) => kernel,
        Err(error) => return report::failure(&error, Exit::Failed),
    };
    let uids = match call {
        Ok(call) => call.capture.proxy_uids.iter().map(|uid| uid.number()).collect(),
        Err(_) => vec![PROXY_ID],
    };
    let mut findings = examine(&mut kernel, &OWNERSHIP, &uids);
    match call {
        Ok(call) => findings.extend(
            ipv6::uncaptured(raw, &call.capture).map(|found| Finding::warn("ipv6", found.text, found.remedy)),
        ),
        Err(Problems(problems)) => findings.extend(problems.iter().map(|problem| {
            Finding::fail("input", problem.to_string(), "apply and check with these flags would refuse")
        })),
    }
    let printed = match run.format {
        Format::Text => report::text(&findings.iter().map(line).collect::<String>()),
        Format::Json => report::json(&findings.iter().map(Item::from).collect::<Vec<_>>()),
    };
    match printed {
        Exit::Done if findings.iter().any(|finding| finding.level == Level::Fail) => Exit::Failed,
        exit => exit,
    }
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Ok => "ok",
        Level::Warn => "warn",
        Level::Fail => "fail",
    }
}

fn line(finding: &Finding) -> String {
    let Finding { level, topic, text, remedy } = finding;
    let remedy = remedy.as_ref().map(|remedy| format!("\n{:16}-> {remedy}", "")).unwrap_or_default();
    format!("{:5}{topic:11}{text}{remedy}\n", word(*level))
}

/// A finding as programs read it.
#[derive(Serialize)]
struct Item<'a> {
    level: &'static str,
    topic: &'static str,
    text: &'a str,
    remedy: Option<&'a str>,
}

impl<'a> From<&'a Finding> for Item<'a> {
    fn from(finding: &'a Finding) -> Self {
        let Finding { level, topic, text, remedy } = finding;
        Self { level: word(*level), topic, text, remedy: remedy.as_deref() }
    }
}
