//! Alerts and the dashboard's expressions are valid for Prometheus, and each alert fires only for its cause:
//! `docker/monitoring/alerts_test.yaml`, run by promtool.

use super::rendered::{Tool, call, root};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs};
use testkit::{command_line::ended, folder::Folder};

fn read(name: &str) -> Value {
    let text = fs::read_to_string(root().join("docker/monitoring").join(name)).expect("a file");
    serde_saphyr::from_str(&text).expect("YAML")
}

fn promtool(arguments: &[&str], rules: &Value) {
    let folder = Folder::new("alerts");
    folder.write("rules.yaml", rules);
    fs::copy(root().join("docker/monitoring/alerts_test.yaml"), folder.join("alerts_test.yaml"))
        .expect("copied");
    ended(call(Tool::Promtool).args(arguments).current_dir(&*folder)).with(0);
}

#[test]
#[ignore = "runs promtool"]
fn each_alert_fires_only_for_its_cause() {
    let rules = read("alerts.yaml")["spec"].clone();
    promtool(&["check", "rules", "rules.yaml"], &rules);
    promtool(&["test", "rules", "alerts_test.yaml"], &rules);
    // The tests expect every alert to fire.
    let groups = rules["groups"].as_array().expect("groups").iter();
    let alerts = groups.flat_map(|group| group["rules"].as_array().expect("rules"));
    let alerts: BTreeSet<&str> = alerts.map(|rule| rule["alert"].as_str().expect("a name")).collect();
    let tests = read("alerts_test.yaml");
    let samples = tests["tests"].as_array().expect("tests").iter().flat_map(|test| {
        let all = test["promql_expr_test"].as_array().expect("expressions").iter();
        all.flat_map(|one| one["exp_samples"].as_array().into_iter().flatten())
    });
    let fired: BTreeSet<&str> = samples
        .filter_map(|sample| sample["labels"].as_str()?.split_once("alertname=\"")?.1.split('"').next())
        .collect();
    assert!(alerts.len() > 10);
    assert_eq!(fired, alerts);
}

#[test]
#[ignore = "runs promtool"]
fn expressions_of_the_dashboard_are_valid() {
    let dashboard = read("dashboard.json");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    // Grafana replaces this variable itself.
    let expressions: Vec<String> = targets
        .map(|target| target["expr"].as_str().expect("an expression").replace("$__rate_interval", "5m"))
        .collect();
    assert!(expressions.len() > 20, "{expressions:?}");
    let rules = expressions.iter().enumerate();
    let rules: Vec<Value> =
        rules.map(|(at, expr)| json!({ "record": format!("expression_{at}"), "expr": expr })).collect();
    promtool(
        &["check", "rules", "rules.yaml"],
        &json!({ "groups": [{ "name": "dashboard", "rules": rules }] }),
    );
}
