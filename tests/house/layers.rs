//! The order of files: a file's imports are below it. Two files may import each other, such as a module and its part; three or
//! more could only be understood together. Names are followed through re-exports to the defining files. Cargo ensures the same
//! between crates.

use crate::{
    repository::{ROOT, files, none},
    tokens::{self, is_punct, without_tests},
};
use proc_macro2::{Spacing, TokenStream, TokenTree};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};
use testkit::folder::Folder;

const MAX_CIRCLE: usize = 2;

/// Modules of `rules`, lowest layer first; each may use its own layer and lower ones.
const RULES: [&str; 13] = [
    "finding hook intervals",
    "name net number version",
    "field matches report routing target",
    "model",
    "ownership",
    "listed",
    "check state",
    "inheritance",
    "bridge listing nft",
    "desired",
    APART,
    "saved",
    "lib",
];

/// Modules that must not use each other, except that `drift` uses `plan` and `render` uses `simulate`.
const APART: &str = "render parse plan drift simulate";

const APART_EXCEPT: [(&str, &str); 2] = [("drift", "plan"), ("render", "simulate")];

const LIBRARY: [&str; 5] = ["events", "backend", "engine", "observe", "lib"];

/// True if the layers let `module` use `used`; modules without a layer may use nothing.
fn may_use(layers: &[&str], module: &str, used: &str) -> bool {
    let has = |layer: &str, name| layer.split(' ').any(|known| known == name);
    let layer = |name| layers.iter().position(|layer| has(layer, name));
    let are_apart = module != used && has(APART, module) && has(APART, used);
    layer(used).is_some_and(|other| layer(module).is_some_and(|own| other <= own))
        && (!are_apart || APART_EXCEPT.contains(&(module, used)))
}

/// A path in code, and its local name; `*` for a glob.
struct Named {
    path: Vec<String>,
    name: String,
}

#[derive(Default)]
struct Module {
    parent: usize,
    file: usize,
    children: BTreeMap<String, usize>,
    definitions: BTreeSet<String>,
    imports: Vec<Named>,
    paths: BTreeSet<Vec<String>>,
}

#[derive(Clone, Copy)]
enum Found {
    Module(usize),
    Item(usize),
}

#[derive(Default)]
struct Crate {
    files: Vec<PathBuf>,
    modules: Vec<Module>,
    /// Body of each macro, which defines and names items at its calls.
    macros: BTreeMap<String, TokenStream>,
}

impl Crate {
    fn read(entry: &Path) -> Self {
        let mut read = Self::default();
        let tokens = read.open(entry);
        read.module(0, 0, tokens, entry.parent().expect("a folder"));
        for module in &mut read.modules {
            // A macro is called by name, or passed to another macro that calls it.
            let called = |path: &Vec<String>| read.macros.get(path.last()?).cloned();
            for text in module.paths.iter().filter_map(called).collect::<Vec<_>>() {
                definitions(text.clone(), &mut module.definitions);
                module.add_paths(text);
            }
        }
        read
    }

    fn open(&mut self, path: &Path) -> TokenStream {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        self.files.push(path.to_owned());
        tokens::read(&path.display().to_string(), &text)
    }

    fn module(&mut self, parent: usize, file: usize, tokens: TokenStream, folder: &Path) -> usize {
        let number = self.modules.len();
        self.modules.push(Module { parent, file, ..Module::default() });
        let mut tokens = without_tests(tokens, |_| ()).into_iter().peekable();
        let mut rest = Vec::new();
        while let Some(token) = tokens.next() {
            let word = token.to_string();
            match (word.as_str(), tokens.peek()) {
                ("mod", Some(TokenTree::Ident(name))) => {
                    let name = name.to_string();
                    let inner = folder.join(&name);
                    let child = match tokens.nth(1) {
                        Some(TokenTree::Group(group)) => self.module(number, file, group.stream(), &inner),
                        _ => {
                            let flat = folder.join(format!("{name}.rs"));
                            let path = if flat.exists() { flat } else { inner.join("mod.rs") };
                            let tokens = self.open(&path);
                            self.module(number, self.files.len() - 1, tokens, &inner)
                        }
                    };
                    self.modules[number].children.insert(name, child);
                }
                ("use", _) => {
                    let tree = tokens.by_ref().take_while(|next| !is_punct(next, ';')).collect();
                    named(tree, &[], &mut self.modules[number].imports);
                }
                ("macro_rules", _) => {
                    let name = tokens.nth(1).expect("a name").to_string();
                    self.modules[number].definitions.insert(name.clone());
                    self.macros.extend(tokens.next().map(|text| (name, text.into())));
                }
                _ => rest.push(token),
            }
        }
        // Definitions inside groups are not the module's.
        let items = rest.iter().filter(|token| !matches!(token, TokenTree::Group(_))).cloned();
        definitions(items.collect(), &mut self.modules[number].definitions);
        self.modules[number].add_paths(rest.into_iter().collect());
        number
    }

