//! Properties of any namespace: routes match choices, lead to existing subsets, and ignore input order.

use super::scene::{Scene, environment};
use environment::routes::{RouteDisposition, subset};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const SERVICES: [&str; 3] = ["cart", "mail", "pay"];

fn value() -> impl Strategy<Value = String> {
    proptest::collection::vec("[ab]", 1..4).prop_map(|parts| parts.join("."))
}

fn scene() -> impl Strategy<Value = Scene> {
    let workloads = proptest::collection::vec((0..SERVICES.len(), value()), 0..8);
    (workloads, proptest::option::of(value()), any::<bool>()).prop_map(|(workloads, default, alias)| {
        let mut spec = json!({"envLabel": {"defaultSubset": default}});
        if alias {
            spec["envHeader"] = json!({"aliases": [{"name": "X-Other"}]});
        }
        let mut scene =
            Scene { environment: environment(&spec), services: Vec::new(), workloads: Vec::new() };
        for name in SERVICES {
            scene.services.push(json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "shop"},
                "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80}]},
            }));
        }
        workloads.iter().for_each(|(at, value)| scene.workload(SERVICES[*at], value));
        scene
    })
}

fn own(scene: &Scene, service: &str) -> BTreeSet<String> {
    let labels = scene.workloads.iter().map(|workload| &workload["spec"]["template"]["metadata"]["labels"]);
    let labels = labels.filter(|labels| labels["app"] == service);
    labels.map(|labels| labels["virtual-env"].as_str().expect("a label").to_owned()).collect()
}

/// Istio's choice for a request with these headers: the first route whose conditions match.
fn walk(routes: &Value, headers: &[(&str, &str)]) -> Option<String> {
    let value = |name: &str| headers.iter().find(|(there, _)| *there == name).map(|(_, value)| *value);
    let all = |route: &Value, part: &str, holds: &dyn Fn(&str, &Value) -> bool| {
        let conditions = route["match"][0][part].as_object();
        conditions.is_none_or(|all| all.iter().all(|(name, condition)| holds(name, condition)))
    };
    let is = |name: &str, condition: &Value| value(name).is_some_and(|value| condition["exact"] == value);
    let is_missing = |name: &str, condition: &Value| *condition == json!({}) && value(name).is_none();
    let meets = |route: &&Value| all(route, "headers", &is) && all(route, "withoutHeaders", &is_missing);
    let route = routes.as_array().expect("routes").iter().find(meets).expect("the default takes all");
    route["route"][0]["destination"]["subset"].as_str().map(str::to_owned)
}

fn expected(
    own: &BTreeSet<String>,
    all: &BTreeSet<String>,
    default: Option<&str>,
    value: Option<&str>,
) -> Option<String> {
    let is_near = |there: &&String, value: &str| **there == value || value.starts_with(&format!("{there}."));
    let known = value.filter(|value| all.contains(*value));
    let nearest = known
        .and_then(|value| own.iter().filter(|there| is_near(there, value)).max_by_key(|there| there.len()));
    let default = default.filter(|default| own.contains(*default));
    nearest.map(String::as_str).or(default).map(subset)
}

proptest! {
    #[test]
    fn routes_lead_to_the_expected_pods(scene in scene(), others in proptest::collection::vec(value(), 3)) {
        let plan = scene.plan();
        let default = scene.environment["spec"]["envLabel"]["defaultSubset"].as_str();
        let query = plan.environments.iter().chain(&others).map(|value| Some(value.as_str())).chain([None]);
        let query: Vec<Option<&str>> = query.collect();
        for planned in &plan.services {
            let own = own(&scene, &planned.name);
            let target = |value: Option<&str>| expected(&own, &plan.environments, default, value);
            if let Some(choices) = &planned.choices {
                for value in &query {
                    prop_assert_eq!(choices.subset(*value).map(str::to_owned), target(*value));
                }
            }
            match &planned.disposition {
                RouteDisposition::Routed { virtual_service, destination_rule } => {
                    let routes = &virtual_service["spec"]["http"];
                    let subsets = destination_rule["spec"]["subsets"].as_array().expect("subsets");
                    let headers: &[&str] =
                        if scene.environment["spec"]["envHeader"].is_null() { &["X-Virtual-Env"] } else { &["X-Virtual-Env", "X-Other"] };
                    for (header, value) in headers.iter().flat_map(|header| query.iter().map(move |value| (header, value))) {
                        let found = walk(routes, &value.map(|value| (*header, value)).into_iter().collect::<Vec<_>>());
                        prop_assert_eq!(&found, &target(*value), "{} {:?}", header, value);
                        prop_assert!(found.is_none_or(|found| subsets.iter().any(|subset| subset["name"] == found)));
                    }
                    // The header overrides aliases.
                    for (first, second) in query.iter().flatten().flat_map(|first| query.iter().flatten().map(move |second| (first, second))) {
                        let found = walk(routes, &[("X-Virtual-Env", first), ("X-Other", second)]);
                        prop_assert_eq!(found, target(Some(first)), "{} before {}", first, second);
                    }
                }
                // Without routes, no request is lost: no pod has an environment, or all requests have the same destination.
                RouteDisposition::Unrouted(_) => {
                    let ways: BTreeSet<Option<String>> = query.iter().map(|value| target(*value)).collect();
                    prop_assert!(own.is_empty() || ways.len() == 1, "{:?}", ways);
                }
                RouteDisposition::Refused(problems) => prop_assert!(false, "{}", problems),
            }
        }
    }

    #[test]
    fn no_order_matters(scene in scene()) {
        let mut other = scene.clone();
        other.workloads.reverse();
        other.services.reverse();
        prop_assert_eq!(scene.plan(), other.plan());
    }
}
