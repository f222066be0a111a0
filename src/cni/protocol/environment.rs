//! The parameters of a call, from variables ("Parameters" in the specification).

use super::{CniError, CniErrorCode, Verb};
use mesh::InputProblem;
use std::{ffi::OsString, path::PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CniRequest {
    Add(AttachmentTarget, PathBuf),
    Check(AttachmentTarget, PathBuf),
    /// The namespace may be gone.
    Del(AttachmentTarget, Option<PathBuf>),
    Gc,
    Status,
    Version,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttachmentTarget {
    pub(crate) container: String,
    pub(crate) interface: String,
    pub(crate) pod: RuntimePod,
}

/// The pod, as far as the runtime names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuntimePod {
    pub(crate) name: Option<String>,
    pub(crate) namespace: Option<String>,
}

impl CniRequest {
    pub(crate) fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, CniError> {
        let mut reader = CniEnvironmentReader { variable, problems: Vec::new() };
        let Some(verb) = reader.verb() else { return Err(reader.fault()) };
        let request = match verb {
            Verb::Gc => Self::Gc,
            Verb::Status => Self::Status,
            Verb::Version => Self::Version,
            Verb::Add => Self::Add(reader.target(), reader.namespace().unwrap_or_default()),
            Verb::Check => Self::Check(reader.target(), reader.namespace().unwrap_or_default()),
            Verb::Del => Self::Del(reader.target(), reader.optional("CNI_NETNS").map(PathBuf::from)),
        };
        if reader.problems.is_empty() { Ok(request) } else { Err(reader.fault()) }
    }

    pub(crate) fn verb(&self) -> Verb {
        match self {
            Self::Add(..) => Verb::Add,
            Self::Check(..) => Verb::Check,
            Self::Del(..) => Verb::Del,
            Self::Gc => Verb::Gc,
            Self::Status => Verb::Status,
            Self::Version => Verb::Version,
        }
    }

    pub(crate) fn target(&self) -> Option<&AttachmentTarget> {
        match self {
            Self::Add(target, _) | Self::Check(target, _) | Self::Del(target, _) => Some(target),
            Self::Gc | Self::Status | Self::Version => None,
        }
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
            "the environment is not as the runtime should set it",
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
                .push(InputProblem::of(name, "is not set; the runtime has to set it for this CNI_COMMAND"));
        }
        value
    }

    /// A required variable; empty if it is not set. A missing or wrong one is added to the problems.
    fn text(&mut self, name: &str, is_right: fn(&str) -> bool, complaint: &str) -> String {
        let Some(value) = self.required(name) else { return String::new() };
        let text = value.to_string_lossy().into_owned();
        if value.to_str().is_none_or(|value| !is_right(value)) {
            self.problems.push(InputProblem::with_item(name, &text, complaint));
        }
        text
    }

    fn verb(&mut self) -> Option<Verb> {
        let names = Verb::ALL.map(Verb::name).join(", ");
        let Some(value) = self.optional("CNI_COMMAND") else {
            let text = format!("is not set; a container runtime sets it to one of {names}");
            self.problems.push(InputProblem::of("CNI_COMMAND", text));
            return None;
        };
        let verb = Verb::ALL.into_iter().find(|verb| value == verb.name());
        if verb.is_none() {
            let text = format!("is not a command; expected one of {names}");
            self.problems.push(InputProblem::with_item("CNI_COMMAND", &value.to_string_lossy(), text));
        }
        verb
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
        AttachmentTarget { container, interface, pod: self.pod() }
    }

    fn namespace(&mut self) -> Option<PathBuf> {
        self.required("CNI_NETNS").map(PathBuf::from)
    }

    /// Names of the pod. Other arguments in `CNI_ARGS` are ignored.
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

/// True for a container's id or a network's name by the specification that is short enough for a file's name.
pub(crate) fn is_id(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(inner) && text.len() <= 110
}

/// True for a name that the kernel takes for an interface (`dev_valid_name` in `net/core/dev.c`), without control characters.
fn is_interface(text: &str) -> bool {
    let wrong = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
    (1..=15).contains(&text.len()) && !matches!(text, "." | "..") && !text.contains(wrong)
}

impl RuntimePod {
    /// `NAMESPACE/NAME`.
    pub(crate) fn label(&self) -> Option<String> {
        let name = self.name.as_deref()?;
        Some(self.namespace.as_deref().map_or(name.to_owned(), |namespace| format!("{namespace}/{name}")))
    }
}