    /// Returns `None` for a path into another crate.
    fn resolve(&self, module: usize, path: &[String], depth: usize) -> Option<Found> {
        let (first, rest) = path.split_first()?;
        let here = &self.modules[module];
        let start = match first.as_str() {
            "crate" => Found::Module(0),
            "self" => Found::Module(module),
            "super" => Found::Module(here.parent),
            name => self.member(module, name, depth)?,
        };
        rest.iter().try_fold(start, |found, segment| match found {
            Found::Module(module) if segment == "super" => Some(Found::Module(self.modules[module].parent)),
            Found::Module(module) => self.member(module, segment, depth),
            item @ Found::Item(_) => Some(item),
        })
    }

    fn member(&self, module: usize, name: &str, depth: usize) -> Option<Found> {
        let here = &self.modules[module];
        if let Some(child) = here.children.get(name) {
            return Some(Found::Module(*child));
        }
        if here.definitions.contains(name) {
            return Some(Found::Item(here.file));
        }
        // A glob may import its own module through another.
        let depth = depth.checked_sub(1)?;
        match here.imports.iter().find(|import| import.name == name) {
            // An import of this name from a crate of this name.
            Some(import) if import.path.first().is_some_and(|first| first == name) => None,
            Some(import) => self.resolve(module, &import.path, depth),
            None => here.imports.iter().filter(|import| import.name == "*").find_map(|glob| {
                match self.resolve(module, &glob.path, depth)? {
                    Found::Module(other) => self.member(other, name, depth),
                    Found::Item(_) => None,
                }
            }),
        }
    }

    /// Files imported by each file, with the imported names.
    fn arrows(&self) -> Vec<BTreeMap<usize, BTreeSet<&str>>> {
        let mut arrows = vec![BTreeMap::<_, BTreeSet<_>>::new(); self.files.len()];
        for (number, module) in self.modules.iter().enumerate() {
            let imported =
                module.imports.iter().filter(|import| import.name != "*").map(|import| &import.path);
            for path in imported.chain(&module.paths) {
                if let Some(Found::Item(file)) = self.resolve(number, path, 8)
                    && file != module.file
                {
                    let named = path.last().expect("a segment");
                    arrows[module.file].entry(file).or_default().insert(named.as_str());
                }
            }
        }
        arrows
    }
}

impl Module {
    fn add_paths(&mut self, tokens: TokenStream) {
        let mut found = Vec::new();
        named(tokens, &[], &mut found);
        self.paths.extend(found.into_iter().map(|named| named.path));
    }
}

