//! Writes that turn existing objects into planned ones, applied in memory. The cases in `changes.txt` change the shop;
//! `UPDATE_GOLDENS=1` writes their steps.

use super::scene::{Scene, environment, shop};
use environment::changes::{ChangeStep, Changes, adoptions, changes, orphans};
use environment::conditions::{conditions, idle, ranked, status};
use environment::existing::{Existing, MANAGER};
use environment::resource::VirtualEnvironment;
use mesh::pod::values;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// An API server in memory. After each step, no route may lead to a missing subset.
#[derive(Clone, Default)]
struct Cluster(Vec<Value>);

impl Cluster {
    fn find(&mut self, kind: &str, name: &str) -> Option<usize> {
        self.0.iter().position(|there| there["kind"] == kind && there["metadata"]["name"] == name)
    }

    /// Changes an object as another program: removes it (null), replaces it, or sets a value if `name` includes a pointer.
    fn change(&mut self, kind: &str, name: &str, change: &Value) {
        let (name, pointer) = name.split_once(' ').unwrap_or((name, ""));
        let at = self.find(kind, name);
        if let Some((place, field)) = pointer.rsplit_once('/') {
            let object = &mut self.0[at.expect("it is there")];
            object.pointer_mut(place).expect("a value")[field] = change.clone();
        } else {
            at.map(|at| self.0.remove(at));
            self.0.extend((!change.is_null()).then(|| change.clone()));
        }
    }

    fn existing(&self) -> Vec<Existing> {
        self.0.iter().cloned().filter_map(Existing::of).collect()
    }

    fn changes(&self, scene: &Scene) -> Changes {
        self.changes_of(&[&scene.read()], scene)
    }

    fn changes_of(&self, ranked: &[&VirtualEnvironment], scene: &Scene) -> Changes {
        changes(ranked, &scene.plan(), &all(&self.existing()))
    }

    fn settle(&mut self, scene: &Scene) -> Vec<String> {
        let steps = self.changes(scene).steps;
        for step in &steps {
            self.take(step);
            self.no_route_leads_nowhere();
        }
        assert_eq!(self.changes(scene).steps, [], "a second run has nothing to do");
        steps.iter().map(shown).collect()
    }

    fn take(&mut self, step: &ChangeStep) {
        let (kind, name) = step.about();
        let at = self.find(kind, name);
        match step {
            ChangeStep::Create(object) => {
                assert_eq!(at, None, "{object}");
                self.0.push(object.clone());
                let metadata = &mut self.0.last_mut().expect("it")["metadata"];
                metadata["uid"] = json!(format!("u-{kind}-{name}"));
                metadata["resourceVersion"] = json!("1");
            }
            ChangeStep::Apply { object, uid, version } => {
                let there = &mut self.0[at.expect("it is there")];
                is_that(there, uid, version.as_deref());
                let fields = |object: &Value, at: &str| {
                    let fields = object.pointer(at).and_then(Value::as_object).expect("fields");
                    fields.keys().cloned().collect::<BTreeSet<String>>()
                };
                for at in ["/spec", "/metadata/labels"] {
                    let left: Vec<String> =
                        fields(there, at).difference(&fields(object, at)).cloned().collect();
                    assert!(left.iter().all(|field| field == "exportTo" || field == "team"), "{left:?} stay");
                }
                let metadata = there["metadata"].clone();
                *there = object.clone();
                there["metadata"]["uid"] = metadata["uid"].clone();
                there["metadata"]["resourceVersion"] = next(&metadata);
            }
            ChangeStep::Adopt { owners, there } => {
                let metadata = &mut self.0[at.expect("it is there")]["metadata"];
                assert_eq!(metadata["resourceVersion"], there.version());
                metadata["ownerReferences"] = json!(owners);
                metadata["resourceVersion"] = next(metadata);
            }
            ChangeStep::Delete(there) => {
                let gone = self.0.remove(at.expect("it is there"));
                is_that(&gone, there.uid(), Some(there.version()));
            }
        }
    }

    fn no_route_leads_nowhere(&self) {
        for route in self.0.iter().filter(|there| there["kind"] == "VirtualService") {
            let name = &route["metadata"]["name"];
            let rule = self
                .0
                .iter()
                .find(|there| there["kind"] == "DestinationRule" && there["metadata"]["name"] == *name);
            let subsets: BTreeSet<&str> = rule
                .and_then(|rule| rule["spec"]["subsets"].as_array())
                .into_iter()
                .flatten()
                .filter_map(|subset| subset["name"].as_str())
                .collect();
            for http in route["spec"]["http"].as_array().expect("routes") {
                if let Some(subset) = http["route"][0]["destination"]["subset"].as_str() {
                    assert!(subsets.contains(subset), "{name} leads to {subset}, of {subsets:?}");
                }
            }
        }
    }
}

