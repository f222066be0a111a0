//! Results of Istio's own injector for the cases of `equal.txt`, which all differed here once. The first section is this
//! project's template, with Istio's calls. A case has settings, fields of the container `web` and of the pod, further containers,
//! and the paths in its result, which `UPDATE_GOLDENS=1` writes.

use super::cases::Setup;
use crate::support::find;
use injection::InjectionOutcome;
use mesh::pod::values;
use serde_json::{Value, json};

fn pod(case: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "annotations": case["annotations"]},
        "spec": {"containers": [
            {"name": "web", "image": "example/web:1", "ports": [{"name": "http", "containerPort": 8080}]},
        ]},
    });
    let nothing = json!({});
    let patch = |key: &str| case.get(key).unwrap_or(&nothing);
    json_patch::merge(&mut pod["spec"]["containers"][0], patch("web"));
    let beside = case["beside"].as_array().into_iter().flatten().cloned();
    pod["spec"]["containers"].as_array_mut().expect("a list").extend(beside);
    json_patch::merge(&mut pod["spec"], patch("spec"));
    json_patch::merge(&mut pod["metadata"], patch("metadata"));
    pod
}

fn answered(template: &str, case: &str) -> String {
    let case = values("case", case).expect("YAML").remove(0);
    let head = json!({"config": {"templates": {"sidecar": template}}, "values": case["values"], "mesh": case["mesh"],
        "namespace": {"name": "shop"}});
    let setup = Setup::read(head.as_object().expect("a mapping"));
    let injected = |pod: &Value| match setup.inject(pod) {
        Ok(InjectionOutcome::Injected(done)) => Ok(done.pod),
        Ok(InjectionOutcome::Skipped(_)) => panic!("{case}"),
        Err(problems) => Err(problems.to_string()),
    };
    let done = match injected(&pod(&case)) {
        Ok(done) => done,
        Err(problems) => return format!("{problems}\n"),
    };
    assert_eq!(injected(&done).as_ref(), Ok(&done), "{case}, again");
    let paths = case["show"].as_array().expect("paths").iter().map(|path| path.as_str().expect("a path"));
    paths.map(|path| format!("{path}: {}\n", find(&done, path))).collect()
}

#[test]
fn pods_are_injected_as_istio_injects_them() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pipeline/equal.txt");
    let template = testkit::sections::read(file).remove(0).1;
    testkit::sections::answers(file, ", injected", |case| {
        if case == template { String::new() } else { answered(&template, case) }
    });
}
