//! House rules that no compiler checks: who may speak of whom, how files open and how long they are, and
//! that code, tables and documents name the same things.
//!
//! Sources are read as text, without their comments. The rules themselves are explained in ARCHITECTURE.md.

use mesh::settings;
use std::{
    collections::BTreeMap,
    fs,
    path::{Component, Path, PathBuf},
};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files below a folder with one of these endings, by their path from the root.
fn files(below: &str, endings: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![root().join(below)];
    while let Some(path) = open.pop() {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if path.is_dir() {
            let generated = name == "target" || (name.starts_with('.') && name != ".ci");
            let entries = if generated { None } else { fs::read_dir(&path).ok() };
            open.extend(entries.into_iter().flatten().map(|entry| entry.expect("an entry").path()));
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            let text = fs::read_to_string(&path).expect("UTF-8");
            let path = path.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned();
            found.push((path, text));
        }
    }
    assert!(!found.is_empty(), "nothing below {below:?}");
    found.sort();
    found
}

fn sources(below: &str) -> Vec<(String, String)> {
    files(below, &[".rs"])
}

/// The code without line comments and without its unit tests.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// Whether the code says this word, and not as a part of another.
fn says(code: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word)
        .any(|(at, _)| !code[..at].ends_with(part) && !code[at + word.len()..].starts_with(part))
}

/// What follows `crate::` in the code, each item of a group on its own, by its first segment.
fn imports(code: &str) -> Vec<String> {
    let first = |path: &str| path.trim().split("::").next().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    for (at, start) in code.match_indices("crate::") {
        let rest = &code[at + start.len()..];
        match rest.strip_prefix('{') {
            Some(group) => found.extend(top_level_items(group).into_iter().map(first)),
            None => {
                let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
                found.push(rest[..end].to_owned());
            }
        }
    }
    found.retain(|name| !name.is_empty());
    found
}