/// Collects paths in code and imports, whose groups in braces continue a path: `a::{b, c::d}`.
fn named(tokens: TokenStream, prefix: &[String], found: &mut Vec<Named>) {
    let mut tokens = without_tests(tokens, |_| ()).into_iter().peekable();
    while let Some(token) = tokens.next() {
        let first = match token {
            TokenTree::Ident(first) => first.to_string(),
            TokenTree::Group(group) => {
                named(group.stream(), &[], found);
                continue;
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => continue,
        };
        let mut path = [prefix, &[first]].concat();
        let mut is_glob = false;
        // The first of two colons is joined with the second.
        let is_joined = |next: &TokenTree| matches!(next, TokenTree::Punct(colon) if colon.as_char() == ':' && colon.spacing() == Spacing::Joint);
        while tokens.next_if(is_joined).is_some() {
            let continues = |next: &TokenTree| !is_punct(next, '<');
            match tokens.next().and_then(|_| tokens.next_if(continues)) {
                Some(TokenTree::Ident(next)) => path.push(next.to_string()),
                Some(TokenTree::Group(group)) => {
                    named(group.stream(), &path, found);
                    path.clear();
                }
                next => is_glob = next.is_some_and(|next| is_punct(&next, '*')),
            }
        }
        // `a::{self}` names `a`.
        let _ = path.pop_if(|last| last == "self" && !prefix.is_empty());
        let mut name = if is_glob { Some("*".to_owned()) } else { path.last().cloned() };
        // The name after `as` is read again, since in code it starts a path.
        if tokens.next_if(|next| next.to_string() == "as").is_some() {
            name = tokens.peek().map(ToString::to_string);
        }
        found.extend(name.filter(|_| !path.is_empty()).map(|name| Named { path, name }));
    }
}

/// Names after `enum`, `fn` and similar keywords, at any depth. Names given by a macro's call are not identifiers yet.
fn definitions(tokens: TokenStream, found: &mut BTreeSet<String>) {
    let mut defines = false;
    for token in tokens {
        let word = token.to_string();
        let is_keyword = matches!(&*word, "const" | "enum" | "fn" | "static" | "struct" | "trait" | "type");
        match token {
            TokenTree::Ident(_) if defines && !is_keyword => {
                found.insert(word);
            }
            TokenTree::Group(group) => definitions(group.stream(), found),
            _ => {}
        }
        defines = is_keyword;
    }
}

fn circles(arrows: &[BTreeMap<usize, BTreeSet<&str>>]) -> BTreeSet<Vec<usize>> {
    let reach = |from: usize| {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(file) = open.pop() {
            open.extend(arrows[file].keys().copied().filter(|next| reached.insert(*next)));
        }
        reached
    };
    let reached: Vec<BTreeSet<usize>> = (0..arrows.len()).map(reach).collect();
    let circle =
        |file: usize| reached[file].iter().copied().filter(|other| reached[*other].contains(&file)).collect();
    (0..arrows.len()).map(circle).collect()
}

/// A crate's overly large import cycles, with the names that tie them.
fn knots(entry: &Path, root: &Path) -> Vec<String> {
    let read = Crate::read(entry);
    let arrows = read.arrows();
    let name = |file: usize| read.files[file].strip_prefix(root).expect("below the root").display();
    let mut lines = Vec::new();
    for circle in circles(&arrows).into_iter().filter(|circle| circle.len() > MAX_CIRCLE) {
        lines.push(format!("{} files import each other:", circle.len()));
        for &from in &circle {
            for (&to, named) in arrows[from].iter().filter(|(to, _)| circle.contains(to)) {
                let named = named.iter().copied().collect::<Vec<_>>().join(", ");
                lines.push(format!("  {} -> {}: {named}", name(from), name(to)));
            }
        }
    }
    lines
}

#[test]
fn no_circle_of_files_is_larger_than_two() {
    let entries = files("src/lib.rs|src/main.rs|*/src/lib.rs|*/src/main.rs");
    assert!(entries.len() > 10, "only {} crates found", entries.len());
    let root = Path::new(ROOT);
    let found = entries.into_iter().flat_map(|entry| knots(&root.join(&entry.path), root));
    none(found, "move the tying items into a file below them");
}

#[test]
fn modules_use_only_lower_layers() {
    for (folder, layers) in [("rules/src", &RULES[..]), ("src", &LIBRARY)] {
        let folder = Path::new(ROOT).join(folder);
        let read = Crate::read(&folder.join("lib.rs"));
        let module = |file: usize| {
            let path = read.files[file].strip_prefix(&folder).expect("a file of the crate");
            path.iter().next().and_then(|first| first.to_str()).expect("UTF-8").trim_end_matches(".rs")
        };
        let mut found = Vec::new();
        for (from, uses) in read.arrows().iter().enumerate() {
            let wrong = uses.iter().filter(|(to, _)| !may_use(layers, module(from), module(**to)));
            let file = read.files[from].display();
            found.extend(wrong.map(|(to, named)| format!("{file}: {named:?} of {}", module(*to))));
        }
        none(
            found,
            "a module has a place in the layers of tests/house/layers.rs and uses only modules below",
        );
    }
    for (module, used) in [("field", "model"), ("plan", "drift"), ("parse", "elsewhere")] {
        assert!(!may_use(&RULES, module, used), "{module} uses {used}");
    }
    assert!(may_use(&RULES, "drift", "plan") && may_use(&RULES, "parse", "parse"));
}

#[test]
fn circles_are_found() {
    let folder = Folder::new("layers");
    fs::create_dir_all(folder.join("src/b")).expect("a folder");
    let knots = || knots(&folder.join("src/lib.rs"), &folder).join("\n");
    folder.write("src/lib.rs", "mod a; mod b; pub use a::A; #[cfg(test)] mod tests { use crate::b::c::C; }");
    folder.write("src/a.rs", "pub struct A; fn f() -> String { format!(\"{}\", crate::b::c::C) }");
    folder.write("src/b/mod.rs", "pub mod c; pub use c::{self as d, C}; pub struct B;");
    folder.write("src/b/c.rs", "use super::C as Own; pub struct C; fn f(_: crate::A) {}");
    assert_eq!(knots(), "", "a names c through a macro, and c names a through a re-export: two");
    folder.write("src/b/c.rs", "pub struct C; fn f(_: Vec::<crate::A>) { use super::{B, C}; }");
    let found = knots();
    assert!(found.starts_with("3 files import each other:\n  src/a.rs -> src/b/c.rs: C\n"), "{found}");
    folder.write(
        "src/a.rs",
        "macro_rules! list { ($with:ident) => { $with! { A } }; } \
         macro_rules! define { ($name:ident) => { pub struct $name; pub enum Found {} }; } \
         list!(define); fn f(_: crate::b::d::C) {}",
    );
    folder.write("src/b/c.rs", "use super::B; pub struct C; fn f(_: crate::a::Found) {}");
    let found = knots();
    assert!(found.contains("src/b/c.rs -> src/a.rs: Found"), "a macro defines it: {found}");
}
