//! Terms of the specification: the parameters of a call, versions and verbs, the result of ADD, and errors.

use mesh::InputProblem;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use std::{error::Error, ffi::OsString, fmt::Display, iter, path::PathBuf};

/// A supported version. Earlier ones have no `prevResult`, so plugins can't be chained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CniVersion(&'static str);

impl CniVersion {
    pub(crate) const V0_3_0: Self = Self("0.3.0");
    pub(crate) const V0_3_1: Self = Self("0.3.1");
    pub(crate) const V0_4_0: Self = Self("0.4.0");
    pub(crate) const V1_0_0: Self = Self("1.0.0");
    pub(crate) const V1_1_0: Self = Self("1.1.0");
    pub(crate) const ALL: [Self; 5] = [Self::V0_3_0, Self::V0_3_1, Self::V0_4_0, Self::V1_0_0, Self::V1_1_0];
    pub(crate) const LATEST: Self = Self::V1_1_0;

    pub(crate) fn name(self) -> &'static str {
        self.0
    }

    pub(crate) fn parse(text: &str) -> CniResult<Self> {
        Self::ALL.into_iter().find(|version| version.name() == text).ok_or_else(|| {
            let msg = format!("cniVersion: {text:?} is not supported");
            let details = format!("expected one of {}", Self::ALL.map(Self::name).join(", "));
            CniError::new(CniErrorCode::IncompatibleVersion, msg, details)
        })
    }

    pub(crate) fn require(self, verb: Verb) -> CniResult<()> {
        let (_, name, since) = verb.row();
        if self >= since {
            return Ok(());
        }
        let msg = format!("cniVersion {} does not have {name}", self.name());
        let details =
            format!("it was added in {}; raise cniVersion in the network configuration", since.name());
        Err(CniError::new(CniErrorCode::IncompatibleVersion, msg, details))
    }

    pub(crate) fn answer(self) -> String {
        let names = Self::ALL.map(Self::name);
        serde_json::json!({ "cniVersion": self.name(), "supportedVersions": names }).to_string()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Add,
    Check,
    Del,
    Gc,
    Status,
    Version,
}

impl Verb {
    const ROWS: [(Self, &'static str, CniVersion); 6] = [
        (Self::Add, "ADD", CniVersion::V0_3_0),
        (Self::Check, "CHECK", CniVersion::V0_4_0),
        (Self::Del, "DEL", CniVersion::V0_3_0),
        (Self::Gc, "GC", CniVersion::V1_1_0),
        (Self::Status, "STATUS", CniVersion::V1_1_0),
        (Self::Version, "VERSION", CniVersion::V0_3_0),
    ];

    fn row(self) -> (Self, &'static str, CniVersion) {
        Self::ROWS[self as usize]
    }

    pub(crate) fn name(self) -> &'static str {
        self.row().1
    }
}

pub(crate) type CniResult<T> = Result<T, CniError>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CniErrorCode {
    IncompatibleVersion = 1,
    UnsupportedField = 2,
    Environment = 4,
    Io = 5,
    Decode = 6,
    Configuration = 7,
    TryAgain = 11,
    NotAvailable = 50,
    Namespace = 100,
    Drift = 101,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CniError {
    pub(crate) code: CniErrorCode,
    pub(crate) msg: String,
    pub(crate) details: String,
}

/// Size limit of details, which end up in the runtime's log and in a pod event.
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

    pub(crate) fn caused(code: CniErrorCode, msg: impl Display, error: &dyn Error) -> Self {
        let chain = iter::successors(Some(error), |&error| error.source());
        let lines: Vec<String> = chain.map(ToString::to_string).collect();
        Self::new(code, msg, lines.join("\nbecause: "))
    }

    pub(crate) fn of_problems(code: CniErrorCode, what: &str, problems: &[InputProblem]) -> Self {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let more = match lines.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more, see details)"),
        };
        Self::new(code, format!("{what}; nothing was changed: {}{more}", lines[0]), lines.join("\n"))
    }

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