/// The items of `a::{b, c}, d}`, up to the brace that closes the group.
fn top_level_items(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut items) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                items.push(&group[start..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                items.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    items
}

/// The modules of the crate `rules`, lowest first; each may use those of lower layers and of its own.
const LAYERS: [&[&str]; 11] = [
    &["finding", "hook", "intervals"],
    &["log", "name", "net", "number", "port", "range", "report", "version"],
    &["field", "matches", "routing", "target"],
    &["model"],
    &["predecessor"],
    &["ownership"],
    &["listed"],
    &["check", "state", "change", "packing"],
    &["inheritance"],
    &["bridge", "listing", "nft"],
    &["desired"],
];

/// Modules above all layers, which never use each other, but for one that reports what another would do, and one that draws
/// what another walks through.
const TOP: [&str; 6] = ["render", "parse", "plan", "drift", "simulate", "shadow"];

fn layer(module: &str) -> usize {
    LAYERS.iter().position(|layer| layer.contains(&module)).unwrap_or(LAYERS.len())
}

/// Which module each name in the crate's root comes from.
fn origins(lib: &str) -> BTreeMap<String, String> {
    let mut origins = BTreeMap::new();
    for line in lib.lines().filter_map(|line| line.strip_prefix("pub use ")) {
        let (module, names) = line.trim_end_matches(';').split_once("::").expect("a module");
        for name in names.trim_matches(['{', '}']).split(',') {
            origins.insert(name.trim().to_owned(), module.to_owned());
        }
    }
    origins
}

#[test]
fn modules_of_the_model_use_only_what_lies_below_them() {
    let lib = fs::read_to_string(root().join("rules/src/lib.rs")).expect("the crate's root");
    let origins = origins(&code(&lib));
    for (path, text) in sources("rules/src").into_iter().filter(|(path, _)| path != "rules/src/lib.rs") {
        let inner = path.trim_start_matches("rules/src/").trim_end_matches(".rs");
        let module = inner.split('/').next().unwrap_or_default();
        let known = TOP.contains(&module) || layer(module) < LAYERS.len();
        assert!(known, "{path} has no place in the order of modules");
        for import in imports(&code(&text)) {
            let used = origins.get(&import).unwrap_or(&import);
            let allowed =
                used == module || [("drift", "plan"), ("render", "simulate")].contains(&(module, used));
            assert!(allowed || layer(used) < LAYERS.len(), "{path} uses {used}");
            assert!(layer(used) <= layer(module), "{path} uses {used}, which lies above it");
        }
    }
}

/// The floors of the engine, lowest first, above the crate `sys`. None knows a front end: those are modules of the binary,
/// which the library can't see; and none knows a mesh, which Cargo can't forbid, because the binary needs it.
const FLOORS: [&str; 2] = ["backend", "engine"];

#[test]
fn the_engine_knows_no_mesh_and_no_floor_above() {
    for (floor, module) in FLOORS.iter().enumerate() {
        for (path, text) in sources(&format!("src/{module}")) {
            let code = code(&text);
            let is_free = ["mesh::", "diagnose::"].iter().all(|word| !code.contains(word));
            assert!(is_free, "{path} speaks of a mesh");
            let above =
                imports(&code).into_iter().find(|import| FLOORS[floor + 1..].contains(&import.as_str()));
            assert_eq!(above, None, "{path} looks up");
            assert!(
                !code.contains("super::super"),
                "{path} reaches past its module in a way that this test can't follow"
            );
        }
    }
}

/// Cargo sees to it that no system call can be made but through the standard library; this sees to that.
#[test]
fn pure_crates_touch_nothing() {
    let pure = [
        "rules/src",
        "crates/mesh/src",
        "crates/diagnose/src",
        "crates/playground/src",
        "crates/injection/src",
    ]
    .into_iter()
    .flat_map(sources);
    // Tests read files of what is expected.
    for (path, text) in pure.filter(|(path, _)| !path.ends_with("tests.rs")) {
        let code = code(&text);
        for word in [
            "env::",
            "fs::",
            "process::",
            "::now()",
            "net::Tcp",
            "net::Udp",
            "thread::",
            "println!",
            "eprintln!",
        ] {
            assert!(!code.contains(word), "{path} says {word}");
        }
        // The bare words name other things too: a ProxyConfig has a field `tracing`.
        for word in ["tracing::", "nix::", "clap::"] {
            assert!(!code.contains(word), "{path} says {word}");
        }
    }
}

#[test]
fn the_environment_is_read_in_one_place_of_each_front_end() {
    for (path, text) in ["src", "crates/sandbox/src", "crates/sys/src"].into_iter().flat_map(sources) {
        let code = code(&text);
        let asks = ["env::var", "env::vars", "env::args"].iter().any(|word| code.contains(word));
        match path.as_str() {
            "src/cli/mod.rs" | "src/cni/mod.rs" => {}
            // Tests alone, which update files where a variable asks for it.
            "src/cli/tests/contract.rs" | "src/cli/tests/mod.rs" => {}
            "crates/sys/src/exec.rs" => {
                assert_eq!(code.matches("env::").count(), 2);
                assert!(
                    code.contains("env::var_os(\"PATH\")") && code.contains("env::split_paths"),
                    "{path}"
                );
            }
            _ => assert!(!asks && !says(&code, "std::env"), "{path} reads the environment"),
        }
    }
}

/// So that whoever writes a network configuration, and the fuzzer, can ask how it will be understood.
#[test]
fn the_protocol_of_plugins_touches_nothing() {
    for (path, text) in sources("src/cni/protocol") {
        let code = code(&text);
        for word in ["env::", "fs::", "io::", "process::", "::now()", "thread::", "crate::", "sidecar_init"] {
            assert!(!code.contains(word), "{path} says {word}");
        }
    }
}

#[test]
fn the_nodes_program_reads_the_environment_where_it_starts() {
    let both = ["crates/node/src", "crates/cluster/src"].into_iter().flat_map(sources);
    for (path, text) in both.filter(|(path, _)| path != "crates/node/src/main.rs") {
        let code = code(&text);
        assert!(!code.contains("env::var") && !code.contains("env::args"), "{path} reads the environment");
    }
}

/// Functions that WebAssembly finds by name need an attribute that counts as unsafe. Nothing else there is.
const INTERFACE: &str = "crates/playground/src/interface.rs";

#[test]
fn code_outside_of_sys_is_safe() {
    let (interface, others): (Vec<_>, Vec<_>) =
        sources("").into_iter().partition(|(path, _)| path == INTERFACE);
    let interface = code(&interface.first().expect(INTERFACE).1);
    let attributes = interface.matches("#[unsafe(no_mangle)]").count();
    // The lint's name stands where it is lifted.
    assert_eq!(interface.matches("unsafe").count(), attributes + 1, "{INTERFACE}");
    for (path, text) in others.into_iter().filter(|(path, _)| !path.starts_with("crates/sys/")) {
        let unsafe_words =
            ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "allow(unsafe", "expect(unsafe"];
        let found =
            unsafe_words.iter().find(|word| path != "tests/house/tidy.rs" && code(&text).contains(**word));
        assert_eq!(found, None, "{path}");
    }
    for lib in [
        "src/lib.rs",
        "src/main.rs",
        "rules/src/lib.rs",
        "crates/mesh/src/lib.rs",
        "crates/diagnose/src/lib.rs",
        "crates/cluster/src/lib.rs",
        "crates/command-line/src/lib.rs",
        "crates/sandbox/src/lib.rs",
    ] {
        let lib = fs::read_to_string(root().join(lib)).expect("the crate's root");
        assert!(lib.contains("#![forbid(unsafe_code)]"));
    }
}

#[test]
fn every_file_says_what_it_is_and_stays_short() {
    for (path, text) in sources("") {
        assert!(text.starts_with("//! "), "{path} does not open with its purpose");
        let lines = text.lines().count();
        assert!(lines <= 700, "{path} has {lines} lines; one idea a file");
    }
}

