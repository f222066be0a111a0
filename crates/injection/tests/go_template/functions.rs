//! Each function of templates, by what it makes.

use super::world::World;
use injection::template::go;
use serde_json::Value;
use std::collections::BTreeSet;
use testkit::scope;

/// A pipeline, and what it prints.
const ROWS: &[(&str, &str)] = &[
    // Go's own, as far as ours stand in for the engine's.
    (r#"eq "a" "b" "a""#, "true"),
    (r#"eq .Values.none "a""#, "false"),
    (r#"ne 1 2"#, "true"),
    (r#"and (lt 1 2) (le 2 2) (gt 2 1) (ge 2 2) (not false)"#, "true"),
    (r#"or "" "b""#, "b"),
    (r#"len .Spec.Containers"#, "2"),
    (r#"len .Values.none"#, "0"),
    (r#"index .Values.global.list 1"#, "a"),
    (r#"index .ObjectMeta.Annotations "none" | quote"#, r#""""#),
    (r#"index .Values.global.proxy "resources" "limits" "cpu""#, "2"),
    (r#"slice "abcd" 1 3"#, "bc"),
    (r#"html "<a>""#, "&lt;a&gt;"),
    (r#"js "a'b""#, r"a\'b"),
    (r#"urlquery "a b""#, "a+b"),
    (r#"print "a" 1 2 "b""#, "a1 2b"),
    (r#"println "a" | trim"#, "a"),
    (r#"printf "%s-%d-%t-%q-%v" "a" 1 true "b" 1.5"#, r#"a-1-true-"b"-1.5"#),
    // Istio's.
    (r#"annotation .ObjectMeta "note" "x""#, "plain"),
    (r#"annotation .ObjectMeta "none" 7"#, "7"),
    (r#"isset .ObjectMeta.Annotations "note""#, "true"),
    (r#"isset .ObjectMeta.Annotations "none""#, "false"),
    (r#"valueOrDefault "" "x""#, "x"),
    (r#"valueOrDefault .Values.none "x""#, "x"),
    (r#"valueOrDefault 0 "x""#, "0"),
    (r#"excludeInboundPort 15020 "80""#, "80,15020"),
    (r#"excludeInboundPort "0" "80""#, "80"),
    (r#"excludeInboundPort nil "80""#, "80"),
    (r#"excludeInboundPort "" """#, ""),
    (r#"excludeInboundPort "15020" """#, "15020"),
    (r#"excludeInboundPort "15020" "80, 90""#, "80,90,15020"),
    (r#"excludeInboundPort "15020" "80,15020""#, "80,15020"),
    (r#"excludeInboundPort "15020" "80, 15020""#, "80, 15020"),
    (r#"includeInboundPorts .Spec.Containers"#, "80,90"),
    (r#"applicationPorts .Spec.Containers"#, "80,90"),
    (r#"kubevirtInterfaces "net1""#, "net1"),
    (r#"excludeInterfaces "net1""#, "net1"),
    (r#"toJSON .ObjectMeta.Labels"#, r#"{"app":"web"}"#),
    (r#"toJSON .Values.none"#, "{}"),
    (
        r#"structToJSON (index .Spec.Containers 1)"#,
        r#"{"name":"log","ports":[{"name":"http","containerPort":90}]}"#,
    ),
    (
        r#"protoToJSON .ProxyConfig"#,
        r#"{"discoveryAddress":"istiod.mesh.svc:15012","proxyMetadata":{"A":"1"}}"#,
    ),
    (r#"otelResourceAttributes .MeshConfig .ObjectMeta.Annotations .ObjectMeta.Labels "shop""#, ""),
    (r#"protoToJSON .Values.none"#, "{}"),
    (r#"protoToJSON (dict "drainDuration" "45s")"#, r#"{"drainDuration":"45s"}"#),
    (r#"(fromJSON `{"a":[1,"x"]}`).a"#, "[1 x]"),
    (r#"fromJSON `{`"#, "{}"),
    (r#"toYaml .Values.global.proxy.resources"#, "limits:\n  cpu: \"2\"\n"),
    (r#"toYaml (index .Spec.Containers 1).Ports"#, "- containerPort: 90\n  name: http\n"),
    (r#"indent 2 "a\nb""#, "a\n  b"),
    (r#"nindent 2 "a\nb""#, "\n  a\n  b"),
    (r#"contains "b" "abc""#, "true"),
    (r#"toLower "AbC""#, "abc"),
    (r#"directory "/etc/x/y""#, "/etc/x/"),
    (r#"directory "y" | quote"#, r#""""#),
    (r#"formatDuration "90s""#, "1m30s"),
    (r#"env "PILOT_FLAG" "false""#, "true"),
    (r#"env "PATH" "none""#, "none"),
    (r#"toJSON (omit (dict "a" 1 "b" 2 "c" 3) "a" "c")"#, r#"{"b":2}"#),
    (r#"toJSON (omitNil (dict "a" .Values.none "b" (dict "c" nil) "d" (list nil 1)))"#, r#"{"d":[1]}"#),
    (r#"toJSON (strdict "a" 1 "b")"#, r#"{"a":"1","b":""}"#),
    (r#"toJSON (mergeMaps (dict "a" 1) (dict "a" 2 "b" 3))"#, r#"{"a":2,"b":3}"#),
    (r#"toJsonMap .ObjectMeta.Labels (strdict "app" "x" "b" "y")"#, r#"{"app":"x","b":"y"}"#),
    (r#"appendMultusNetwork "" "cni""#, "cni"),
    (r#"appendMultusNetwork "a" "default/cni""#, "a, default/cni"),
    (r#"appendMultusNetwork "a,default/cni" "default/cni""#, "a,default/cni"),
    (r#"appendMultusNetwork `[{"name":"a"}]` "cni""#, r#"[{"name":"a"}, {"name":"cni"}]"#),
    (
        r#"appendMultusNetwork `[{"name": "cni"}]` "default/cni""#,
        r#"[{"name": "cni"}, {"name":"cni","namespace":"default"}]"#,
    ),
    (
        r#"appendMultusNetwork `[{"name": "cni", "namespace": "default"}]` "default/cni""#,
        r#"[{"name": "cni", "namespace": "default"}]"#,
    ),
    (r#"appendMultusNetwork "[]" "cni""#, r#"[{"name":"cni"}]"#),
    (r#"appendMultusNetwork "[broken]" "cni""#, "[broken]"),
    (r#"appendMultusNetwork "[1]" "cni""#, r#"[1, {"name":"cni"}]"#),
    // Methods.
    (r#"(print "45s").Seconds"#, "45"),
    (r#"(print "1.5s").Nanos"#, "500000000"),
    (r#"(print "90s").GetSeconds"#, "90"),
    (r#"(print "90s").AsDuration"#, "1m30s"),
    (r#"(print "90s").AsDuration.Minutes"#, "1.5"),
    (r#"(print "0.5s").AsDuration.Seconds"#, "0.5"),
    (r#"(print "0.5s").AsDuration.Milliseconds"#, "500"),
    (r#"(print "0.5s").Microseconds"#, "500000"),
    (r#"(print "1m30s").Hours"#, "0.025"),
    (r#"(print "4").Value"#, "4"),
    (r#".Values.none.GetSeconds"#, "0"),
    (r#".Values.none.GetValue | default "unset""#, "unset"),
    // Texts.
    (r#"upper .Values.none"#, ""),
    // Lists.
    (r#"len (compact .Values.none)"#, "0"),
    (r#"len (keys .Values.none)"#, "0"),
    (r#"hasKey .Values.none "a""#, "false"),
    (r#"until 10000 | len"#, "10000"),
    // Codings.
    (r#"toJson nil"#, "null"),
    (r#"(mustFromJson `{"a":1}`).a"#, "1"),
    (r#"(fromYaml "a: [1, 2]").a"#, "[1 2]"),
];

/// What a pipeline prints: as a text in JSON, which no YAML reads otherwise.
fn printed(world: &World, pipeline: &str) -> Result<String, String> {
    let value = world.render(&format!("a: {{{{ print ({pipeline}) | toJson }}}}"))?;
    value["a"].as_str().map(str::to_owned).ok_or_else(|| format!("no text: {value}"))
}

/// Pipelines of sprig's functions, and what sprig itself makes of them.
fn of_sprig() -> impl Iterator<Item = (&'static str, String)> {
    let lines = include_str!("sprig.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let (pipeline, expected) = line.rsplit_once(" => ").expect("a pipeline and what it makes");
        (pipeline, serde_json::from_str(expected).expect("a text of JSON"))
    })
}

#[test]
fn each_makes_what_it_says() {
    let world = World::new();
    for (pipeline, expected) in ROWS {
        assert_eq!(printed(&world, pipeline).as_deref(), Ok(*expected), "{pipeline}");
    }
}

#[test]
fn sprigs_make_what_sprig_makes() {
    let world = World::new();
    let wrong: Vec<String> = of_sprig()
        .filter_map(|(pipeline, expected)| {
            let made = printed(&world, pipeline);
            (made.as_ref() != Ok(&expected))
                .then(|| format!("{pipeline}\n  sprig: {expected:?}\n  here: {made:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(of_sprig().count() > 300);
}

/// What the pod says comes as it is meant, and can't become a field.
#[test]
fn resource_attributes_are_there_where_a_provider_asks_for_them() {
    let mut world = World::annotated("resource.opentelemetry.io/service.version", "1: #2");
    let pipeline = "otelResourceAttributes .MeshConfig .ObjectMeta.Annotations .ObjectMeta.Labels .ObjectMeta.Namespace .Spec.Containers";
    world.pod["spec"]["containers"].as_array_mut().expect("containers").truncate(1);
    let rows = [
        ("ISTIO_CANONICAL", ""),
        (
            "OTEL_SEMANTIC_CONVENTIONS",
            "service.namespace=shop,service.version=1: #2,service.instance.id=shop.$(POD_NAME).web",
        ),
    ];
    for (enrichment, expected) in rows {
        let provider =
            serde_json::json!({"name": "otel", "opentelemetry": {"serviceAttributeEnrichment": enrichment}});
        world.configuration.mesh.raw["extensionProviders"] = Value::from(vec![provider]);
        assert_eq!(printed(&world, pipeline).as_deref(), Ok(expected), "{enrichment}");
    }
}

#[test]
fn each_has_a_row() {
    let rows = ROWS.iter().map(|(row, _)| *row).chain(of_sprig().map(|(row, _)| row));
    let words: BTreeSet<&str> = rows.flat_map(|row| row.split(|c: char| !c.is_alphanumeric())).collect();
    for name in go::functions().into_iter().filter(|name| !["call", "fail"].contains(name)) {
        assert!(words.contains(name), "no row calls {name}");
    }
}

#[test]
fn errors_name_the_line_and_the_function() {
    let world = World::new();
    let rows = [
        ("\n{{ nosuch 1 }}", "line 2: function nosuch is unknown"),
        ("{{ mustRegexFind `(` `b` }}", "regexFind is given \"(\", which is not a regular expression"),
        ("{{ regexMatch `a` }}", "regexMatch takes 2 values, and is given 1"),
        ("{{ eq 1 }}", "eq takes 2 or more values, and is given 1"),
        ("{{ until 10001 }}", "would count 10001 numbers, more than 10000"),
        ("{{ round 1 2 3 4 }}", "round takes 2 to 3 values, and is given 4"),
        ("{{ $_ := set .Values `a` 1 }}", "set changes \".Values\" in place"),
        ("{{ now }}", "there is no clock"),
        ("{{ randAlpha 5 }}", "chance"),
        ("{{ genCA `a` 1 }}", "cryptography"),
        ("{{ kebabcase `a b` }}", "function kebabcase is not offered: templates of pods don't reshape words"),
        ("{{ (urlParse `http://a`).host }}", "function urlParse is not offered: URLs are texts"),
        (
            "{{ semverCompare `>1` `2` }}",
            "function semverCompare is not offered: a template knows one version",
        ),
        ("{{ durationRound `90s` }}", "formatDuration is"),
        ("{{ adler32sum `a` }}", "sha256sum"),
        ("\n\n{{ if }}", "line 3: "),
        ("a\n{{ .Nope }}", "line 2: no field `Nope` in a map"),
        ("{{ fail `no such mode` }}", "line 1: fail was called: no such mode"),
        ("{{ div 1 0 }}", "div divides by zero"),
        ("{{ list 1 | trunc }}", "trunc takes 2 values, and is given 1"),
        ("{{ (print `x`).Seconds }}", "Seconds is called on a string that is not a duration"),
        ("{{ repeat 524289 `x` }}", "repeat would make more than 524288 bytes"),
        ("{{ replace `` (repeat 1000 `x`) (repeat 1000 `x`) }}", "replace would make more than 524288 bytes"),
        (
            "{{ replace `x` (repeat 1000 `x`) (repeat 1000 `x`) }}",
            "replace would make more than 524288 bytes",
        ),
        ("{{ join (repeat 1000 `x`) (until 1000) }}", "join would make more than 524288 bytes"),
        ("{{ indent 256 (repeat 3000 \"\\n\") }}", "indent would make more than 524288 bytes"),
        (
            "{{ regexReplaceAll `.*` (repeat 50000 `x`) (repeat 50000 `$0`) }}",
            "its functions were given too much",
        ),
        (
            "{{ regexReplaceAllLiteral `x` (repeat 50000 `x`) (repeat 50000 `y`) }}",
            "its functions were given too much",
        ),
        ("{{ first `a` }}", "first takes a list, and is given a text"),
        ("{{ nindent 1000 `a` }}", "nindent takes 0 to 256 spaces, not 1000"),
        ("{{ mustFromJson `{` }}", "mustFromJson is given invalid JSON"),
        ("{{ b64dec `?` }}", "b64dec is given no base 64"),
        ("{{ first 1 }}", "first takes a list, and is given a number"),
        ("{{ first true }}", "first takes a list, and is given a boolean"),
        ("{{ first (dict) }}", "first takes a list, and is given a map"),
        ("{{ keys (list) }}", "keys takes a map, and is given a list"),
        ("{{ get `a` `b` }}", "get takes a map, and is given a text"),
        ("{{ get 1 `b` }}", "get takes a map, and is given a number"),
        ("{{ index (list 1) 1 }}", "finds no item 1 in 1 items"),
    ];
    for (text, expected) in rows {
        let shown = world.render(text).expect_err(text);
        assert!(shown.contains(expected), "{text}: {shown}");
        assert!(shown.len() < 600 && !shown.contains("map["), "{shown}");
    }
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
        "{{ seq 1 9223372036854775807 }}",
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
fn set_changes_the_variable_that_it_names() {
    let text = "{{- $x := dict \"a\" 1 }}{{ $_ := set $x \"b\" 2 }}{{- range until 2 }}{{ $_ := set $x (print .) . }}{{ end }}\n\
                {{- $_ := unset $x \"a\" }}\nx: {{ toJson $x }}";
    let expected = serde_json::json!({"x": {"b": 2, "0": 0, "1": 1}});
    assert_eq!(World::new().render(text), Ok(expected));
}

#[test]
fn a_variable_that_takes_the_answer_of_set_leaves_the_other_one_changed() {
    let text = "{{ $x := dict }}{{ if true }}{{ $y := set $x \"a\" 1 }}{{ $x := set $x \"b\" $y.a }}{{ end }}x: {{ toJson $x }}";
    assert_eq!(World::new().render(text), Ok(serde_json::json!({"x": {"a": 1, "b": 1}})));
}

#[test]
fn values_of_templates_nest_without_end_of_the_stack() {
    let mut world = World::new();
    let mut deep = Value::from("x");
    for _ in 0..90 {
        deep = serde_json::json!([deep]);
    }
    world.configuration.values.raw["deep"] = deep;
    let made = world.render("a: {{ toJson .Values.deep }}").expect("a value");
    assert_eq!(made["a"], world.configuration.values.raw["deep"]);
}
