//! Tests of the core with a namespace's events, at chosen times.

use super::core::{Core, WorkOutcome};
use super::store::Resource;
use environment::changes::ChangeStep;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

fn environment(name: &str, created: &str) -> Value {
    json!({
        "apiVersion": "env.alibaba.com/v1alpha2", "kind": "VirtualEnvironment", "spec": {"envLabel": {"defaultSubset": "base"}},
        "metadata": {"name": name, "namespace": "shop", "uid": format!("u-{name}"), "creationTimestamp": created, "generation": 1},
    })
}

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "cart", "namespace": "shop", "resourceVersion": "1"},
        "spec": {"selector": {"app": "cart"}, "ports": [{"name": "http", "port": 80}]},
    })
}

fn workload(value: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": value, "namespace": "shop"},
        "spec": {"template": {"metadata": {"labels": {"app": "cart", "virtual-env": value}}}},
    })
}

fn core(known: &[(Resource, Value)], now: Instant) -> Core {
    let mut core = Core::new(5 * SECOND, Vec::new());
    core.lead(true, now);
    list(&mut core, known, now);
    core
}

fn list(core: &mut Core, known: &[(Resource, Value)], now: Instant) {
    for of in Resource::ALL {
        core.handle(of, Event::Init, now);
        for (_, object) in known.iter().filter(|(other, _)| *other == of) {
            core.handle(of, Event::InitApply(object.clone()), now);
        }
        core.handle(of, Event::InitDone, now);
    }
}

fn shop() -> Vec<(Resource, Value)> {
    vec![
        (Resource::Environments, environment("demo", "2026-01-01T00:00:00Z")),
        (Resource::Services, service()),
        (Resource::Deployments, workload("base")),
        (Resource::Deployments, workload("base.red")),
    ]
}

fn kinds(steps: &[ChangeStep]) -> Vec<&str> {
    steps.iter().map(|step| step.about().0).collect()
}

#[test]
fn only_a_leader_acts_and_only_once_all_is_listed() {
    let now = Instant::now();
    let mut core = Core::new(5 * SECOND, Vec::new());
    core.lead(true, now);
    core.handle(Resource::Environments, Event::Apply(environment("demo", "")), now);
    assert_eq!(core.next_due(), None);
    list(&mut core, &shop(), now);
    assert_eq!(core.next_due(), Some(now), "due at once");
    core.lead(false, now);
    assert!(core.next_due().is_none() && core.start(now).is_none());
    let later = now + 60 * SECOND;
    core.lead(true, later);
    assert_eq!(core.next_due(), Some(later));
    let work = core.start(later).expect("work");
    assert_eq!(kinds(&work.changes.steps), ["DestinationRule", "VirtualService"]);
    assert!(core.start(later).is_none(), "once");
}

#[test]
fn the_first_environment_acts_at_once_and_later_events_wait_for_silence() {
    let now = Instant::now();
    let mut core = core(&shop()[1..], now);
    let now = now + 5 * SECOND;
    let steps = |core: &mut Core| core.start(now).map(|work| work.changes.steps.len());
    assert_eq!(steps(&mut core), Some(0), "workloads alone need no objects");
    core.handle(Resource::Environments, Event::Apply(environment("demo", "2026-01-01T00:00:00Z")), now);
    assert_eq!(steps(&mut core), Some(2));
    core.handle(Resource::Deployments, Event::Apply(workload("base.blue")), now + SECOND);
    assert_eq!(core.next_due(), Some(now + 6 * SECOND));
    core.handle(Resource::Deployments, Event::Apply(workload("base.green")), now + 4 * SECOND);
    assert_eq!(core.next_due(), Some(now + 9 * SECOND));
    for second in 5..60 {
        core.handle(
            Resource::Deployments,
            Event::Apply(workload(&format!("x{second}"))),
            now + second * SECOND,
        );
    }
    assert_eq!(core.next_due(), Some(now + 31 * SECOND), "six times as long at most");
}

