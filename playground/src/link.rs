//! What a link to the page holds: the input without what may be secret.

use crate::edit::joined;
use crate::request::{MANIFEST, PageRequest};
use crate::words::{is_program, split_words, variable};
use mesh::pod::{self, values};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write;

/// The fields as a link holds them; the packet is there as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Link {
    pub flags: String,
    pub manifest: String,
    pub flags_before: String,
    pub manifest_before: String,
    /// What the link holds and what it leaves out, in a sentence.
    pub holds: String,
}

/// An annotation with a copy of the object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What is left out.
#[derive(Default)]
struct Omitted {
    variables: usize,
    objects: usize,
    copies: usize,
}

pub(crate) fn link(request: &PageRequest) -> Link {
    let mut omitted = Omitted::default();
    let mut unread = Vec::new();
    let [flags, flags_before] = [&request.flags, &request.flags_before].map(|text| {
        flags(text, &mut omitted).unwrap_or_else(|| {
            unread.push("the flags, which end within a quote");
            String::new()
        })
    });
    let [manifest, manifest_before] = [&request.manifest, &request.manifest_before].map(|text| {
        manifest(text, &mut omitted).unwrap_or_else(|| {
            unread.push("the manifest, which is neither YAML nor JSON");
            String::new()
        })
    });
    let before = format!("{flags_before}{manifest_before}");
    let given = [
        ("the flags", &flags),
        ("the manifest", &manifest),
        ("the packet", &request.packet),
        ("the configuration before", &before),
    ];
    let held: Vec<&str> =
        given.iter().filter(|(_, text)| !text.trim().is_empty()).map(|(name, _)| *name).collect();
    let mut without: Vec<String> = unread.into_iter().map(str::to_owned).collect();
    let mut count = |number: usize, one: &str, several: &str| match number {
        0 => {}
        1 => without.push(format!("the {one}")),
        _ => without.push(format!("the {several}").replace('N', &number.to_string())),
    };
    count(omitted.variables, "value of 1 environment variable", "values of N environment variables");
    count(omitted.objects, "data of 1 Secret or ConfigMap", "data of N Secrets or ConfigMaps");
    count(
        omitted.copies,
        "annotation last-applied-configuration",
        "N annotations last-applied-configuration",
    );
    let held = if held.is_empty() { "nothing yet".to_owned() } else { listed(&held) };
    let without = if without.is_empty() { String::new() } else { format!(", without {}", listed(&without)) };
    Link { flags, manifest, flags_before, manifest_before, holds: format!("The link holds {held}{without}.") }
}

fn listed(items: &[impl AsRef<str>]) -> String {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    match items.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
        None => String::new(),
    }
}

/// Flags without variables that no setting has, and without what starts the program. `None` where a quote is left open.
fn flags(text: &str, omitted: &mut Omitted) -> Option<String> {
    let words = split_words(text)?;
    let program = words.iter().position(|word| is_program(word)).unwrap_or_default();
    let mut kept = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match variable(word) {
            Some((name, _)) if !pod::reads_variable(&name) => omitted.variables += 1,
            None if at < program => {}
            Some(_) | None => kept.push(word.clone()),
        }
    }
    if kept.len() == words.len() { Some(text.to_owned()) } else { joined(&kept) }
}

/// A manifest as it is, if nothing has to be left out; else written anew. `None` where it can't be read.
fn manifest(text: &str, omitted: &mut Omitted) -> Option<String> {
    let before = omitted.variables + omitted.objects + omitted.copies;
    let mut documents = values(MANIFEST, text).ok()?;
    documents.iter_mut().for_each(|document| object(document, omitted));
    let left = |of: &Omitted| of.variables + of.objects + of.copies;
    if left(omitted) == before {
        return Some(text.to_owned());
    }
    let mut out = String::new();
    for (at, document) in documents.iter().filter(|document| !document.is_null()).enumerate() {
        out.push_str(if at > 0 { "---\n" } else { "" });
        write_yaml(&mut out, document, 0);
    }
    Some(out)
}

/// Takes values of variables and of secrets out of an object and all that it holds.
fn object(value: &mut Value, omitted: &mut Omitted) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| object(item, omitted)),
        Value::Object(map) => {
            if matches!(map.get("kind").and_then(Value::as_str), Some("Secret" | "ConfigMap")) {
                let data = ["data", "stringData", "binaryData"].map(|key| map.remove(key));
                omitted.objects += usize::from(data.iter().any(Option::is_some));
            }
            if let Some(annotations) = map.get_mut("annotations").and_then(Value::as_object_mut) {
                omitted.copies += usize::from(annotations.remove(LAST_APPLIED).is_some());
            }
            for variable in map.get_mut("env").and_then(Value::as_array_mut).into_iter().flatten() {
                let is_known = variable.get("name").and_then(Value::as_str).is_some_and(pod::reads_variable);
                let value =
                    variable.as_object_mut().filter(|_| !is_known).and_then(|map| map.remove("value"));
                omitted.variables += usize::from(value.is_some());
            }
            map.values_mut().for_each(|value| object(value, omitted));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Writes a value as YAML, lists and mappings in lines of their own.
fn write_yaml(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                let _ = write!(out, "{:indent$}{}:", "", scalar(&Value::String(key.clone())));
                nested(out, value, indent + 2);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let start = out.len();
                write_yaml(out, item, indent + 2);
                out.replace_range(start + indent..start + indent + 1, "-");
            }
        }
        value => {
            let _ = writeln!(out, "{:indent$}{}", "", scalar(value));
        }
    }
}

