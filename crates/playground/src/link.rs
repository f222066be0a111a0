//! The content of a link to the page: the input without parts that may be secret.

use crate::fields::{MANIFEST, PageRequest};
use crate::findings::joined;
use crate::words::{is_program, split_words, variable};
use diagnose::listed;
use mesh::data::{Tree, yaml::block};
use mesh::pod::{self, values};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The fields in a link; the packet is included unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Link {
    pub flags: String,
    pub manifest: String,
    pub flags_before: String,
    pub manifest_before: String,
    pub holds: String,
}

/// Annotation with a copy of the object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

#[derive(Default)]
struct Omitted {
    variables: usize,
    objects: usize,
    copies: usize,
}

pub(crate) fn link(request: &PageRequest) -> Link {
    let mut omitted = Omitted::default();
    let mut unread = Vec::new();
    let mut kept = |text: Result<String, &'static str>| {
        text.unwrap_or_else(|what| {
            unread.push(what);
            String::new()
        })
    };
    let [flags, flags_before] =
        [&request.flags, &request.flags_before].map(|text| kept(flags(text, &mut omitted)));
    let [manifest, manifest_before] =
        [&request.manifest, &request.manifest_before].map(|text| kept(manifest(text, &mut omitted)));
    let before = format!("{flags_before}{manifest_before}");
    let given = [
        ("the flags", &flags),
        ("the manifest", &manifest),
        ("the packet", &request.packet),
        ("the earlier configuration", &before),
    ];
    let held: Vec<&str> =
        given.iter().filter(|(_, text)| !text.trim().is_empty()).map(|(name, _)| *name).collect();
    let Omitted { variables, objects, copies } = omitted;
    let counts = [
        (variables, "the value of 1 environment variable", "the values of N environment variables"),
        (objects, "the data of 1 Secret or ConfigMap", "the data of N Secrets or ConfigMaps"),
        (copies, "the annotation last-applied-configuration", "the N annotations last-applied-configuration"),
    ];
    let counted = counts.into_iter().filter(|(count, ..)| *count > 0).map(|(count, one, several)| {
        if count == 1 { one.to_owned() } else { several.replace('N', &count.to_string()) }
    });
    let without: Vec<String> = unread.into_iter().map(str::to_owned).chain(counted).collect();
    let held = if held.is_empty() { "nothing yet".to_owned() } else { listed(&held) };
    let without = if without.is_empty() { String::new() } else { format!(", without {}", listed(&without)) };
    Link { flags, manifest, flags_before, manifest_before, holds: format!("The link holds {held}{without}.") }
}

/// Flags without variables that no setting reads and without the words before the program.
fn flags(text: &str, omitted: &mut Omitted) -> Result<String, &'static str> {
    let words = split_words(text).ok_or("the flags, which end within a quote")?;
    let program = words.iter().position(|word| is_program(word)).unwrap_or_default();
    let mut kept = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match variable(word) {
            Some((name, _)) if !pod::reads_variable(&name) => omitted.variables += 1,
            None if at < program => {}
            Some(_) | None => kept.push(word.clone()),
        }
    }
    Ok(if kept.len() == words.len() { text.to_owned() } else { joined(&kept) })
}

/// A manifest, unchanged if all of it is kept; otherwise rewritten.
fn manifest(text: &str, omitted: &mut Omitted) -> Result<String, &'static str> {
    let given = values(MANIFEST, text).map_err(|_| "the manifest, which is neither YAML nor JSON")?;
    let mut kept = given.clone();
    kept.iter_mut().for_each(|document| object(document, omitted));
    if kept == given {
        return Ok(text.to_owned());
    }
    let kept = kept.iter().filter(|document| !document.is_null());
    let kept = kept.map(|document| block(&Tree::deserialize(document).expect("JSON is data")));
    Ok(kept.collect::<Vec<_>>().join("---\n"))
}

fn object(value: &mut Value, omitted: &mut Omitted) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| object(item, omitted)),
        Value::Object(map) => {
            match map.get("kind").and_then(Value::as_str) {
                Some("Secret" | "ConfigMap") => omit_data(map, omitted),
                // Items of a typed list have no kind.
                Some("SecretList" | "ConfigMapList") => {
                    let items = map.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten();
                    items.filter_map(Value::as_object_mut).for_each(|item| omit_data(item, omitted));
                }
                Some(_) | None => {}
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

fn omit_data(map: &mut Map<String, Value>, omitted: &mut Omitted) {
    let data = ["data", "stringData", "binaryData"].map(|key| map.remove(key));
    omitted.objects += usize::from(data.iter().any(Option::is_some));
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
    fn variables_without_a_setting_are_omitted() {
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
    fn secrets_of_a_manifest_are_omitted() {
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
        assert_eq!(again.manifest, manifest, "a link's manifest is kept");
        let list = "kind: SecretList\nitems:\n- {metadata: {name: \"a\\u007f\"}, data: {p: aHVudGVy}}\n\
            - {data: {q: aHVudGVy}}\n";
        let Link { manifest, holds, .. } = of("", list);
        assert!(!manifest.contains("aHVudGVy") && manifest.contains("\"a\\u007f\""), "{manifest}");
        assert!(holds.contains("data of 2 Secrets or ConfigMaps"), "{holds}");
        assert_eq!(of("", "a: [").manifest, "");
    }

    #[test]
    fn omitted_parts_change_no_answer() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/support/pods");
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
            if link.manifest.is_empty() {
                continue;
            }
            let shared = PageRequest { manifest: link.manifest, ..request.clone() };
            assert_eq!(answers(&request), answers(&shared), "{}", path.display());
        }
        assert!(changed >= 2, "only {changed} manifests have omitted parts");
    }
}