/// The previous plugins' result: unchanged if it has this version, else converted; an empty one without a previous result.
pub(crate) fn result(before: Option<&RawValue>, version: CniVersion) -> String {
    let Some(before) = before else {
        let name = version.name();
        return format!(r#"{{"cniVersion":"{name}","interfaces":[],"ips":[],"routes":[],"dns":{{}}}}"#);
    };
    match serde_json::from_str::<Map<String, Value>>(before.get()) {
        Ok(fields) if fields.get("cniVersion").and_then(Value::as_str) != Some(version.name()) => {
            converted(fields, version)
        }
        // Too deep for our parser, but still the previous plugins' result.
        Ok(_) | Err(_) => before.get().to_owned(),
    }
}

/// Versions differ in `ips`, whose items have a `version` (the family) only before 1.0.0.
fn converted(mut fields: Map<String, Value>, version: CniVersion) -> String {
    fields.insert("cniVersion".to_owned(), version.name().into());
    let ips = fields.get_mut("ips").and_then(Value::as_array_mut);
    for ip in ips.into_iter().flatten().filter_map(Value::as_object_mut) {
        if version >= CniVersion::V1_0_0 {
            ip.remove("version");
        } else {
            let is_v6 =
                ip.get("address").and_then(Value::as_str).is_some_and(|address| address.contains(':'));
            ip.entry("version").or_insert_with(|| if is_v6 { "6" } else { "4" }.into());
        }
    }
    Value::Object(fields).to_string()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CniRequest {
    pub(crate) verb: Verb,
    /// `None` for GC, STATUS and VERSION.
    pub(crate) target: Option<AttachmentTarget>,
    /// The container's namespace, which ADD and CHECK need. For DEL it may be gone.
    pub(crate) netns: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) struct Attachment {
    #[serde(rename = "containerID")]
    pub(crate) container: String,
    #[serde(rename = "ifname")]
    pub(crate) interface: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttachmentTarget {
    pub(crate) attachment: Attachment,
    pub(crate) pod: RuntimePod,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuntimePod {
    pub(crate) name: Option<String>,
    pub(crate) namespace: Option<String>,
}

impl CniRequest {
    pub(crate) fn read(variable: impl Fn(&str) -> Option<OsString>) -> CniResult<Self> {
        let mut reader = CniEnvironmentReader { variable, problems: Vec::new() };
        let Some(verb) = reader.verb() else { return Err(reader.fault()) };
        let target = matches!(verb, Verb::Add | Verb::Check | Verb::Del).then(|| reader.target());
        let netns = match verb {
            Verb::Add | Verb::Check => reader.required("CNI_NETNS"),
            Verb::Del => reader.optional("CNI_NETNS"),
            Verb::Gc | Verb::Status | Verb::Version => None,
        };
        let request = Self { verb, target, netns: netns.map(PathBuf::from) };
        if reader.problems.is_empty() { Ok(request) } else { Err(reader.fault()) }
    }
}

struct CniEnvironmentReader<V> {
    variable: V,
    problems: Vec<InputProblem>,
}

impl<V: Fn(&str) -> Option<OsString>> CniEnvironmentReader<V> {
    fn fault(&self) -> CniError {
        CniError::of_problems(
            CniErrorCode::Environment,
            "invalid environment from the runtime",
            &self.problems,
        )
    }

    fn optional(&self, name: &str) -> Option<OsString> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    fn required(&mut self, name: &str) -> Option<OsString> {
        let value = self.optional(name);
        if value.is_none() {
            self.problems
                .push(InputProblem::of(name, "is not set; the runtime must set it for this CNI_COMMAND"));
        }
        value
    }

    /// A required variable; empty if unset. A missing or invalid one is a problem.
    fn text(&mut self, name: &str, is_right: fn(&str) -> bool, complaint: &str) -> String {
        let Some(value) = self.required(name) else { return String::new() };
        let text = value.to_string_lossy().into_owned();
        if value.to_str().is_none_or(|value| !is_right(value)) {
            self.problems.push(InputProblem::with_item(name, &text, complaint));
        }
        text
    }

    fn verb(&mut self) -> Option<Verb> {
        let names = Verb::ROWS.map(|(_, name, _)| name).join(", ");
        let Some(value) = self.optional("CNI_COMMAND") else {
            let text = format!("is not set; a container runtime sets it to one of {names}");
            self.problems.push(InputProblem::of("CNI_COMMAND", text));
            return None;
        };
        let row = Verb::ROWS.into_iter().find(|(_, name, _)| value == *name);
        if row.is_none() {
            let text = format!("is not a command; expected one of {names}");
            self.problems.push(InputProblem::with_item("CNI_COMMAND", &value.to_string_lossy(), text));
        }
        row.map(|(verb, ..)| verb)
    }

    fn target(&mut self) -> AttachmentTarget {
        let container = self.text(
            "CNI_CONTAINERID",
            is_id,
            "is not a container ID; expected a letter or digit, then at most 109 more, _ . or -",
        );
        let interface = self.text(
            "CNI_IFNAME",
            is_interface,
            "is not an interface name; expected 1 to 15 bytes without / : and spaces, and not . or ..",
        );
        AttachmentTarget { attachment: Attachment { container, interface }, pod: self.pod() }
    }

    fn pod(&self) -> RuntimePod {
        let arguments = self.optional("CNI_ARGS").unwrap_or_default();
        let value = |key: &str| {
            let pairs = arguments.to_str()?.split(';');
            let value = pairs.filter_map(|pair| pair.split_once('=')).find(|(k, _)| k.trim() == key)?.1;
            Some(value.to_owned()).filter(|value| !value.is_empty())
        };
        RuntimePod { name: value("K8S_POD_NAME"), namespace: value("K8S_POD_NAMESPACE") }
    }
}

/// True for a container ID or network name that is valid by the specification and fits a file name.
pub(crate) fn is_id(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(inner) && text.len() <= 110
}

/// True for an interface name valid in the kernel (`dev_valid_name` in `net/core/dev.c`) without control characters.
fn is_interface(text: &str) -> bool {
    let wrong = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
    (1..=15).contains(&text.len()) && !matches!(text, "." | "..") && !text.contains(wrong)
}

impl RuntimePod {
    pub(crate) fn label(&self) -> Option<String> {
        let name = self.name.as_deref()?;
        Some(self.namespace.as_deref().map_or(name.to_owned(), |namespace| format!("{namespace}/{name}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &str, version: CniVersion, expected: &str) {
        let before: Box<RawValue> = serde_json::from_str(before).expect("JSON");
        assert_eq!(result(Some(&before), version), expected);
    }

    #[test]
    fn result_of_this_version_is_unchanged() {
        let text = "{ \"ips\":[{\"address\" : \"10.0.0.2/24\", \"version\":\"4\"}],\t\"cniVersion\": \"0.4.0\",\"x\":1e2}";
        check(text, CniVersion::V0_4_0, text);
        let deep = format!(r#"{{"cniVersion":"1.0.0","deep":{}{}}}"#, "[".repeat(5_000), "]".repeat(5_000));
        check(&deep, CniVersion::V1_0_0, &deep);
    }

    #[test]
    fn result_of_another_version_is_converted() {
        let old = r#"{"cniVersion":"0.4.0","ips":[{"address":"fd00::2/64","version":"6"}]}"#;
        let new = r#"{"cniVersion":"1.0.0","ips":[{"address":"fd00::2/64"}]}"#;
        check(old, CniVersion::V1_0_0, new);
        check(new, CniVersion::V0_4_0, old);
        check(r#"{"ips":"odd"}"#, CniVersion::V1_1_0, r#"{"cniVersion":"1.1.0","ips":"odd"}"#);
    }
}
