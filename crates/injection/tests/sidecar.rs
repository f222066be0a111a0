//! A pod's sidecar from its annotations, and all their errors together: the cases of `sidecar.txt`. The result has the fields
//! that differ from a pod without settings. `UPDATE_GOLDENS=1` writes the results.

use crate::support::read;
use injection::AdmissionContext;
use injection::sidecar::Sidecar;
use mesh::Problems;
use mesh::pod::values;
use serde_json::{Value, json};

fn sidecar(case: &Value) -> Result<Sidecar, Problems> {
    let text = |key: &str| case.get(key).map(ToString::to_string).unwrap_or_default();
    let configuration = read("", &text("values"), &text("mesh"))?;
    let metadata = json!({"annotations": case["annotations"], "labels": case["labels"]});
    let pod = json!({"metadata": metadata, "spec": {"containers": [{"name": "app"}]}});
    let variables = case["path"].as_str().map(injection::admission::path_variables).unwrap_or_default();
    let admission = AdmissionContext { variables, ..AdmissionContext::default() };
    Sidecar::of(&pod, &admission, &configuration.values, &configuration.mesh)
}

fn fields(sidecar: &Sidecar) -> Vec<String> {
    let quoted = |word: &String| if word.is_empty() { "''".to_owned() } else { word.clone() };
    let arguments: Vec<String> = sidecar.arguments().iter().map(quoted).collect();
    let mut fields = vec![format!("    arguments: {}\n", arguments.join(" "))];
    for line in format!("{sidecar:#?}").lines().filter(|line| line.starts_with("    ")) {
        match fields.last_mut().filter(|_| line[4..].starts_with([' ', '}', ']', ')'])) {
            Some(field) => *field += &format!("{line}\n"),
            None => fields.push(format!("{line}\n")),
        }
    }
    fields
}

fn answered(case: &str) -> String {
    let plain = fields(&sidecar(&json!({})).expect("a plain pod"));
    match sidecar(&values("case", case).expect("YAML").remove(0)) {
        Err(problems) => format!("{problems}\n"),
        Ok(found) => {
            // Arguments show the capture.
            let differs = |field: &String| !plain.contains(field) && !field.starts_with("    traffic: ");
            fields(&found).into_iter().filter(differs).collect()
        }
    }
}

#[test]
fn sidecars_are_as_written() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sidecar.txt");
    testkit::sections::answers(file, ", read", answered);
}
