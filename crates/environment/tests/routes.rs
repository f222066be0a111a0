//! Routes in the cases of `routes.txt`: merge patches of the shop's objects, by name; null removes an object, and an unknown
//! name, SERVICE-VALUE, adds a workload. The output is the changed Services' routes or, with `show`, one Service's objects.
//! `UPDATE_GOLDENS=1` writes the output.

use super::scene::shop;
use environment::routes::{RouteDisposition, UnroutedReason, table};
use mesh::data::{Tree, yaml};
use mesh::pod::values;
use serde_json::Value;

const HEADER: &str = "X-Virtual-Env";

fn block(object: &Value) -> String {
    yaml::block(&Tree::read(&object.to_string()))
}

fn answered(case: &str) -> String {
    let mut scene = shop();
    let changes = values("case", case).expect("YAML").remove(0);
    let changes = changes.as_object().expect("a mapping");
    for (name, change) in changes.iter().filter(|(name, _)| *name != "show") {
        scene.change(name, change);
    }
    let (before, plan) = (shop().plan(), scene.plan());
    let mut text = String::new();
    for planned in &plan.services {
        let is_shown = changes.get("show").is_some_and(|name| *name == *planned.name);
        if before.services.contains(planned) && !is_shown && !changes.is_empty() {
            continue;
        }
        text += &match &planned.disposition {
            RouteDisposition::Routed { virtual_service, destination_rule } if is_shown => {
                format!("{}---\n{}", block(virtual_service), block(destination_rule))
            }
            RouteDisposition::Routed { .. } => {
                let routes = scene.routes(&planned.name);
                routes.iter().map(|route| format!("{} {route}\n", planned.name)).collect()
            }
            RouteDisposition::Unrouted(reason) => {
                let suspicious = if reason.is_suspicious() { " (suspicious)" } else { "" };
                format!("{}: {reason}{suspicious}\n", planned.name)
            }
            RouteDisposition::Refused(problems) => format!("{}: {problems}\n", planned.name),
        };
    }
    text += &plan.warnings.iter().map(|warning| format!("warning: {warning}\n")).collect::<String>();
    text + &plan.filter.as_ref().map(block).unwrap_or_default()
}

#[test]
fn routes_are_as_written() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/routes.txt");
    testkit::sections::answers(file, ", routed", answered);
}

#[test]
fn another_namespace_has_its_own_routes() {
    let mut scene = shop();
    scene.change("cart", &serde_json::json!({"metadata": {"namespace": "other"}}));
    assert_eq!(scene.plan().services.len(), 2);
}

#[test]
fn a_table_shows_the_destinations() {
    let expected = "\
X-Virtual-Env  cart      mail  pay
(none)         base      base  base
base           base      base  base
base.blue      base      base  base-blue
base.red       base-red  base  base
base.red.x     base-red  base  base-red-x
(another)      base      base  base
";
    let plan = shop().plan();
    assert_eq!(table(&plan, HEADER, 80), expected);
    let narrow = table(&plan, HEADER, 32);
    assert!(narrow.lines().all(|line| line.len() <= 32), "{narrow}");
    assert_eq!(narrow.lines().filter(|line| line.starts_with(HEADER)).count(), 2);
    let mut quoted = plan.clone();
    quoted.services[0].name = "a\u{1b}[2J\n::error::b".to_owned();
    let shown = table(&quoted, HEADER, 80);
    assert!(shown.starts_with(&format!("{HEADER}  a\\u{{1b}}[2J\\n::error::b  mail")), "{shown}");
}

#[test]
fn cases_have_each_reason_for_no_routes() {
    let written = include_str!("routes.txt");
    for reason in [
        UnroutedReason::ApiServer,
        UnroutedReason::NoSelector,
        UnroutedReason::NoWorkload,
        UnroutedReason::NoEnvironment,
        UnroutedReason::NoHttpPort,
        UnroutedReason::OneWay,
    ] {
        assert!(written.contains(&format!(": {reason}")), "{reason}");
    }
}
