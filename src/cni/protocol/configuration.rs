//! Parses the network configuration, and reports all problems together.

use super::{Attachment, CniError, CniErrorCode, CniResult, CniVersion, PluginFields, is_id, keys};
use mesh::pod::{EXCLUDED_NAMESPACES, configured};
use mesh::settings::alternatives;
use mesh::sources::{Raw, duration};
use mesh::{InputProblem, Setting};
use serde::de::DeserializeOwned;
use serde_json::{Value, value::RawValue};
use std::{collections::BTreeMap, path::PathBuf, str, time::Duration};

/// Maximum input size. Kubernetes allows 256 KiB of annotations; a thousand attachments take 100 KiB.
pub(crate) const MAX_BYTES: u64 = 4 * 1024 * 1024;
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);
const TIMEOUTS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(600)];
/// Capability by which a runtime passes a pod's annotations.
pub(crate) const ANNOTATIONS: &str = "io.kubernetes.cri.pod-annotations";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) state: PathBuf,
    pub(crate) log: LogTarget,
    pub(crate) log_max_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogTarget {
    File(PathBuf),
    Journal,
    None,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            // Container namespaces do not survive a reboot, nor does this directory.
            state: PathBuf::from("/run/sidecar-init/cni"),
            log: LogTarget::File(PathBuf::from("/var/log/sidecar-init/cni.log")),
            log_max_bytes: 10 * 1024 * 1024,
        }
    }
}

#[derive(Debug)]
pub(crate) struct PartialConfiguration<'a> {
    pub(crate) version: CniResult<CniVersion>,
    pub(crate) places: Places,
    /// False if a location is invalid: then no trace is written elsewhere.
    pub(crate) places_are_valid: bool,
    pub(crate) timeout: Duration,
    /// The network's name; the error has the problems of the keys that DEL needs.
    pub(crate) network: CniResult<String>,
    /// The error has the problems of all keys except the version.
    pub(crate) whole: CniResult<PluginConfiguration<'a>>,
}

#[derive(Clone, Debug)]
pub(crate) struct PluginConfiguration<'a> {
    pub(crate) version: CniVersion,
    pub(crate) name: String,
    pub(crate) previous_result: Option<&'a RawValue>,
    pub(crate) annotations: Option<BTreeMap<String, String>>,
    pub(crate) requests_annotations: bool,
    pub(crate) valid: Option<Vec<Attachment>>,
    pub(crate) capture: Option<Raw>,
    pub(crate) defaults: Raw,
    pub(crate) excluded_namespaces: Vec<String>,
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) backend: &'static str,
}

impl<'a> PartialConfiguration<'a> {
    pub(crate) fn of(input: &'a [u8]) -> CniResult<Self> {
        let what = "the network configuration on standard input can't be decoded";
        let undecodable = |error: &dyn std::error::Error| CniError::caused(CniErrorCode::Decode, what, error);
        let text = str::from_utf8(input).map_err(|error| undecodable(&error))?;
        let fields = PluginFields::parse(text).map_err(|error| undecodable(&error))?;
        Ok(PluginConfigurationReader { fields, problems: Vec::new() }.read())
    }
}

fn sound<T>(value: T, code: CniErrorCode, problems: &[InputProblem]) -> CniResult<T> {
    if problems.is_empty() {
        return Ok(value);
    }
    Err(CniError::of_problems(code, "invalid network configuration", problems))
}

fn short(value: &str) -> String {
    const MAX_LENGTH: usize = 200;
    let start: String = value.chars().take(MAX_LENGTH).collect();
    if start.len() == value.len() { start } else { start + " .." }
}

const ABSOLUTE: &str = "expected a path that starts with /";

fn absolute(text: &str) -> Option<PathBuf> {
    (text.starts_with('/') && !text.contains('\0')).then(|| PathBuf::from(text))
}

struct PluginConfigurationReader<'a> {
    fields: PluginFields<'a>,
    problems: Vec<InputProblem>,
}

