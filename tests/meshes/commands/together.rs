//! Two meshes that capture in one namespace, possible only without `apply`: each command reports both by name.

use crate::meshes::commands::{IPS, output_of, usual, within};
use crate::support::namespace::{Namespace, run};
use mesh::Mesh;
use serde_json::Value;

fn json(pod: &Namespace, words: &[&str], code: i32) -> Value {
    let output = run(pod, &[words, &["--output", "json"]].concat()).with(code, &words.join(" "));
    serde_json::from_str(&output.stdout).expect("JSON")
}

#[test]
fn each_command_names_both_meshes() {
    let next = |mesh: Mesh| {
        let at = Mesh::ALL.iter().position(|one| *one == mesh).expect("a mesh");
        Mesh::ALL[(at + 1) % Mesh::ALL.len()]
    };
    for (mesh, other) in Mesh::ALL.iter().map(|mesh| (*mesh, next(*mesh))) {
        let pod = Namespace::new();
        let flags = [vec!["--mesh", mesh.name()], IPS.to_vec(), usual(mesh)].concat();
        within(&pod, mesh, &[&["apply", "--backend", "nftables"], &flags[..]].concat(), 0);
        let script = output_of(other, &[&["render", "--output", "nft"], &usual(other)[..]].concat());
        pod.load(&script);
        let names = [mesh, other].map(|mesh| mesh.ownership().name);
        let both = |text: &str, what: &str| {
            assert!(names.iter().all(|name| text.contains(name)), "{mesh}, {other}: {what}: {text}");
        };

        let check = [&["diff"], &flags[..]].concat();
        let text = within(&pod, mesh, &check, 3);
        assert!(text.contains(&format!("{} captures here too", names[1])), "{text}");
        assert!(text.contains(&format!("sidecar-init clean --mesh {other}")), "{text}");
        let compared = json(&pod, &check, 3);
        assert_eq!(
            (&compared["equal"], &compared["others"][0]["mesh"]),
            (&false.into(), &other.name().into())
        );
        assert_eq!(compared["parts"], Value::Array(Vec::new()), "{compared:#}");
        // Rules before the mesh's are reported with their owner.
        assert!(compared["before"].to_string().contains(&format!("of {},", names[1])), "{compared:#}");

        let status = json(&pod, &["status"], 1);
        let sorted = |mut names: Vec<&str>| {
            names.sort_unstable();
            Value::from(names)
        };
        let meshes = status["meshes"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
        assert_eq!(sorted(meshes), sorted(vec![mesh.name(), other.name()]));
        both(&status["findings"].to_string(), "status");
        for one in [mesh, other] {
            let alone = json(&pod, &["status", "--mesh", one.name()], 1);
            assert_eq!(alone["meshes"], Value::from(vec![one.name()]), "{alone:#}");
            assert_eq!(alone["held_by"].as_array().map(Vec::len), Some(1), "{alone:#}");
        }
        both(&within(&pod, mesh, &[&["apply"], &flags[..]].concat(), 1), "apply");

        let removed = |words: &[&str]| json(&pod, words, 0)["removed"].clone();
        assert_eq!(removed(&["clean", "--mesh", other.name()]), Value::from(vec![other.name()]));
        within(&pod, mesh, &check, 0);
        let other_flags = [vec!["--mesh", other.name()], IPS.to_vec(), usual(other)].concat();
        let replaced = removed(&[&["apply", "--replace"], &other_flags[..]].concat());
        assert_eq!(replaced, Value::from(vec![mesh.name()]));
        assert_eq!(removed(&["clean"]), Value::from(vec![other.name()]));
        assert_eq!(removed(&["clean"]), Value::Array(Vec::new()));
        assert_eq!(pod.stdout("nft", &["list", "ruleset"]), "");
    }
}