#[test]
fn unchanged_objects_cause_no_work() {
    let now = Instant::now();
    let mut core = core(&shop(), now);
    core.start(now).expect("work");
    let mut same = service();
    same["metadata"]["resourceVersion"] = json!("2");
    same["status"] = json!({"loadBalancer": {}});
    core.handle(Resource::Services, Event::Apply(same), now);
    let mut written = environment("demo", "2026-01-01T00:00:00Z");
    written["status"] = json!({"conditions": []});
    core.handle(Resource::Environments, Event::Apply(written), now);
    list(&mut core, &shop(), now);
    assert_eq!(core.next_due(), None);
    list(&mut core, &shop()[..3], now);
    assert_eq!(core.next_due(), Some(now + 5 * SECOND));
}

#[test]
fn failed_work_is_retried_after_increasing_delays() {
    let now = Instant::now();
    let mut core = core(&shop(), now);
    let mut at = now;
    for wait in [1, 2, 4, 8, 16, 32, 60, 60] {
        core.start(at).expect("work");
        core.finished("shop", WorkOutcome::Failed, at);
        assert_eq!(core.next_due(), Some(at + wait * SECOND));
        at += wait * SECOND;
    }
    core.start(at).expect("work");
    core.finished("shop", WorkOutcome::Done, at);
    assert_eq!(core.next_due(), None);
}

#[test]
fn the_oldest_acts_and_the_others_get_a_status() {
    let now = Instant::now();
    let mut known = shop();
    known.push((Resource::Environments, environment("a-later", "2026-01-02T00:00:00Z")));
    let mut core = core(&known, now);
    let work = core.start(now).expect("work");
    let statuses = core.statuses(&work, &[], "t");
    let shown = |name: &str| {
        let (_, status) = statuses.iter().find(|(of, _)| of == name).expect("a reported status");
        (status["conditions"][0]["status"].clone(), status["conditions"][0]["reason"].clone())
    };
    assert_eq!(shown("demo"), (json!("True"), json!("Oldest")));
    assert_eq!(shown("a-later"), (json!("False"), json!("NotOldest")));
    core.handle(Resource::Environments, Event::Delete(environment("demo", "")), now);
    let work = core.start(now + 5 * SECOND).expect("work");
    assert_eq!(core.statuses(&work, &[], "t")[0].0, "a-later");
}

#[test]
fn a_status_has_the_generation_of_the_plan() {
    let now = Instant::now();
    let mut core = core(&shop(), now);
    let work = core.start(now).expect("work");
    let mut changed = environment("demo", "2026-01-01T00:00:00Z");
    changed["metadata"]["generation"] = json!(2);
    core.handle(Resource::Environments, Event::Apply(changed), now);
    let statuses = core.statuses(&work, &[], "t");
    assert_eq!(statuses[0].1["conditions"][0]["observedGeneration"], 1);
}

fn route(name: &str, owner: &str) -> Value {
    json!({
        "apiVersion": "networking.istio.io/v1beta1", "kind": "VirtualService",
        "metadata": {"name": name, "namespace": "shop", "uid": "u", "resourceVersion": "7", "ownerReferences": [{
            "apiVersion": "env.alibaba.com/v1alpha2", "kind": "VirtualEnvironment", "name": owner, "uid": format!("u-{owner}"), "controller": true,
        }]},
        "spec": {},
    })
}

#[test]
fn another_acting_or_owning_environment_is_not_delayed() {
    let now = Instant::now();
    let mut core = core(&shop(), now);
    core.start(now).expect("work");
    let mut at = now;
    let mut is_due_at_once = |event: Event<Value>| {
        at += 60 * SECOND;
        core.handle(Resource::Environments, event, at);
        core.start(at).is_some()
    };
    let (demo, next) =
        (environment("demo", "2026-01-01T00:00:00Z"), environment("next", "2026-01-02T00:00:00Z"));
    assert!(is_due_at_once(Event::Apply(next.clone())), "a further owner");
    let mut going = demo.clone();
    going["metadata"]["deletionTimestamp"] = json!("2026-02-01T00:00:00Z");
    assert!(is_due_at_once(Event::Apply(going)), "another becomes active");
    assert!(!is_due_at_once(Event::Delete(demo.clone())), "it was no longer active");
    let mut replaced = next.clone();
    replaced["metadata"]["uid"] = json!("u-replaced");
    assert!(is_due_at_once(Event::Apply(replaced.clone())));
    assert!(!is_due_at_once(Event::Delete(replaced)), "the last deletion: a successor may follow");
    assert!(is_due_at_once(Event::Apply(demo)));
}

