//! Errors as the specification has them ("Error"): a number, a sentence, details.

use super::CniVersion;
use mesh::InputProblem;
use serde::Serialize;
use std::{error::Error, fmt::Display, iter};

/// The numbers. Those from 100 on are a plugin's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CniErrorCode {
    IncompatibleVersion = 1,
    /// An unknown field of the network configuration.
    UnsupportedField = 2,
    /// A variable is missing or wrong.
    Environment = 4,
    /// Something can't be read or written.
    Io = 5,
    /// The network configuration is not valid JSON.
    Decode = 6,
    Configuration = 7,
    /// It may work later.
    TryAgain = 11,
    /// No container can be added now.
    NotAvailable = 50,
    /// The container's network namespace can't be read or changed.
    Namespace = 100,
    /// CHECK: the rules are not those that ADD has made.
    Drift = 101,
}

/// Why a call fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CniError {
    pub(crate) code: CniErrorCode,
    pub(crate) msg: String,
    /// Details, line by line.
    pub(crate) details: String,
}

/// The limit of details, which end up in the runtime's log and in an event of the pod.
const DETAILS: usize = 16 * 1024;

impl CniError {
    pub(crate) fn new(code: CniErrorCode, msg: impl Display, details: impl Display) -> Self {
        let mut details = details.to_string();
        if details.len() > DETAILS {
            let end = (0..=DETAILS).rev().find(|at| details.is_char_boundary(*at)).unwrap_or_default();
            details.truncate(end);
            details.push_str(" ..");
        }
        Self { code, msg: msg.to_string(), details }
    }

    /// An error with its causes.
    pub(crate) fn caused(code: CniErrorCode, msg: impl Display, error: &dyn Error) -> Self {
        let chain = iter::successors(Some(error), |&error| error.source());
        let lines: Vec<String> = chain.map(ToString::to_string).collect();
        Self::new(code, msg, lines.join("\nbecause: "))
    }

    /// Everything that is wrong with the input; at least one problem.
    pub(crate) fn of_problems(code: CniErrorCode, what: &str, problems: &[InputProblem]) -> Self {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let more = match lines.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more, see details)"),
        };
        Self::new(code, format!("{what}; nothing was changed: {}{more}", lines[0]), lines.join("\n"))
    }

    /// As standard output has it.
    pub(crate) fn json(&self, version: CniVersion) -> String {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct SerializedCniError<'a> {
            cni_version: &'static str,
            code: u16,
            msg: &'a str,
            #[serde(skip_serializing_if = "str::is_empty")]
            details: &'a str,
        }
        let Self { code, msg, details } = self;
        let printed = SerializedCniError { cni_version: version.name(), code: *code as u16, msg, details };
        serde_json::to_string(&printed).expect("our own data has text keys")
    }
}
