//! Injecting each manifest of `tests/pods` gives the result in its section and a patch that applies; a second injection changes
//! nothing. `UPDATE_GOLDENS=1` writes the results.

use super::cases::{Case, Setup};
use crate::support::rfc6902::apply;
use injection::InjectionOutcome;
use injection::patch::between;
use injection::pipeline::STATUS;
use mesh::data::{Tree, yaml};
use serde_json::{Value, json};

fn shown(case: &Case, plain: &Value) -> String {
    match case.setup().inject(&case.pod()) {
        Err(problems) => problems.to_string().lines().map(|line| format!("# {line}\n")).collect(),
        Ok(InjectionOutcome::Skipped(decision)) => {
            let warning = decision.warning().map(|warning| format!("# warning: {warning}\n"));
            format!("# skipped: {}\n{}", decision.reason, warning.unwrap_or_default())
        }
        Ok(InjectionOutcome::Injected(injected)) => {
            let mut shown = format!("# injected: {}\n", injected.decision.reason);
            for warning in &injected.warnings {
                shown.push_str(&format!("# warning: {warning}\n"));
            }
            shown + &yaml::block(&Tree::read(&short(injected.pod, plain, &case.name).to_string()))
        }
    }
}

/// The case whose injected containers are shown in full; all others show differences from it.
const FULL: &str = "plain.yaml";

fn short(mut pod: Value, plain: &Value, name: &str) -> Value {
    if name == FULL {
        return pod;
    }
    let lists = ["containers", "initContainers"].map(|list| plain["spec"][list].as_array().cloned());
    let known: Vec<Value> = lists.into_iter().flatten().flatten().collect();
    for list in ["containers", "initContainers"] {
        for container in
            pod.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut).into_iter().flatten()
        {
            let same = |other: &&Value| other["name"] == container["name"] && other["name"] != "web";
            if let Some(other) = known.iter().find(same) {
                let rest = serde_json::to_value(between(other, container)).expect("JSON");
                *container = json!({"name": container["name"], format!("as in {FULL}, but"): rest});
            }
        }
    }
    for volume in pod.pointer_mut("/spec/volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        if plain["spec"]["volumes"].as_array().is_some_and(|volumes| volumes.contains(volume)) {
            *volume = json!({"name": volume["name"], format!("as in {FULL}"): true});
        }
    }
    pod
}

#[test]
fn injected_pods_match_their_sections() {
    let full = Case::all().iter().find(|case| case.name == FULL).expect("the full case");
    let Ok(InjectionOutcome::Injected(plain)) = full.setup().inject(&full.pod()) else {
        panic!("{FULL} is injected")
    };
    for cases in Case::all().chunk_by(|one, next| one.file == next.file) {
        let sections = cases.iter().flat_map(|case| {
            let injected = (format!("{}.injected", case.name), shown(case, &plain.pod));
            [(case.name.clone(), case.text.clone()), injected]
        });
        testkit::sections::golden(&cases[0].file, sections);
    }
}

/// Returns the injected pod, if any; checks the patch, and that a second injection changes nothing.
fn check(setup: &Setup, pod: &Value, title: &str) -> Option<Value> {
    let Ok(InjectionOutcome::Injected(injected)) = setup.inject(pod) else { return None };
    let patch = serde_json::to_value(between(pod, &injected.pod)).expect("JSON");
    assert_eq!(apply(pod, &patch), Ok(injected.pod.clone()), "{title}");
    let again = match setup.inject(&injected.pod) {
        Ok(InjectionOutcome::Injected(again)) => again,
        other => panic!("{title}: {other:?}"),
    };
    let rest = serde_json::to_value(between(&injected.pod, &again.pod)).expect("JSON");
    assert_eq!(rest, json!([]), "{title}");
    let expected = injected.warnings.iter().filter(|warning| !warning.starts_with(STATUS));
    assert_eq!(again.warnings.iter().collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{title}");
    Some(injected.pod)
}

#[test]
fn injecting_twice_is_injecting_once() {
    let mut injected = 0;
    for case in Case::all() {
        injected += usize::from(check(case.setup(), &case.pod(), &case.name).is_some());
    }
    assert!(injected > 40, "{injected}");
}

/// An injection removes all parts of an earlier one with another setup.
#[test]
fn an_old_setup_leaves_nothing() {
    let mut compared = 0;
    let configuration = Setup::plain().configuration;
    for case in Case::all() {
        let admission = case.setup().admission.clone();
        let plain = Setup { admission, configuration: configuration.clone() };
        let (Ok(InjectionOutcome::Injected(old)), Ok(InjectionOutcome::Injected(new))) =
            (case.setup().inject(case.written()), plain.inject(case.written()))
        else {
            continue;
        };
        let title = &case.name;
        let Ok(InjectionOutcome::Injected(changed)) = plain.inject(&old.pod) else { panic!("{title}") };
        for list in ["containers", "initContainers", "volumes", "imagePullSecrets"] {
            assert_eq!(sorted(&changed.pod["spec"][list]), sorted(&new.pod["spec"][list]), "{title}: {list}");
        }
        compared += 1;
    }
    assert!(compared > 35, "{compared}");
}

/// Items without their order, and with probes' ports as numbers: names are not restored.
fn sorted(items: &Value) -> Vec<String> {
    let mut items: Vec<String> = items.as_array().into_iter().flatten().map(by_number).collect();
    items.sort();
    items
}

fn by_number(item: &Value) -> String {
    [("\"http\"", "8080"), ("\"8081\"", "8081")].iter().fold(item.to_string(), |text, (name, number)| {
        text.replace(&format!("\"port\":{name}"), &format!("\"port\":{number}"))
    })
}
