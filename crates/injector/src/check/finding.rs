//! Findings, and their print: sections of lines with a sign, and the remedy below.

use crate::api::{ApiServer, NoAnswer};
use crate::authority::WebhookService;
use diagnose::Style;
use injection::manifests::Installation;
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write;

pub(super) struct CheckedInstallation {
    pub(super) api: ApiServer,
    pub(super) target: Installation,
    /// The server, as its webhooks name it.
    pub(super) service: WebhookService,
    /// As `manifests` prints them.
    pub(super) objects: Vec<Value>,
}

pub(super) fn unknown(topic: InstallationTopic, what: &str, error: &NoAnswer) -> InstallationFinding {
    let remedy = match error.status {
        Some(401 | 403) => "repeat it as a user with this right",
        _ => "repeat it when the API server answers",
    };
    topic.warn(format!("{what}: {}", error.text), remedy)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum InstallationLevel {
    Ok,
    Warn,
    Fail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum InstallationTopic {
    Cluster,
    Rights,
    Names,
    Webhooks,
    #[serde(rename = "pod-security")]
    Security,
    Server,
    Certificates,
    Roles,
    Injection,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct InstallationFinding {
    pub(super) topic: InstallationTopic,
    pub(super) level: InstallationLevel,
    pub(super) text: String,
    pub(super) remedy: Option<String>,
}

impl InstallationTopic {
    const HEADINGS: [(Self, &'static str); 9] = [
        (Self::Cluster, "Cluster"),
        (Self::Rights, "Your rights"),
        (Self::Names, "Names"),
        (Self::Webhooks, "Webhooks"),
        (Self::Security, "Pod Security"),
        (Self::Server, "Server"),
        (Self::Certificates, "Certificates"),
        (Self::Roles, "Rights of the programs"),
        (Self::Injection, "Injection"),
    ];

    pub(super) fn ok(self, text: impl Into<String>) -> InstallationFinding {
        InstallationFinding { topic: self, level: InstallationLevel::Ok, text: text.into(), remedy: None }
    }

    pub(super) fn warn(self, text: impl Into<String>, remedy: impl Into<String>) -> InstallationFinding {
        let remedy = Some(remedy.into());
        InstallationFinding { topic: self, level: InstallationLevel::Warn, text: text.into(), remedy }
    }

    pub(super) fn fail(self, text: impl Into<String>, remedy: impl Into<String>) -> InstallationFinding {
        let remedy = Some(remedy.into());
        InstallationFinding { topic: self, level: InstallationLevel::Fail, text: text.into(), remedy }
    }
}

impl InstallationLevel {
    /// The sign, without and with Unicode.
    fn look(self) -> (Style, [&'static str; 2]) {
        match self {
            Self::Ok => (Style::Captured, ["ok  ", "✔"]),
            Self::Warn => (Style::Passing, ["warn", "▲"]),
            Self::Fail => (Style::Dropped, ["fail", "✘"]),
        }
    }
}

pub(super) fn text(findings: &[InstallationFinding], is_unicode: bool) -> String {
    let mut out = String::new();
    for (topic, heading) in InstallationTopic::HEADINGS {
        let mut of = findings.iter().filter(|finding| finding.topic == topic).peekable();
        if of.peek().is_some() {
            writeln!(out, "{}", Style::Strong.paint(heading)).expect("text takes all");
        }
        for InstallationFinding { level, text, remedy, .. } in of {
            let (style, signs) = level.look();
            let sign = signs[usize::from(is_unicode)];
            writeln!(out, "  {} {text}", style.paint(sign)).expect("text takes all");
            if let Some(remedy) = remedy {
                let margin = " ".repeat(3 + sign.chars().count());
                let remedy = format!("-> {remedy}");
                writeln!(out, "{margin}{}", Style::Quiet.paint(remedy)).expect("text takes all");
            }
        }
    }
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let (warnings, failures) = (count(InstallationLevel::Warn), count(InstallationLevel::Fail));
    let level = match (failures, warnings) {
        (0, 0) => InstallationLevel::Ok,
        (0, _) => InstallationLevel::Warn,
        _ => InstallationLevel::Fail,
    };
    let counted = |count: usize, noun: &str| match count {
        0 => format!("no {noun}s"),
        1 => format!("1 {noun}"),
        more => format!("{more} {noun}s"),
    };
    let summary = format!("{}, {}", counted(failures, "failure"), counted(warnings, "warning"));
    out + &format!("{}\n", level.look().0.paint(summary))
}