fn all(existing: &[Existing]) -> Vec<&Existing> {
    existing.iter().collect()
}

fn next(metadata: &Value) -> Value {
    let version: u64 =
        metadata["resourceVersion"].as_str().and_then(|text| text.parse().ok()).expect("a number");
    json!((version + 1).to_string())
}

fn is_that(there: &Value, uid: &str, version: Option<&str>) {
    assert_eq!(there["metadata"]["uid"], uid);
    assert!(version.is_none_or(|version| there["metadata"]["resourceVersion"] == version), "{there}");
}

fn shown(step: &ChangeStep) -> String {
    let (kind, name) = step.about();
    format!("{} {kind} {name}", step.verb())
}

fn pinned(step: &ChangeStep) -> String {
    let pins = match step {
        ChangeStep::Create(_) => String::new(),
        ChangeStep::Apply { uid, version: None, .. } => format!(" ({uid})"),
        ChangeStep::Apply { uid, version: Some(version), .. } => format!(" ({uid}, version {version})"),
        ChangeStep::Delete(there) => format!(" ({}, version {})", there.uid(), there.version()),
        ChangeStep::Adopt { there, .. } => format!(" (version {})", there.version()),
    };
    format!("{}{pins}\n", shown(step))
}

/// The steps after each change of a case, and the condition that reports them. Names are as in `routes.txt`; KIND NAME is an
/// Istio object, KIND NAME POINTER a value in it.
fn answered(case: &str) -> String {
    let (mut cluster, mut scene) = (Cluster::default(), shop());
    let mut text = String::new();
    for changes in values("case", case).expect("YAML") {
        for (name, change) in changes.as_object().expect("a mapping") {
            match name.split_once(' ') {
                Some((kind, name)) => cluster.change(kind, name, change),
                None => scene.change(name, change),
            }
        }
        let found = cluster.changes(&scene);
        for step in &found.steps {
            text += &pinned(step);
            cluster.take(step);
            cluster.no_route_leads_nowhere();
        }
        assert_eq!(cluster.changes(&scene).steps, [], "a second run has nothing to do");
        let complete = &conditions(&Ok(scene.plan()), &found, &[])[1];
        assert_eq!(complete.kind, "Complete");
        text += &format!("{}: {}\n{}\n", complete.holds, complete.reason, complete.message);
    }
    text
}

#[test]
fn changes_lead_to_the_plan() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/changes.txt");
    testkit::sections::answers(file, ", changed", answered);
}

fn later(scene: &Scene, name: &str) -> VirtualEnvironment {
    let mut scene = scene.clone();
    scene.environment["metadata"]["name"] = json!(name);
    scene.environment["metadata"]["uid"] = json!(format!("u-{name}"));
    scene.environment["metadata"]["creationTimestamp"] = json!("2026-02-01T00:00:00Z");
    scene.read()
}