#[test]
fn routes_stay_while_the_last_environment_is_created_again() {
    let now = Instant::now();
    let created = "2026-01-01T00:00:00Z";
    let mut known = shop();
    known.push((Resource::VirtualServices, route("cart", "demo")));
    let mut core = core(&known, now);
    core.start(now).expect("work");
    let at = |second: u32| now + second * SECOND;
    for second in 0..30 {
        core.handle(Resource::Deployments, Event::Apply(workload(&format!("x{second}"))), at(second));
    }
    core.handle(Resource::Environments, Event::Delete(environment("demo", created)), at(29));
    assert!(core.start(at(30)).is_none(), "the deletion has just come");
    core.lead(false, at(31));
    core.lead(true, at(31));
    assert!(core.start(at(31)).is_none(), "a new leader waits too");
    let mut again = environment("demo", created);
    again["metadata"]["uid"] = json!("u-again");
    core.handle(Resource::Environments, Event::Apply(again.clone()), at(32));
    let steps = core.start(at(32)).expect("the new one is handled at once").changes.steps;
    assert!(steps.iter().any(|step| step.verb() == "adopt" && step.about().1 == "cart"), "{steps:?}");
    assert!(!steps.iter().any(|step| step.verb() == "delete"), "{steps:?}");
    // A deletion reported late does not concern the new object.
    core.handle(Resource::Environments, Event::Delete(environment("demo", created)), at(33));
    assert_eq!(core.next_due(), None);
    core.handle(Resource::Environments, Event::Delete(again), at(40));
    assert!(core.start(at(44)).is_none());
    let steps = core.start(at(45)).expect("it is not recreated").changes.steps;
    assert!(steps.iter().any(|step| step.verb() == "delete"), "{steps:?}");
}

#[test]
fn lost_objects_are_made_again_at_once_but_not_repeatedly() {
    let now = Instant::now();
    let mut core = core(&shop(), now);
    core.start(now).expect("work");
    let lose = |core: &mut Core, name: &str, at: Instant| {
        core.handle(Resource::VirtualServices, Event::Apply(route(name, "demo")), at);
        core.handle(Resource::VirtualServices, Event::Delete(route(name, "demo")), at);
        core.start(at).is_some()
    };
    assert!(lose(&mut core, "cart", now));
    assert!(lose(&mut core, "pay", now + SECOND), "another object");
    assert!(!lose(&mut core, "cart", now + 2 * SECOND), "another program deletes it");
    assert_eq!(core.next_due(), Some(now + 7 * SECOND));
    core.start(now + 7 * SECOND).expect("work");
    assert!(lose(&mut core, "cart", now + 8 * SECOND));
    // Objects absent from a new list are lost too.
    core.handle(Resource::VirtualServices, Event::Apply(route("mail", "demo")), now + 60 * SECOND);
    core.start(now + 65 * SECOND).expect("work");
    list(&mut core, &shop(), now + 66 * SECOND);
    assert!(core.start(now + 66 * SECOND).is_some());
    // Without an active environment, nothing is restored.
    core.handle(Resource::VirtualServices, Event::Apply(route("last", "demo")), now + 90 * SECOND);
    core.handle(Resource::Environments, Event::Delete(environment("demo", "")), now + 90 * SECOND);
    assert!(!lose(&mut core, "last", now + 91 * SECOND));
}

#[test]
fn outdated_work_waits_for_the_watch_or_a_second() {
    let now = Instant::now();
    let mut core = core(&shop(), now);
    core.start(now).expect("work");
    core.handle(Resource::VirtualServices, Event::Apply(route("cart", "demo")), now);
    core.handle(Resource::VirtualServices, Event::Delete(route("cart", "demo")), now);
    core.finished("shop", WorkOutcome::Outdated, now);
    assert_eq!(core.next_due(), Some(now), "the watch was faster");
    core.start(now).expect("work");
    core.finished("shop", WorkOutcome::Outdated, now);
    assert_eq!(core.next_due(), Some(now + 2 * SECOND), "second delay");
    core.handle(Resource::Deployments, Event::Apply(workload("base.blue")), now + SECOND);
    assert_eq!(core.next_due(), Some(now + 2 * SECOND), "no event delays it");
}
