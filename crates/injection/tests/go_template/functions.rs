//! Results of each template function.

use super::world::World;
use injection::template::go;
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs};
use testkit::scope;

/// The rows of a file with their outputs as JSON strings, which `UPDATE_GOLDENS=1` writes.
fn check(name: &str, answer: impl Fn(&str) -> String) {
    let file = format!("{}/tests/go_template/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let written = fs::read_to_string(&file).expect("rows");
    let rows = written.lines().map(|line| match line.rsplit_once(" => ") {
        Some((row, _)) if !line.starts_with('#') => format!("{row} => {}\n", json!(answer(row))),
        _ => format!("{line}\n"),
    });
    testkit::golden(&file, &rows.collect::<String>());
}

/// A pipeline's output, as a JSON string, which is also the same string in YAML.
fn printed(world: &World, pipeline: &str) -> Result<String, String> {
    let value = world.render(&format!("a: {{{{ print ({pipeline}) | toJson }}}}"))?;
    value["a"].as_str().map(str::to_owned).ok_or_else(|| format!("no text: {value}"))
}

fn of_sprig() -> impl Iterator<Item = (&'static str, String)> {
    let lines = include_str!("sprig.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let (pipeline, expected) = line.rsplit_once(" => ").expect("a pipeline and its result");
        (pipeline, serde_json::from_str(expected).expect("a JSON string"))
    })
}

#[test]
fn functions_match_their_rows() {
    let world = World::new();
    check("functions", |pipeline| {
        printed(&world, pipeline).unwrap_or_else(|shown| panic!("{pipeline}: {shown}"))
    });
}

#[test]
fn results_equal_sprigs() {
    let world = World::new();
    let wrong: Vec<String> = of_sprig()
        .filter_map(|(pipeline, expected)| {
            let made = printed(&world, pipeline);
            (made.as_ref() != Ok(&expected))
                .then(|| format!("{pipeline}\n  sprig: {expected:?}\n  here: {made:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(of_sprig().count() > 200);
}

#[test]
fn each_function_has_a_row() {
    let rows = include_str!("functions.txt").lines().chain(of_sprig().map(|(row, _)| row));
    let words: BTreeSet<&str> = rows.flat_map(|row| row.split(|c: char| !c.is_alphanumeric())).collect();
    for name in go::functions().into_iter().filter(|name| !["call", "fail"].contains(name)) {
        assert!(words.contains(name), "no row calls {name}");
    }
}

#[test]
fn errors_name_the_line_and_the_function() {
    let world = World::new();
    check("errors", |template| {
        let template: String = serde_json::from_str(template).expect("a JSON string");
        let shown = world.render(&template).expect_err(&template);
        assert!(shown.len() < 600 && !shown.contains("map["), "{shown}");
        shown
    });
}

#[test]
fn a_template_without_end_ends() {
    let world = World::new();
    let rows = [
        "{{ range 100000000 }}{{ end }}",
        "{{ range until 9000 }}{{ range until 9000 }}x{{ end }}{{ end }}",
        "{{ define `r` }}{{ template `r` . }}{{ end }}{{ template `r` . }}",
        "{{ $x := `x` }}{{ range until 60 }}{{ $x = print $x $x }}{{ end }}",
        "{{ $x := list }}{{ range until 9000 }}{{ $x = list $x }}{{ end }}",
        "{{ repeat 1000000000 `x` }}",
        "{{ until 1000000000 }}",
        "{{ $x := repeat 500000 `x` }}{{ range until 9000 }}{{ $y := upper $x }}{{ end }}",
        "{{ range until 9000 }}{{ repeat 100000 `x` }}{{ end }}",
        "{{ printf `%999999999d` 1 }}",
        "{{ uniq (until 9000) }}",
    ];
    for text in scope::of(rows.to_vec(), 4) {
        assert!(world.render(text).is_err(), "{text}");
    }
}

#[test]
fn values_of_templates_nest_without_end_of_the_stack() {
    let mut world = World::new();
    let mut deep = Value::from("x");
    for _ in 0..90 {
        deep = json!([deep]);
    }
    world.configuration.values.raw["deep"] = deep;
    let made = world.render("a: {{ toJson .Values.deep }}").expect("a value");
    assert_eq!(made["a"], world.configuration.values.raw["deep"]);
}
