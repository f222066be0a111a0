//! The writes that lead from what there is to what is to be, tried on a namespace in memory.

use super::scene::{Scene, environment, shop};
use injection::environment::changes::{ChangeStep, Changes, adoptions, changes, orphans};
use injection::environment::conditions::{acting, conditions, idle, ranked, status};
use injection::environment::existing::{Existing, MANAGER};
use injection::environment::resource::VirtualEnvironment;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What the API server does with the steps. After each one, no route may lead to a subset that there is not.
#[derive(Clone, Default)]
struct Cluster(Vec<Value>);

impl Cluster {
    fn find(&mut self, kind: &str, name: &str) -> Option<usize> {
        self.0.iter().position(|there| there["kind"] == kind && there["metadata"]["name"] == name)
    }

    fn existing(&self) -> Vec<Existing> {
        self.0.iter().cloned().filter_map(Existing::of).collect()
    }

    fn changes(&self, scene: &Scene) -> Changes {
        changes(&[&scene.read()], &scene.plan(), &self.existing())
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
            ChangeStep::Adopt { owners, version, .. } => {
                let there = &mut self.0[at.expect("it is there")];
                let metadata = &mut there["metadata"];
                assert_eq!(metadata["resourceVersion"], **version);
                metadata["ownerReferences"] = owners.clone();
                metadata["resourceVersion"] = next(metadata);
            }
            ChangeStep::Delete { uid, version, .. } => {
                let gone = self.0.remove(at.expect("it is there"));
                is_that(&gone, uid, Some(version));
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

fn next(metadata: &Value) -> Value {
    let version: u64 =
        metadata["resourceVersion"].as_str().and_then(|text| text.parse().ok()).expect("a number");
    json!((version + 1).to_string())
}

/// What a step names as a precondition.
fn is_that(there: &Value, uid: &str, version: Option<&str>) {
    assert_eq!(there["metadata"]["uid"], uid);
    assert!(version.is_none_or(|version| there["metadata"]["resourceVersion"] == version), "{there}");
}

fn shown(step: &ChangeStep) -> String {
    let (kind, name) = step.about();
    let verb = match step {
        ChangeStep::Create(_) => "create",
        ChangeStep::Apply { .. } => "apply",
        ChangeStep::Adopt { .. } => "adopt",
        ChangeStep::Delete { .. } => "delete",
    };
    format!("{verb} {kind} {name}")
}

#[test]
fn subsets_come_before_routes_and_go_after_them() {
    let (mut cluster, mut scene) = (Cluster::default(), shop());
    let first = cluster.settle(&scene);
    let expected =
        ["DestinationRule cart", "VirtualService cart", "DestinationRule pay", "VirtualService pay"];
    assert_eq!(first, expected.map(|step| format!("create {step}")));
    // One more, one less, one in the place of another.
    scene.workload("cart", "base.new");
    assert_eq!(cluster.settle(&scene)[..2], ["apply DestinationRule cart", "apply VirtualService cart"]);
    scene.workloads.retain(|workload| workload["metadata"]["name"] != "cart-base.new");
    assert_eq!(cluster.settle(&scene)[..2], ["apply VirtualService cart", "apply DestinationRule cart"]);
    scene.workloads.retain(|workload| workload["metadata"]["name"] != "cart-base.red");
    scene.workload("cart", "base.green");
    assert_eq!(
        cluster.settle(&scene)[..3],
        ["apply DestinationRule cart", "apply VirtualService cart", "apply DestinationRule cart"]
    );
}

#[test]
fn objects_no_longer_needed_are_deleted() {
    let (mut cluster, mut scene) = (Cluster::default(), shop());
    scene.environment["spec"]["envHeader"] = json!({"autoInject": true});
    assert_eq!(cluster.settle(&scene).last().map(String::as_str), Some("create EnvoyFilter demo"));
    // The last workloads with an environment.
    let mut bare = scene.clone();
    bare.workloads.clear();
    bare.environment["spec"]["envHeader"] = json!({});
    let mut other = cluster.clone();
    let gone = [
        "VirtualService cart",
        "VirtualService pay",
        "DestinationRule cart",
        "DestinationRule pay",
        "EnvoyFilter demo",
    ];
    assert_eq!(other.settle(&bare), gone.map(|step| format!("delete {step}")));
    // The Service.
    scene.services.retain(|service| service["metadata"]["name"] != "cart");
    assert_eq!(cluster.settle(&scene), ["delete VirtualService cart", "delete DestinationRule cart"]);
    // A header's name.
    scene.environment["spec"]["envHeader"] = json!({"autoInject": true, "name": "X-Env"});
    let renamed = cluster.settle(&scene);
    assert_eq!(renamed, ["apply VirtualService pay", "apply EnvoyFilter demo"]);
}

#[test]
fn what_is_the_users_stays() {
    for kind in ["VirtualService", "DestinationRule"] {
        let own = json!({
            "apiVersion": "networking.istio.io/v1", "kind": kind, "metadata": {"name": "cart", "namespace": "shop", "uid": "u"},
            "spec": {"host": "cart"},
        });
        // Also where ours was there first.
        for mut cluster in [Cluster::default(), {
            let mut cluster = Cluster::default();
            cluster.settle(&shop());
            cluster
        }] {
            if let Some(at) = cluster.find(kind, "cart") {
                cluster.0.remove(at);
            }
            cluster.0.push(own.clone());
            let found = cluster.changes(&shop());
            assert_eq!(found.foreign.len(), 1);
            let message = conditions(&Ok(shop().plan()), &found, &[])[1].message.clone();
            assert!(message.starts_with("1 of 3 Services have routes\n"), "{message}");
            assert!(
                found.foreign[0].contains("Service shop/cart") && found.foreign[0].contains(kind),
                "{:?}",
                found.foreign
            );
            for step in &found.steps {
                cluster.take(step);
            }
            let left: Vec<&Value> =
                cluster.0.iter().filter(|there| there["metadata"]["name"] == "cart").collect();
            assert_eq!(left, [&own], "nothing of ours stands beside it");
        }
    }
    let mut cluster = Cluster::default();
    cluster.0.push(json!({
        "apiVersion": "networking.istio.io/v1alpha3", "kind": "EnvoyFilter", "metadata": {"name": "demo", "namespace": "shop"}, "spec": {},
    }));
    let mut scene = shop();
    scene.environment["spec"]["envHeader"] = json!({"autoInject": true});
    let found = cluster.changes(&scene);
    assert!(found.foreign[0].contains("EnvoyFilter shop/demo") && found.steps.len() == 4, "{found:?}");
}

#[test]
fn a_refused_service_keeps_what_it_has() {
    let (mut cluster, mut scene) = (Cluster::default(), shop());
    cluster.settle(&scene);
    scene.workload("cart", "base_red");
    assert_eq!(cluster.changes(&scene).steps, []);
    let shown = conditions(&Ok(scene.plan()), &cluster.changes(&scene), &[]);
    assert_eq!((shown[1].holds, shown[1].reason), (false, "ServicesLeftOut"));
    assert!(shown[1].message.contains("base.red and base_red"), "{}", shown[1].message);
}

#[test]
fn what_others_add_beside_ours_is_left() {
    let (mut cluster, scene) = (Cluster::default(), shop());
    cluster.settle(&scene);
    cluster.0[1]["spec"]["exportTo"] = json!(["."]);
    cluster.0[1]["metadata"]["labels"]["team"] = json!("a");
    assert_eq!(cluster.changes(&scene).steps, []);
    // But within a route all is ours.
    cluster.0[1]["spec"]["http"][0]["timeout"] = json!("1s");
    assert_eq!(cluster.settle(&scene), ["apply VirtualService cart"]);
}

/// A Service's rule may say 50.0 where the API server then says 50.
#[test]
fn a_number_in_another_form_is_no_change() {
    let (mut cluster, mut scene) = (Cluster::default(), shop());
    let rule =
        |value: &str| format!(r#"{{"fault": {{"abort": {{"httpStatus": {value}}}}}, "timeout": "3s"}}"#);
    scene.annotate("cart", "kt-virtual-environment/rule", &rule("500.0"));
    cluster.settle(&scene);
    let stored = &mut cluster.0[1]["spec"]["http"][0]["fault"]["abort"]["httpStatus"];
    assert_eq!(*stored, json!(500.0));
    *stored = json!(500);
    assert_eq!(cluster.changes(&scene).steps, []);
    for other in ["501.0", "\"500\"", "500.5"] {
        scene.annotate("cart", "kt-virtual-environment/rule", &rule(other));
        assert_eq!(cluster.changes(&scene).steps.len(), 1, "{other}");
    }
}

/// What is read, planned and written is not one moment: each write names what it was planned for.
#[test]
fn only_what_was_looked_at_is_written() {
    let (mut cluster, mut scene) = (Cluster::default(), shop());
    let fresh = cluster.changes(&scene).steps;
    assert!(fresh.iter().all(|step| matches!(step, ChangeStep::Create(_))), "{fresh:?}");
    cluster.settle(&scene);
    scene.workloads.retain(|workload| workload["metadata"]["name"] != "cart-base.red");
    scene.workload("cart", "base.green");
    let steps = cluster.changes(&scene).steps;
    let pins = steps.iter().map(|step| match step {
        ChangeStep::Apply { uid, version, .. } => (uid.clone(), version.clone()),
        other => panic!("{other:?}"),
    });
    // The first write of an object names its version, later ones can't know it.
    let (rule, route, one) = ("u-DestinationRule-cart", "u-VirtualService-cart", Some("1".to_owned()));
    let expected = [(rule, one.clone()), (route, one), (rule, None)];
    assert_eq!(pins.take(3).collect::<Vec<_>>(), expected.map(|(uid, version)| (uid.to_owned(), version)));
}

fn later(scene: &Scene, name: &str) -> VirtualEnvironment {
    let mut scene = scene.clone();
    scene.environment["metadata"]["name"] = json!(name);
    scene.environment["metadata"]["uid"] = json!(format!("u-{name}"));
    scene.environment["metadata"]["creationTimestamp"] = json!("2026-02-01T00:00:00Z");
    scene.read()
}

/// The owners of each object, in short; the one that controls it with a star.
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
    let mut settle = |all: &[&VirtualEnvironment]| {
        let steps = changes(&ranked(all.iter().copied()), &scene.plan(), &cluster.existing()).steps;
        steps.iter().for_each(|step| cluster.take(step));
        let shown: BTreeSet<String> =
            steps.iter().map(|step| shown(step).split(' ').next().unwrap_or_default().to_owned()).collect();
        (shown.into_iter().collect::<Vec<_>>().join(" "), owners(&cluster))
    };
    let one = |owners: &str| BTreeSet::from([owners.to_owned()]);
    assert_eq!(settle(&[&next, &old]), ("create".to_owned(), one("u-demo* u-next")));
    assert_eq!(settle(&[&old, &next]), (String::new(), one("u-demo* u-next")));
    // One that is being deleted neither acts nor owns: the garbage collector takes it away.
    let going = VirtualEnvironment { is_going: true, ..old.clone() };
    assert_eq!(settle(&[&going, &next]), ("adopt".to_owned(), one("u-next*")));
    assert_eq!(settle(&[&next]), (String::new(), one("u-next*")));
    assert_eq!(idle(&old.name)[0].reason, "NotOldest");
    // What the garbage collector leaves of two owners is ours, too.
    for there in &mut cluster.0 {
        there["metadata"]["ownerReferences"][0]["controller"] = Value::Null;
    }
    let existing = cluster.existing();
    assert!(existing.iter().all(|there| there.is_ours() && there.controller().is_none()));
    assert_eq!(changes(&[&next], &scene.plan(), &existing).steps.len(), 4);
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
    let steps = changes(&[&next], &scene.plan(), &cluster.existing()).steps;
    let adopted = steps.iter().filter(|step| matches!(step, ChangeStep::Adopt { .. })).count();
    assert_eq!((adopted, steps.len()), (4, 4), "{steps:?}");
}

/// As `kubectl delete --cascade=orphan` leaves them.
#[test]
fn orphans_are_taken_over_unless_their_user_made_them_his() {
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
    assert_eq!(orphans(&cluster.existing(), &BTreeSet::new()), [], "their user wanted to keep them");
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
        "somebody else has written its routes"
    );
    assert!(
        foreign(|route| {
            route["metadata"]["ownerReferences"] = json!([{"kind": "Other", "uid": "u", "controller": true}]);
        }),
        "somebody else controls it"
    );
}

#[test]
fn what_is_being_deleted_is_left_to_those_who_delete_it() {
    let (mut cluster, mut scene) = (Cluster::default(), shop());
    scene.environment["spec"]["envHeader"] = json!({"autoInject": true});
    cluster.settle(&scene);
    let next = later(&scene, "next");
    let counts = |cluster: &Cluster| {
        let existing = cluster.existing();
        let none = Scene { services: Vec::new(), ..bare(&scene) };
        let gone = changes(&[&scene.read()], &none.plan(), &existing).steps.len();
        (gone, adoptions(&[&next], &existing).steps.len(), orphans(&existing, &BTreeSet::new()).len())
    };
    assert_eq!(counts(&cluster), (5, 5, 5));
    for there in &mut cluster.0[..2] {
        there["metadata"]["deletionTimestamp"] = json!("2026-02-01T00:00:00Z");
    }
    assert_eq!(counts(&cluster), (3, 3, 3));
}

/// Without the filter.
fn bare(scene: &Scene) -> Scene {
    let mut bare = scene.clone();
    bare.environment["spec"]["envHeader"] = json!({});
    bare
}

#[test]
fn the_oldest_acts_and_the_first_by_name_of_those_as_old() {
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
    assert_eq!(acting(&all).map(VirtualEnvironment::title).as_deref(), Some("VirtualEnvironment shop/b"));
    assert_eq!(acting(&all[4..]), None);
    let message = "VirtualEnvironment b is older; a namespace has one. Delete one of the two";
    let idle = idle(&all[3].name);
    assert_eq!(
        (idle.len(), idle[0].kind, idle[0].holds, idle[0].reason, idle[0].message.as_str()),
        (1, "Acting", false, "NotOldest", message)
    );
}

#[test]
fn a_condition_says_what_is_done_and_what_is_not() {
    let foreign = Changes { foreign: vec!["cart: foreign".to_owned()], ..Changes::default() };
    let (plain, mut odd, mut refused) = (shop(), shop(), shop());
    odd.workloads[0]["spec"]["replicas"] = json!(0);
    refused.workload("cart", "base_red");
    let unwritten = ["pay: unwritten".to_owned()];
    let said =
        "Deployment shop/cart-base.red: it is to have no pods; nothing is routed to base.red because of it";
    let double = "Service shop/cart, label virtual-env of its workloads: base.red and base_red would both be the subset \
                  base-red; rename one of them";
    for (scene, changes, failed, holds, reason, lines) in [
        (&plain, &Changes::default(), &[][..], true, "Routed", vec!["2 of 3 Services have routes"]),
        (&odd, &Changes::default(), &[], true, "Warnings", vec!["1 of 3 Services have routes", said]),
        (
            &odd,
            &foreign,
            &[],
            false,
            "ServicesLeftOut",
            vec!["1 of 3 Services have routes", "cart: foreign", said],
        ),
        (
            &refused,
            &Changes::default(),
            &[],
            false,
            "ServicesLeftOut",
            vec!["1 of 3 Services have routes", double],
        ),
        (
            &refused,
            &foreign,
            &unwritten,
            false,
            "WriteRefused",
            vec!["1 of 3 Services should have routes", "pay: unwritten", double, "cart: foreign"],
        ),
    ] {
        let found = conditions(&Ok(scene.plan()), changes, failed);
        let acts = &found[0];
        assert_eq!(
            (acts.kind, acts.holds, acts.reason, acts.message.as_str()),
            ("Acting", true, "Oldest", "it is the oldest of the namespace")
        );
        let done = &found[1];
        assert_eq!(
            (done.kind, done.holds, done.reason, done.message.lines().collect::<Vec<_>>()),
            ("Complete", holds, reason, lines)
        );
    }
    let written =
        status(&Value::Null, Some(3), &conditions(&Ok(plain.plan()), &Changes::default(), &[]), "t1");
    let expected = json!({"conditions": [
        {
            "type": "Acting", "status": "True", "reason": "Oldest", "message": "it is the oldest of the namespace",
            "lastTransitionTime": "t1", "observedGeneration": 3,
        },
        {
            "type": "Complete", "status": "True", "reason": "Routed", "message": "2 of 3 Services have routes",
            "lastTransitionTime": "t1", "observedGeneration": 3,
        },
    ]});
    assert_eq!(written, Some(expected));
    let idle = status(&Value::Null, None, &idle(&plain.read().name), "t1").expect("a status");
    assert_eq!(
        (&idle["conditions"][0]["status"], idle["conditions"][0].get("observedGeneration")),
        (&json!("False"), None)
    );
}

#[test]
fn a_status_is_written_when_it_says_something_else() {
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
    // A condition's message has a longest form, and ends between two characters.
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
