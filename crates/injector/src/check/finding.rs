//! Findings, printed by topic, each with a sign and a remedy.

use crate::{api::ApiServer, authority::WebhookService};
use cluster::error::{describe, status};
use diagnose::{Style, lint::Level};
use injection::manifests::Installation;
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::fmt::Write;

pub(super) struct CheckedInstallation {
    pub(super) api: ApiServer,
    pub(super) target: Installation,
    pub(super) service: WebhookService,
    pub(super) objects: Vec<Value>,
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
    #[serde(serialize_with = "level_word")]
    pub(super) level: Level,
    pub(super) text: String,
    pub(super) remedy: Option<String>,
}

impl InstallationTopic {
    fn heading(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::Rights => "Your permissions",
            Self::Names => "Names",
            Self::Webhooks => "Webhooks",
            Self::Security => "Pod Security",
            Self::Server => "Server",
            Self::Certificates => "Certificates",
            Self::Roles => "The programs' permissions",
            Self::Injection => "Injection",
        }
    }

    pub(super) fn ok(self, text: impl Into<String>) -> InstallationFinding {
        InstallationFinding { topic: self, level: Level::Ok, text: text.into(), remedy: None }
    }

    pub(super) fn warn(self, text: impl Into<String>, remedy: impl Into<String>) -> InstallationFinding {
        InstallationFinding { level: Level::Warning, remedy: Some(remedy.into()), ..self.ok(text) }
    }

    pub(super) fn fail(self, text: impl Into<String>, remedy: impl Into<String>) -> InstallationFinding {
        InstallationFinding { level: Level::Failure, ..self.warn(text, remedy) }
    }

    pub(super) fn unknown(self, what: &str, error: &kube::Error) -> InstallationFinding {
        let remedy = match status(error) {
            Some(401 | 403) => "run this again as a user with this permission",
            _ => "run this again when the API server answers",
        };
        self.warn(format!("{what}: {}", describe(error)), remedy)
    }
}

fn look(level: Level) -> (Style, &'static str) {
    match level {
        Level::Failure => (Style::Dropped, "fail"),
        Level::Warning => (Style::Passing, "warn"),
        Level::Note | Level::Ok => (Style::Captured, "ok"),
    }
}

fn level_word<S: Serializer>(level: &Level, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(look(*level).1)
}

pub(super) fn text(findings: &[InstallationFinding]) -> String {
    let mut out = String::new();
    for of in findings.chunk_by(|one, next| one.topic == next.topic) {
        writeln!(out, "{}", Style::Strong.paint(of[0].topic.heading())).expect("a String can't fail");
        for InstallationFinding { level, text, remedy, .. } in of {
            let (style, sign) = look(*level);
            writeln!(out, "  {} {text}", style.paint(format!("{sign:4}"))).expect("a String can't fail");
            if let Some(remedy) = remedy {
                writeln!(out, "       {}", Style::Quiet.paint(format!("-> {remedy}")))
                    .expect("a String can't fail");
            }
        }
    }
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let counted = |count: usize, noun: &str| match count {
        0 => format!("no {noun}s"),
        1 => format!("1 {noun}"),
        more => format!("{more} {noun}s"),
    };
    let worst = findings.iter().map(|finding| finding.level).min().unwrap_or(Level::Ok);
    let (failures, warnings) = (count(Level::Failure), count(Level::Warning));
    let summary = format!("{}, {}", counted(failures, "failure"), counted(warnings, "warning"));
    out + &format!("{}\n", look(worst).0.paint(summary))
}