#[test]
fn the_reference_names_every_setting() {
    let page = |name| fs::read_to_string(root().join(name)).expect("a page of the reference");
    let reference = page("docs/reference.md") + &page("docs/meshes.md");
    for row in settings::all() {
        let flag = format!("--{}", row.long);
        let named = |name: &str| says(&reference.replace('-', "_"), &name.replace('-', "_"));
        assert!(row.long.is_empty() || named(&flag), "docs/reference.md lacks {flag}");
        for variable in row.variables.iter().filter(|name| row.long.is_empty() || **name != row.variables[0])
        {
            assert!(named(variable), "docs/reference.md lacks {variable}");
        }
    }
}

/// Places that every Linux machine has.
const SYSTEM: [&str; 14] =
    ["bin", "dev", "etc", "home", "lib", "mnt", "opt", "proc", "run", "sbin", "sys", "tmp", "usr", "var"];

/// Paths in a text that lead out of the project and not to a place of the system.
fn strays(file: &str, text: &str) -> Vec<String> {
    let ends = |c: char| c.is_whitespace() || "`'\"()[]{}<>|,;=".contains(c);
    let stray = |word: &&str| {
        let path = Path::new(word.trim_end_matches(['.', ':']));
        let absolute = word.strip_prefix('/').is_some_and(|rest| {
            let first = rest.split('/').next().unwrap_or_default();
            let named =
                rest.contains('/') && first.chars().all(|c| c.is_ascii_lowercase()) && !first.is_empty();
            named && !SYSTEM.contains(&first)
        });
        absolute || (word.starts_with("../") && leaves(Path::new(file), path))
    };
    text.split(ends).filter(stray).map(str::to_owned).collect()
}

/// Whether a path, seen from a file of the project, leads out of it.
fn leaves(file: &Path, path: &Path) -> bool {
    let mut place: PathBuf = file.parent().map(Path::to_owned).unwrap_or_default();
    path.components().any(|component| match component {
        Component::ParentDir => !place.pop(),
        other => {
            place.push(other);
            false
        }
    })
}

#[test]
fn documents_speak_of_nothing_outside_of_the_project() {
    for (path, text) in files("", &[".md"]) {
        assert_eq!(strays(&path, &text), [""; 0], "{path}");
    }
    for (path, text) in sources("") {
        let comments = text.lines().filter(|line| line.trim_start().starts_with("//"));
        let comments: String = comments.flat_map(|line| [line, "\n"]).collect();
        assert_eq!(strays(&path, &comments), [""; 0], "{path}");
    }
    for (path, text) in files("scripts", &[""]) {
        let comments: String =
            text.lines().filter(|line| line.starts_with('#')).flat_map(|line| [line, "\n"]).collect();
        assert_eq!(strays(&path, &comments), [""; 0], "{path}");
    }
}

#[test]
fn strays_are_recognised() {
    assert_eq!(strays("docs/a.md", "see ../../other/notes.md"), ["../../other/notes.md"]);
    assert_eq!(
        strays("docs/a.md", "see ../README.md, /proc/self and /elsewhere/notes."),
        ["/elsewhere/notes."]
    );
}

#[test]
fn links_in_documents_lead_somewhere() {
    for (path, text) in files("", &[".md"]) {
        let document = root().join(&path);
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or_default();
            if target.contains("://") {
                continue;
            }
            let file = if file.is_empty() { document.clone() } else { document.with_file_name(file) };
            assert!(file.exists(), "{path}: {target} leads nowhere");
            if let Some((_, anchor)) = target.split_once('#') {
                let text = fs::read_to_string(&file).expect("a document");
                assert!(anchors(&text).any(|known| known == anchor), "{path}: {target} leads to no heading");
            }
        }
    }
}

/// What headings are called in links, as GitHub makes it of them.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| {
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let title = line.trim_start_matches('#').trim().to_lowercase();
        title.chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

/// Types that each mesh's folder has, under the names by which the list of meshes reaches them.
const OF_EACH_MESH: [&str; 3] = ["CaptureConfig", "Known", "Reason"];

#[test]
fn no_two_types_have_the_same_name() {
    let mut places = BTreeMap::<String, Vec<String>>::new();
    for below in ["src", "rules/src", "crates"] {
        for (path, text) in sources(below) {
            if path.contains("testkit") || path.contains("/tests") || path.ends_with("tests.rs") {
                continue;
            }
            for line in code(&text).lines() {
                let item = line.trim_start().trim_start_matches("pub ");
                let item = match item.strip_prefix("pub(") {
                    Some(rest) => rest.split_once(") ").map_or("", |(_, item)| item),
                    None => item,
                };
                let Some((keyword, rest)) = item.split_once(' ') else { continue };
                // Within a trait or an implementation, `type` gives what the trait names.
                let defines = match keyword {
                    "struct" | "enum" | "trait" => true,
                    "type" => !line.starts_with(' '),
                    _ => false,
                };
                let name: String = rest.chars().take_while(|c| c.is_alphanumeric()).collect();
                if defines && !name.is_empty() && !OF_EACH_MESH.contains(&&*name) {
                    places.entry(name).or_default().push(path.clone());
                }
            }
        }
    }
    places.retain(|_, places| places.len() > 1);
    assert!(places.is_empty(), "one name, one type: {places:#?}");
}
