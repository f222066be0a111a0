//! The outcome of the connections, as text and as data.

use super::{JudgedCall, Judgement, words};
use crate::cli::{Exit, report};
use command_line::columns;
use diagnose::explain::{ExplainedRule, VerdictKind};
use diagnose::{Basis, Style, basis, fold, probe::Call};
use mesh::settings;
use rules::Family;
use rules::simulate::{Direction, Verdict};
use serde::Serialize;
use sidecar_init::engine::{ConnectionOutcome, ProbeObservation};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(super) fn expected(call: &Call) -> String {
    match call.expected {
        Verdict::Redirect(ports) => format!("captured at {}", ports.dashed()),
        Verdict::Tproxy(port) => format!("handed over at {port}"),
        verdict @ (Verdict::Pass | Verdict::Drop | Verdict::Unknown) => {
            VerdictKind::of(verdict).0.word().to_owned()
        }
    }
}

/// Word for a connection's outcome in documents, the port reached, the style, and a description.
pub(super) fn outcome(seen: &ProbeObservation) -> (&'static str, Option<u16>, Style, String) {
    match seen.end {
        ConnectionOutcome::Redirected(there) => {
            let text = match there.ip().is_loopback() {
                true => format!("captured at {}", there.port()),
                false => format!("sent to {there}"),
            };
            ("redirect", Some(there.port()), Style::Captured, text)
        }
        ConnectionOutcome::Handed(port) => {
            let place = port.map(|port| format!(" at {port}")).unwrap_or_default();
            ("tproxy", port, Style::Captured, format!("handed over{place}"))
        }
        ConnectionOutcome::Accepted => ("accepted", None, Style::Captured, "captured".to_owned()),
        ConnectionOutcome::Passed => ("pass", None, Style::Passing, "not captured".to_owned()),
        ConnectionOutcome::Silent => ("silent", None, Style::Passing, "not captured".to_owned()),
        ConnectionOutcome::Unanswered(port) => {
            ("unanswered", Some(port), Style::Dropped, format!("got no answer from {port}"))
        }
        ConnectionOutcome::Refused => ("refused", None, Style::Dropped, "was refused".to_owned()),
        ConnectionOutcome::Nowhere => ("nowhere", None, Style::Dropped, "not answered".to_owned()),
        ConnectionOutcome::NoAddress(ip) => {
            ("no-address", None, Style::Dropped, format!("found no {ip} on lo"))
        }
    }
}

const CALLER: usize = 16;
const TO: usize = 20;

/// A table by family, failures with their reasons, then untried calls. `differs` is true if the live rules differ from the basis.
pub(super) fn text(basis: &Basis, tried: &[JudgedCall], differs: bool) -> String {
    let mut text = basis.line(report::line_width());
    for family in Family::BOTH {
        let is_tried = |one: &&JudgedCall| !matches!(one.judgement, Judgement::NoResult(_));
        let own = tried.iter().filter(|one| one.call.packet.family() == family).filter(is_tried);
        let own: Vec<&JudgedCall> = own.collect();
        if own.is_empty() {
            continue;
        }
        text.push_str(&format!("{}\n", Style::Strong.paint(family)));
        own.iter().for_each(|one| line(&mut text, one));
        text.push('\n');
    }
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for one in tried {
        let Judgement::NoResult(why) = &one.judgement else { continue };
        match reasons.iter_mut().find(|(reason, _)| reason == why) {
            Some((_, count)) => *count += 1,
            None => reasons.push((why, 1)),
        }
    }
    for (why, count) in reasons {
        let calls = if count == 1 { "connection" } else { "connections" };
        let line = format!("{count} {calls} not tried: {why}\n");
        text.push_str(&fold(&Style::Quiet.paint(line), 2, report::line_width()));
    }
    if differs {
        text.push_str("The rules differ: sidecar-init diff with the same flags shows how.\n");
    }
    let count = |is: fn(&Judgement) -> bool| tried.iter().filter(|one| is(&one.judgement)).count();
    let parts = [
        (count(Judgement::is_right), "as expected", Style::Strong),
        (count(Judgement::is_wrong), "not as expected", Style::Dropped),
    ];
    let parts = parts.into_iter().filter(|(count, ..)| *count > 0);
    let parts: Vec<String> =
        parts.map(|(count, what, style)| style.paint(format!("{count} {what}"))).collect();
    match parts.as_slice() {
        [] if !tried.is_empty() => {}
        [] if matches!(basis, Basis::Rules { .. }) => {
            text.push_str("Nothing is captured: no rule sends traffic to a mesh proxy.\n");
        }
        [] => text.push_str("Nothing to try from inside the pod with these flags.\n"),
        parts => text.push_str(&format!("{}\n", parts.join(", "))),
    }
    text
}

