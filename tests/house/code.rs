//! Rules for code that no compiler checks: required and forbidden words by folder, the beginning and length of files, and type
//! names. ARCHITECTURE.md explains them.

use crate::repository::{File, files, has_word, matches, none, read};
use std::collections::{BTreeMap, BTreeSet};

/// The only unsafe code: system calls.
const SYS: &str = "crates/sys/src/*";

/// The only function below a front end that reads the environment: it finds programs by PATH.
const EXEC: &str = "crates/sys/src/exec.rs";

/// Functions that WebAssembly finds by name need an attribute that counts as unsafe.
const INTERFACE: &str = "crates/playground/src/interface.rs";

const LIBRARIES: [&str; 8] = [
    "rules/src/lib.rs",
    "crates/mesh/src/lib.rs",
    "crates/diagnose/src/lib.rs",
    "crates/injection/src/lib.rs",
    "crates/environment/src/lib.rs",
    "crates/cluster/src/lib.rs",
    "crates/command-line/src/lib.rs",
    "crates/sandbox/src/lib.rs",
];

/// Words banned from some files. Spaces separate paths and words.
struct Rule {
    files: &'static [&'static str],
    except: &'static [&'static str],
    lacks: &'static str,
    remedy: &'static str,
}

const RULES: [Rule; 5] = [
    Rule {
        files: &["rules/src/*.rs", "src/engine/*.rs", "src/backend/*.rs", SYS],
        except: &[],
        lacks: "istio:: mesh:: diagnose::",
        remedy: "the vocabulary and the engine name no mesh: pass a mesh's facts as values",
    },
    Rule {
        files: &[
            "rules/src/*.rs",
            "crates/mesh/src/*.rs|crates/diagnose/src/*.rs",
            "crates/playground/src/*.rs",
            "crates/injection/src/*.rs|crates/environment/src/*.rs",
        ],
        // Tests read files with expected values.
        except: &["*tests.rs"],
        // Not the bare words of the last three: a ProxyConfig has a field `tracing`.
        lacks: "env:: fs:: process:: ::now() net::TcpListener net::TcpStream net::UdpSocket thread:: println! eprintln! \
                tracing:: nix:: clap::",
        remedy: "pure crates have no input, output, clock, environment or log: take and return values",
    },
    Rule {
        files: &["src/*.rs", SYS, "crates/sandbox/src/*", "crates/node/src/*.rs", "crates/cluster/src/*.rs"],
        // Tests update files if a variable is set.
        except: &["src/cli/mod.rs", "src/cni/mod.rs", "crates/node/src/main.rs", EXEC, "src/cli/tests/*"],
        lacks: "env::var env::vars env::var_os env::vars_os env::args env::args_os std::env",
        remedy: "read the environment where a front end starts, and pass its values",
    },
    Rule {
        files: &["src/cni/protocol/*.rs"],
        except: &[],
        lacks: "env:: fs:: io:: process:: ::now() thread:: crate:: sidecar_init",
        remedy: "the protocol is pure, so that authors of network configurations, and the fuzzer, can call the parser",
    },
    Rule {
        files: &["*.rs"],
        except: &[SYS, INTERFACE, "tests/house/code.rs"],
        lacks: "unsafe allow(unsafe_code expect(unsafe_code",
        remedy: "only sys has unsafe code",
    },
];

#[test]
fn code_follows_the_rules_of_its_folder() {
    let found = RULES.iter().flat_map(|Rule { files: of_rule, except, lacks, remedy }| {
        let all = |patterns: &[&str]| patterns.iter().flat_map(|pattern| files(pattern)).collect::<Vec<_>>();
        let except: Vec<&str> = all(except).iter().map(|file| &*file.path).collect();
        let of_rule = all(of_rule).into_iter().filter(move |file| !except.contains(&&*file.path));
        of_rule.flat_map(move |file| {
            file.code().flat_map(move |(number, line)| {
                let found = lacks.split_whitespace().filter(move |word| has_word(line, word));
                found.map(move |word| format!("{}:{number}: {word} ({remedy})", file.path))
            })
        })
    });
    none(found, "change the code, or the rule with its reason in tests/house/code.rs");
}

fn count(file: &File, word: &str) -> usize {
    file.code().map(|(_, line)| line.matches(word).count()).sum()
}