/// The owners' uids of each object; a star marks the controller.
fn owners(cluster: &Cluster) -> BTreeSet<String> {
    let shown = |owner: &Value| {
        let star = if owner["controller"] == true { "*" } else { "" };
        format!("{}{star}", owner["uid"].as_str().expect("a uid"))
    };
    let all = cluster.0.iter().map(|there| there["metadata"]["ownerReferences"].as_array().expect("owners"));
    all.map(|owners| owners.iter().map(shown).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn all_environments_own_what_the_acting_one_controls() {
    let (mut cluster, scene) = (Cluster::default(), shop());
    let (old, next) = (scene.read(), later(&scene, "next"));
    let mut settle = |some: &[&VirtualEnvironment]| {
        let steps = cluster.changes_of(&ranked(some.iter().copied()), &scene).steps;
        steps.iter().for_each(|step| cluster.take(step));
        let shown: BTreeSet<String> =
            steps.iter().map(|step| shown(step).split(' ').next().unwrap_or_default().to_owned()).collect();
        (shown.into_iter().collect::<Vec<_>>().join(" "), owners(&cluster))
    };
    let one = |owners: &str| BTreeSet::from([owners.to_owned()]);
    assert_eq!(settle(&[&next, &old]), ("create".to_owned(), one("u-demo* u-next")));
    assert_eq!(settle(&[&old, &next]), (String::new(), one("u-demo* u-next")));
    // An owner that is being deleted is not active: the garbage collector removes it.
    let going = VirtualEnvironment { is_going: true, ..old.clone() };
    assert_eq!(settle(&[&going, &next]), ("adopt".to_owned(), one("u-next*")));
    assert_eq!(settle(&[&next]), (String::new(), one("u-next*")));
    assert_eq!(idle(&old.name)[0].reason, "NotOldest");
    // An object whose other owner the garbage collector removed is managed too.
    for there in &mut cluster.0 {
        there["metadata"]["ownerReferences"][0]["controller"] = Value::Null;
    }
    let existing = cluster.existing();
    assert!(existing.iter().all(|there| there.is_ours()));
    assert_eq!(cluster.changes_of(&[&next], &scene).steps.len(), 4);
    let existing = all(&existing);
    assert_eq!(adoptions(&[&next], &existing).steps.len(), 4);
    assert_eq!(orphans(&existing, &BTreeSet::from(["u-next"])), []);
    assert_eq!(orphans(&existing, &BTreeSet::new()).len(), 4);
}

#[test]
fn a_refused_service_changes_hands_too() {
    let (mut cluster, mut scene) = (Cluster::default(), shop());
    cluster.settle(&scene);
    scene.workload("cart", "base_red");
    let next = later(&scene, "next");
    let steps = cluster.changes_of(&[&next], &scene).steps;
    let adopted = steps.iter().filter(|step| matches!(step, ChangeStep::Adopt { .. })).count();
    assert_eq!((adopted, steps.len()), (4, 4), "{steps:?}");
}

/// Objects as `kubectl delete --cascade=orphan` leaves them.
#[test]
fn orphans_are_adopted_unless_a_user_changed_them() {
    let (mut cluster, mut scene) = (Cluster::default(), shop());
    cluster.settle(&scene);
    let fields = |kind: &Value| match kind.as_str() {
        Some("VirtualService") => json!({"f:hosts": {}, "f:http": {}}),
        _ => json!({"f:host": {}, "f:subsets": {}}),
    };
    for there in &mut cluster.0 {
        there["metadata"]["ownerReferences"] = json!([]);
        there["metadata"]["managedFields"] = json!([{"manager": MANAGER, "operation": "Update", "fieldsV1": {"f:spec": fields(&there["kind"])}}]);
    }
    assert_eq!(orphans(&all(&cluster.existing()), &BTreeSet::new()), [], "their user wanted to keep them");
    scene.services.retain(|service| service["metadata"]["name"] != "pay");
    let steps: Vec<String> = cluster.changes(&scene).steps.iter().map(shown).collect();
    assert_eq!(
        steps,
        [
            "adopt DestinationRule cart",
            "adopt VirtualService cart",
            "delete VirtualService pay",
            "delete DestinationRule pay"
        ]
    );
    let foreign = |change: fn(&mut Value)| {
        let mut object = cluster.0[1].clone();
        change(&mut object);
        !Existing::of(object).expect("a route").is_ours()
    };
    assert!(foreign(|route| route["metadata"]["labels"] = json!({})), "the label is gone");
    assert!(
        foreign(|route| {
            route["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"] = json!({"f:hosts": {}});
        }),
        "another program has written its routes"
    );
    assert!(
        foreign(|route| {
            route["metadata"]["ownerReferences"] = json!([{"kind": "Other", "uid": "u", "controller": true}]);
        }),
        "another object controls it"
    );
}

#[test]
fn objects_being_deleted_are_not_touched() {
    let (mut cluster, mut scene) = (Cluster::default(), shop());
    scene.environment["spec"]["envHeader"] = json!({"autoInject": true});
    cluster.settle(&scene);
    let next = later(&scene, "next");
    let counts = |cluster: &Cluster| {
        let existing = cluster.existing();
        let existing = all(&existing);
        let none = Scene { services: Vec::new(), ..bare(&scene) };
        let gone = cluster.changes(&none).steps.len();
        (gone, adoptions(&[&next], &existing).steps.len(), orphans(&existing, &BTreeSet::new()).len())
    };
    assert_eq!(counts(&cluster), (5, 5, 5));
    for there in &mut cluster.0[..2] {
        there["metadata"]["deletionTimestamp"] = json!("2026-02-01T00:00:00Z");
    }
    assert_eq!(counts(&cluster), (3, 3, 3));
}

fn bare(scene: &Scene) -> Scene {
    let mut bare = scene.clone();
    bare.environment["spec"]["envHeader"] = json!({});
    bare
}

#[test]
fn the_oldest_acts_and_names_break_ties() {
    let of = |name: &str, created: &str| VirtualEnvironment {
        created: created.to_owned(),
        ..later(&shop(), name)
    };
    let all = [
        of("e", ""),
        of("d", "2026-02-01T00:00:00Z"),
        of("c", "2026-02-01T00:00:00Z"),
        of("b", "2026-01-01T00:00:00Z"),
        VirtualEnvironment { is_going: true, ..of("a", "2025-01-01T00:00:00Z") },
    ];
    let names: Vec<&str> = ranked(&all).iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["b", "c", "d", "e"]);
    assert_eq!(ranked(&all[4..]), [&all[0]; 0]);
    let message = "VirtualEnvironment b is older and therefore active. Delete one of the two";
    let idle = idle(&all[3].name);
    assert_eq!(
        (idle.len(), idle[0].kind, idle[0].holds, idle[0].reason, idle[0].message.as_str()),
        (1, "Acting", false, "NotOldest", message)
    );
}

#[test]
fn conditions_report_progress() {
    let foreign = Changes { foreign: vec!["cart: foreign".to_owned()], ..Changes::default() };
    let mut refused = shop();
    refused.workload("cart", "base_red");
    let found = conditions(&Ok(refused.plan()), &foreign, &["pay: unwritten".to_owned()]);
    let double = "Service shop/cart, label virtual-env of its workloads: base.red and base_red would both be the subset \
                  base-red; rename one of them";
    let lines = ["1 of 3 Services should have routes", "pay: unwritten", double, "cart: foreign"];
    assert_eq!((found[1].holds, found[1].reason), (false, "WriteRefused"));
    assert_eq!(found[1].message.lines().collect::<Vec<_>>(), lines);
    let plain = shop();
    let found = conditions(&Ok(plain.plan()), &Changes::default(), &[]);
    let expected = json!({"conditions": [
        {
            "type": "Acting", "status": "True", "reason": "Oldest", "message": "it is the oldest in the namespace",
            "lastTransitionTime": "t1", "observedGeneration": 3,
        },
        {
            "type": "Complete", "status": "True", "reason": "Routed", "message": "2 of 3 Services have routes",
            "lastTransitionTime": "t1", "observedGeneration": 3,
        },
    ]});
    assert_eq!(status(&Value::Null, Some(3), &found, "t1"), Some(expected));
    let idle = status(&Value::Null, None, &idle(&plain.read().name), "t1").expect("a status");
    let acting = &idle["conditions"][0];
    assert_eq!((&acting["status"], acting.get("observedGeneration")), (&json!("False"), None));
}

#[test]
fn status_is_written_only_when_it_changes() {
    let scene = shop();
    let none = Changes::default();
    let routed = conditions(&Ok(scene.plan()), &none, &[]);
    assert_eq!(
        (routed[0].kind, routed[0].holds, routed[1].kind, routed[1].holds),
        ("Acting", true, "Complete", true)
    );
    let first = status(&Value::Null, Some(1), &routed, "t1").expect("new");
    assert_eq!(status(&first, Some(1), &routed, "t2"), None);
    let failed = conditions(&Ok(scene.plan()), &none, &["VirtualService cart: refused".to_owned()]);
    let second = status(&first, Some(1), &failed, "t2").expect("new");
    let times = |status: &Value| [0, 1].map(|at| status["conditions"][at]["lastTransitionTime"].clone());
    assert_eq!(times(&second), [json!("t1"), json!("t2")]);
    // A condition's message is limited, and cut at a character boundary.
    let message = |detail: String| conditions(&Ok(scene.plan()), &none, &[detail])[1].message.clone();
    let summary = message(String::new());
    for (details, kept) in [(32_000 - summary.len(), None), (32_001 - summary.len(), Some(32_000))] {
        let whole = summary.clone() + &"x".repeat(details);
        let expected = kept.map_or_else(|| whole.clone(), |kept| format!("{}\n...", &whole[..kept]));
        assert_eq!(message("x".repeat(details)), expected);
    }
    assert!(message("é".repeat(20_000)).ends_with("é\n..."));
    let bad = VirtualEnvironment::read(&environment(&json!({"envHeader": {"name": "a b"}})), "");
    let shown = conditions(&Err(bad.spec.expect_err("bad")), &none, &[]);
    assert_eq!((shown[1].holds, shown[1].reason), (false, "Invalid"));
    assert!(shown[1].message.contains("spec.envHeader.name"));
}