fn line(text: &mut String, JudgedCall { call, judgement, now }: &JudgedCall) {
    let (mark, style, what, note) = match judgement {
        Judgement::Right(seen) => {
            let (_, _, style, what) = outcome(seen);
            ("ok", style, what, words(seen.proof).1)
        }
        Judgement::Wrong(seen) => ("fail", Style::Dropped, outcome(seen).3, None),
        Judgement::NoResult(_) => return,
    };
    // Shown only for the proxy's own source address; every caller uses loopback.
    let localhost = [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()];
    let caller = match call.from.filter(|from| !localhost.contains(from)) {
        Some(from) => format!("{} @{from}", call.caller),
        None => call.caller.to_string(),
    };
    let protocol = call.protocol.to_string();
    let note = note.map(|note| format!(" {}", Style::Quiet.paint(format!("({note})")))).unwrap_or_default();
    let of_mark = if judgement.is_right() { Style::Strong } else { Style::Dropped };
    let (mark, what) = (of_mark.paint(format!("{mark:4}")), style.paint(what));
    let to = call.to.to_string();
    text.push_str(&format!("  {mark} {protocol} {caller:CALLER$} {to:TO$} {what}{note}\n"));
    if judgement.is_wrong() {
        let mut more = |title: &str, detail: String| {
            text.push_str(&folded(&format!("{title:9}"), &detail));
        };
        more("expected", format!("{}, because {}", expected(call), call.because));
        if let Some(rule) = &call.rule {
            more("rule", place(rule));
        }
        if let Some(now) = now {
            more("now", now.clone());
        }
    }
}

fn place(rule: &ExplainedRule) -> String {
    let option = rule.option.as_deref().filter(|option| !option.is_empty());
    let is_flag = |option: &str| settings::all().any(|row| row.long == option);
    let flag = option.map(|option| if is_flag(option) { format!("--{option}") } else { option.to_owned() });
    let option = flag.map(|flag| format!(", of {flag}")).unwrap_or_default();
    format!("{} {} {}{option}", rule.table, rule.chain, rule.text)
}

fn folded(title: &str, text: &str) -> String {
    let indent = 7 + title.len();
    let line = format!("       {}{text}\n", Style::Quiet.paint(title));
    fold(&line, indent, columns::of_terminal().max(indent + 30))
}

/// The outcome, for programs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct VerifyReport<'a> {
    /// The settings on which expectations are based.
    basis: basis::BasisReport,
    /// True if at least one connection was tried and all had the expected outcome.
    ok: bool,
    calls: Vec<ReportedCall<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReportedCall<'a> {
    family: &'static str,
    protocol: String,
    caller: String,
    uid: u32,
    gid: u32,
    source: IpAddr,
    destination: IpAddr,
    destination_port: u16,
    out_interface: &'a str,
    /// `right`, `wrong` or `untried`.
    outcome: &'static str,
    /// Why the call was not tried.
    untried: Option<&'a str>,
    expected: ProbeExpectation<'a>,
    seen: Option<Observed>,
    /// The verdict of the existing rules, if the outcome differs.
    now: Option<&'a str>,
}

/// The verdict that the flags imply.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ProbeExpectation<'a> {
    verdict: VerdictKind,
    /// True if the listener gets the packet with its destination (TPROXY); null without a listener.
    transparent: Option<bool>,
    /// The listener's port, the first of a range.
    port: Option<u16>,
    reason: &'a str,
    decided_by: Option<&'a ExplainedRule>,
}

/// The outcome.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Observed {
    /// `redirect`, `tproxy`, `accepted`, `pass`, `silent`, `unanswered`, `refused`, `nowhere` or `no-address`.
    end: &'static str,
    port: Option<u16>,
    /// `token`, `conntrack`, `answer` or `silence`.
    proof: &'static str,
    /// The destination that the listener saw.
    original_destination: Option<IpAddr>,
    original_port: Option<u16>,
}

impl<'a> VerifyReport<'a> {
    pub(super) fn new(basis: &Basis, tried: &'a [JudgedCall]) -> Self {
        let ok = super::exit(tried) == Exit::Done;
        Self { basis: basis.report(), ok, calls: tried.iter().map(ReportedCall::new).collect() }
    }
}

impl<'a> ReportedCall<'a> {
    fn new(JudgedCall { call, judgement, now }: &'a JudgedCall) -> Self {
        let Direction::Outbound { interface, .. } = &call.packet.direction else {
            unreachable!("calls of the pod leave it")
        };
        let (outcome, untried, seen) = match judgement {
            Judgement::Right(seen) => ("right", None, Some(Observed::of(seen))),
            Judgement::Wrong(seen) => ("wrong", None, Some(Observed::of(seen))),
            Judgement::NoResult(why) => ("untried", Some(why.as_str()), None),
        };
        let (verdict, ports) = VerdictKind::of(call.expected);
        let transparent = ports.map(|_| matches!(call.expected, Verdict::Tproxy(_)));
        let port = ports.map(|ports| ports.first().number());
        let (reason, decided_by) = (call.because.as_str(), call.rule.as_ref());
        Self {
            family: call.packet.family().word(),
            protocol: call.protocol.to_string(),
            caller: call.caller.to_string(),
            uid: call.owner.0.number(),
            gid: call.owner.1.number(),
            source: call.packet.source.ip(),
            destination: call.to.ip(),
            destination_port: call.to.port(),
            out_interface: interface,
            outcome,
            untried,
            expected: ProbeExpectation { verdict, transparent, port, reason, decided_by },
            seen,
            now: now.as_deref(),
        }
    }
}

impl Observed {
    fn of(seen: &ProbeObservation) -> Self {
        let (end, port, ..) = outcome(seen);
        let (original_destination, original_port) = seen.original.map(|to| (to.ip(), to.port())).unzip();
        Self { end, port, proof: words(seen.proof).0, original_destination, original_port }
    }
}