fn nested(out: &mut String, value: &Value, indent: usize) {
    let is_block = match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    if is_block {
        out.push('\n');
        write_yaml(out, value, indent);
    } else {
        let _ = writeln!(out, " {}", scalar(value));
    }
}

/// A scalar, or what is empty, in one line: quoted unless it is a word that can't be anything else.
fn scalar(value: &Value) -> String {
    let is_plain = |text: &str| {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
        let other = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(is_letter)
            && !other.contains(&text.to_ascii_lowercase().as_str())
    };
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer;
    use std::{fs, path::Path};

    fn of(flags: &str, manifest: &str) -> Link {
        let request = PageRequest {
            flags: flags.to_owned(),
            manifest: manifest.to_owned(),
            packet: "8080".to_owned(),
            ..PageRequest::default()
        };
        link(&request)
    }

    #[test]
    fn variables_that_set_nothing_are_left_out() {
        let plain = "ISTIO_OUTBOUND_OWNER_GROUPS=7  sidecar-init -b '*'";
        let found = of(plain, "");
        assert_eq!((&*found.flags, &*found.holds), (plain, "The link holds the flags and the packet."));
        let found = of("TOKEN=abc sudo docker run -e PASSWORD=x istio-iptables -b '*'", "");
        assert_eq!(found.flags, "istio-iptables -b '*'");
        let holds = "The link holds the flags and the packet, without the values of 2 environment variables.";
        assert_eq!(found.holds, holds);
        let found = of("-b '8", "");
        assert_eq!(found.flags, "");
        assert!(found.holds.ends_with(", without the flags, which end within a quote."), "{}", found.holds);
    }

    #[test]
    fn secrets_of_a_manifest_are_left_out() {
        let text = "kind: Secret\napiVersion: v1\ndata: {p: aHVudGVy}\nstringData:\n  q: hunter2\n---\n\
            kind: Pod\nmetadata:\n  name: web\n  annotations:\n    kubectl.kubernetes.io/last-applied-configuration: 'hunter2'\n\
            spec:\n  containers:\n  - name: web\n    env:\n    - {name: PASSWORD, value: hunter2}\n    - {name: REF, valueFrom: {x: y}}\n    \
            args: ['*', \"yes\", plain]\n";
        let Link { manifest, holds, .. } = of("", text);
        assert!(!manifest.contains("hunter2") && !manifest.contains("aHVudGVy"), "{manifest}");
        assert!(manifest.contains("- name: PASSWORD\n") && manifest.contains("- \"*\"\n"), "{manifest}");
        for part in ["value of 1 environment variable", "data of 1 Secret", "last-applied-configuration"] {
            assert!(holds.contains(part), "{holds}");
        }
        let again = of("", &manifest);
        assert_eq!(again.manifest, manifest, "it is read and left as it is");
        assert_eq!(of("", "a: [").manifest, "");
    }

    /// The link answers as the input does.
    #[test]
    fn what_is_left_out_changes_no_answer() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/pods");
        let mut changed = 0;
        for entry in fs::read_dir(folder).expect("the manifests") {
            let path = entry.expect("an entry").path();
            if path.extension().is_none_or(|end| end != "yaml" && end != "json") {
                continue;
            }
            let manifest = fs::read_to_string(&path).expect("UTF-8");
            let request = PageRequest { manifest, packet: "8080".to_owned(), ..PageRequest::default() };
            let link = link(&request);
            changed += usize::from(link.manifest != request.manifest);
            let answers = |request: &PageRequest| {
                let parts = answer(request).parts.unwrap_or_default();
                let seen = |part: crate::PodSection| (part.title, part.picture, part.iptables);
                parts.into_iter().map(seen).collect::<Vec<_>>()
            };
            // What can't be read is left out.
            if link.manifest.is_empty() {
                continue;
            }
            let shared = PageRequest { manifest: link.manifest, ..request.clone() };
            assert_eq!(answers(&request), answers(&shared), "{}", path.display());
        }
        assert!(changed >= 2, "only {changed} manifests hold anything to leave out");
    }
}