impl<'a> PluginConfigurationReader<'a> {
    fn read(mut self) -> PartialConfiguration<'a> {
        let version = self.version();
        let id = |text: &str| is_id(text).then(|| text.to_owned());
        let name = self.text("name", id, "expected a letter or digit, then at most 109 more, _ . or -");
        if self.fields.value("name").is_none() {
            self.problems.push(InputProblem::of("name", "is missing; the network needs one"));
        }
        let before = self.problems.len();
        let places = self.places();
        let places_are_valid = self.problems.len() == before;
        let of_network = std::mem::take(&mut self.problems);
        let name = name.unwrap_or_default();
        let network = sound(name.clone(), CniErrorCode::Configuration, &of_network);
        let capabilities = self.fields.value("capabilities");
        let configuration = PluginConfiguration {
            version: version.clone().unwrap_or(CniVersion::LATEST),
            name,
            previous_result: self.previous_result(),
            annotations: self.annotations(),
            // `libcni` leaves an entry's capabilities in the entry's configuration (`injectRuntimeConfig`).
            requests_annotations: capabilities.is_some_and(|all| all.get().contains(ANNOTATIONS)),
            valid: self.valid(),
            capture: self.layer(keys::CAPTURE),
            defaults: self.layer(keys::DEFAULTS).unwrap_or_default(),
            excluded_namespaces: self
                .typed(keys::EXCLUDE_NAMESPACES, "a list of names")
                .unwrap_or_else(|| EXCLUDED_NAMESPACES.iter().map(|name| (*name).to_owned()).collect()),
            kubeconfig: self.text(keys::KUBECONFIG, absolute, ABSOLUTE),
            backend: self.backend(),
        };
        let timeout = self.timeout();
        let twice = |name: &str| InputProblem::of(name, "is repeated; remove one");
        self.problems.extend(self.fields.doubles().map(twice));
        // The specification requires the key and its value.
        let complaint = |(name, value): (&str, &RawValue)| {
            let text = format!("{} (its value is {})", keys::complaint(name)?, short(value.get()));
            Some(InputProblem::of(name, text))
        };
        let unsupported: Vec<InputProblem> = self.fields.iter().filter_map(complaint).collect();
        let code = match of_network.is_empty() && self.problems.is_empty() {
            true => CniErrorCode::UnsupportedField,
            false => CniErrorCode::Configuration,
        };
        let whole = sound(configuration, code, &[of_network, unsupported, self.problems].concat());
        PartialConfiguration { version, places, places_are_valid, timeout, network, whole }
    }

    fn typed<T: DeserializeOwned>(&mut self, name: &str, form: &str) -> Option<T> {
        let value = self.fields.value(name)?;
        let read = serde_json::from_str(value.get());
        if read.is_err() {
            self.blame(name, value.get(), &format!("is not {form}"));
        }
        read.ok()
    }

    fn blame(&mut self, name: &str, value: &str, text: &str) {
        self.problems.push(InputProblem::of(name, format!("{} {text}", short(value))));
    }

    fn text<T>(&mut self, name: &str, read: impl Fn(&str) -> Option<T>, form: &str) -> Option<T> {
        let text: String = self.typed(name, "a string")?;
        let value = read(&text);
        if value.is_none() {
            self.problems.push(InputProblem::with_item(name, &short(&text), format!("is invalid; {form}")));
        }
        value
    }

    fn version(&mut self) -> CniResult<CniVersion> {
        match self.fields.value("cniVersion").map(|value| serde_json::from_str::<String>(value.get())) {
            Some(Ok(text)) => CniVersion::parse(&text),
            // Version 0.1.0 preceded the key.
            None => CniVersion::parse("0.1.0"),
            Some(Err(_)) => {
                let text = "is not a string; expected one such as \"1.0.0\"";
                let problem = InputProblem::of("cniVersion", text);
                sound(CniVersion::LATEST, CniErrorCode::Configuration, &[problem])
            }
        }
    }

    fn places(&mut self) -> Places {
        let default = Places::default();
        let log = |text: &str| match text {
            "journal" => Some(LogTarget::Journal),
            "none" => Some(LogTarget::None),
            path => absolute(path).map(LogTarget::File),
        };
        Places {
            state: self.text(keys::STATE_DIR, absolute, ABSOLUTE).unwrap_or(default.state),
            log: self.text(keys::LOG, log, &format!("{ABSOLUTE}, journal or none")).unwrap_or(default.log),
            log_max_bytes: self
                .typed(keys::LOG_MAX_BYTES, "a number of bytes")
                .unwrap_or(default.log_max_bytes),
        }
    }

    fn timeout(&mut self) -> Duration {
        let [least, most] = TIMEOUTS;
        let read = |text: &str| duration::parse(text).filter(|time| (least..=most).contains(time));
        self.text(keys::TIMEOUT, read, "expected a time from 100ms to 10m, such as 10s").unwrap_or(TIMEOUT)
    }

    fn previous_result(&mut self) -> Option<&'a RawValue> {
        let value = self.fields.value("prevResult")?;
        if !value.get().starts_with('{') {
            self.blame("prevResult", value.get(), "is not a result; expected an object");
        }
        Some(value)
    }

    fn annotations(&mut self) -> Option<BTreeMap<String, String>> {
        let given = self.fields.value("runtimeConfig")?;
        let Ok(given) = PluginFields::parse(given.get()) else {
            self.blame("runtimeConfig", given.get(), "is not an object of capabilities");
            return None;
        };
        let value = given.value(ANNOTATIONS)?;
        let annotations = serde_json::from_str(value.get());
        if annotations.is_err() {
            let text = "is not an object of annotations; expected an object of strings";
            self.blame(&format!("runtimeConfig.{ANNOTATIONS}"), value.get(), text);
        }
        annotations.ok()
    }

    /// The runtime's attachments. The key had another name at first; Go writes `null` for none.
    fn valid(&mut self) -> Option<Vec<Attachment>> {
        let names = ["cni.dev/valid-attachments", "cni.dev/attachments"];
        let name = names.into_iter().find(|name| self.fields.has(name))?;
        let form = "a list of objects, each with a containerID and an ifname";
        match self.fields.value(name) {
            Some(_) => self.typed(name, form),
            None => Some(Vec::new()),
        }
    }

    /// An object of settings: strings, numbers, booleans, or lists of them. Values are validated later.
    fn layer(&mut self, key: &str) -> Option<Raw> {
        let given = PluginFields::parse(self.fields.value(key)?.get());
        let wrong = |error| InputProblem::of(key, format!("{error}; expected an object of settings"));
        let fields = given.map_err(|error| self.problems.push(wrong(error))).ok()?;
        let named = |name: &str, text: &str| InputProblem::of(&format!("{key}.{name}"), text);
        self.problems.extend(fields.doubles().map(|name| named(name, "is repeated; remove one")));
        let mut values = BTreeMap::new();
        for (name, value) in fields.iter() {
            match serde_json::from_str(value.get()).ok().as_ref().and_then(text) {
                Some(text) => drop(values.insert(name.to_owned(), text)),
                None => self.problems.push(named(
                    name,
                    "is not a value of a setting; expected a string, a number, true, false, or a list of strings and \
                     numbers",
                )),
            }
        }
        let read = configured(key, &values);
        self.problems.extend(read.problems());
        Some(read.raw)
    }

    fn backend(&mut self) -> &'static str {
        let names = Setting::Backend.row().values;
        let named = |text: &str| names.iter().find(|name| **name == text).copied();
        let form = format!("expected {}", alternatives(names));
        self.text(keys::BACKEND, named, &form).unwrap_or("nftables")
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Array(items) => Some(items.iter().map(scalar).collect::<Option<Vec<String>>>()?.join(",")),
        other => scalar(other),
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