#[test]
fn exceptions_are_limited_to_their_purpose() {
    for file in files(EXEC) {
        let read = ["env::var_os(\"PATH\")", "env::split_paths"].map(|word| count(file, word));
        assert!(read == [1, 1] && count(file, "env::") == 2, "{}: read only PATH", file.path);
    }
    let interface = files(INTERFACE)[0];
    // `unsafe` occurs once more, where the lint is lifted.
    let attributes = count(interface, "#[unsafe(no_mangle)]") + 1;
    assert_eq!(count(interface, "unsafe"), attributes, "{INTERFACE}: have no unsafe code except attributes");
    let unsafe_libraries = LIBRARIES.iter().filter(|path| !read(path).contains("#![forbid(unsafe_code)]"));
    none(unsafe_libraries.map(|path| (*path).to_owned()), "forbid unsafe code in each library except sys");
}

#[test]
fn every_file_begins_with_its_purpose_and_is_short() {
    let found = files("*.rs").into_iter().filter_map(|file| {
        let lines = file.text.lines().count();
        let is_right = file.text.starts_with("//! ") && lines <= 700;
        (!is_right).then(|| format!("{}:1: {lines} lines", file.path))
    });
    none(found, "a file begins with //! and its purpose, and has one purpose and at most 700 lines");
}

/// Types in each mesh's folder, with the names used by the list of meshes.
const OF_EACH_MESH: [&str; 3] = ["CaptureConfig", "Known", "Reason"];

fn defined_type(line: &str) -> Option<&str> {
    let item = line.trim_start();
    let item = match item.strip_prefix("pub(") {
        Some(rest) => rest.split_once(") ")?.1,
        None => item.trim_start_matches("pub "),
    };
    let (keyword, rest) = item.split_once(' ')?;
    // Within a trait or an implementation, `type` is an associated type.
    let defines =
        matches!(keyword, "struct" | "enum" | "trait") || keyword == "type" && !line.starts_with(' ');
    rest.split(|c: char| !c.is_alphanumeric()).next().filter(|name| defines && !name.is_empty())
}

#[test]
fn no_two_types_have_the_same_name() {
    let mut places = BTreeMap::<&str, Vec<String>>::new();
    for file in files("src/*.rs|rules/src/*.rs|crates/*.rs").into_iter().filter(|file| !file.is_test()) {
        for (number, line) in file.code() {
            if let Some(name) = defined_type(line).filter(|name| !OF_EACH_MESH.contains(name)) {
                places.entry(name).or_default().push(format!("{}:{number}", file.path));
            }
        }
    }
    let found = places.into_iter().filter(|(_, places)| places.len() > 1);
    none(found.map(|(name, places)| format!("{name}: {}", places.join(", "))), "one name, one type");
}

#[test]
fn every_setting_is_read() {
    let table = read("crates/mesh/src/settings/table.rs").split_once("\nsettings! {").expect("the rows").1;
    let (rows, _) = table.split_once("\n}").expect("an end");
    // Settings of older programs are accepted without effect.
    let topics = rows.split("\n    }").filter(|topic| !topic.trim_start().starts_with("Compatibility {"));
    let name = |line: &str| Some(line.strip_prefix("        ")?.split_once(": \"")?.0.to_owned());
    let names: Vec<String> = topics.flat_map(str::lines).filter_map(name).collect();
    assert!(names.len() > 60, "only {} rows found", names.len());
    let code = files("crates/mesh/src/*.rs|crates/diagnose/src/*.rs|src/*.rs|crates/sandbox/src/*.rs");
    let read = code.iter().flat_map(|file| file.code()).flat_map(|(_, line)| line.split("Setting::").skip(1));
    let read: BTreeSet<&str> =
        read.filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next()).collect();
    let unread = names.into_iter().filter(|name| !read.contains(&**name));
    none(unread, "no code reads these settings: remove them, or read them");
}

#[test]
fn code_is_read_without_comments_and_tests() {
    let text = "//! a\nb(); // c\n#[cfg(test)]\nuse d;\n#[cfg(all(test, e))]\nmod f {\n    struct G { h: I }\n}\n#[cfg(testing)]";
    let file = File { path: "j_tests/k.rs".to_owned(), text: text.to_owned() };
    assert_eq!(file.code().collect::<Vec<_>>(), [(1, ""), (2, "b(); "), (9, "#[cfg(testing)]")]);
    assert!(
        file.is_test() && has_word("an_env:: env::x", "env::") && !has_word("an_env:: unsafe_code", "env::")
    );
    assert!(matches("src/*|crates/a/*.rs", "crates/a/src/b.rs") && !matches("*/a|src/*.rs", "b/ab/src/c.rs"));
}
