//! No circle of files: what a file imports lies below it.
//!
//! Two files may name each other, such as a module and a part of it; three or more that do can only be understood
//! together. Names are followed through re-exports to the files that define them. Cargo holds the same between crates.

use crate::support::folder::Folder;
use proc_macro2::{TokenStream, TokenTree};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use syn::{
    Attribute, Item, UseTree,
    visit::{self, Visit},
};

/// The largest circle that is allowed.
const MAX_CIRCLE: usize = 2;

/// A module of a crate, inline ones included.
struct Module {
    parent: usize,
    file: usize,
    children: BTreeMap<String, usize>,
    definitions: BTreeSet<String>,
    imports: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    /// Everything that the module's code names by a path of at least two segments.
    paths: BTreeSet<Vec<String>>,
}

/// What a path leads to.
#[derive(Clone, Copy)]
enum Found {
    Module(usize),
    /// Something that a file defines.
    Item(usize),
}

#[derive(Default)]
struct Crate {
    files: Vec<PathBuf>,
    modules: Vec<Module>,
    /// Of each macro, what its calls define under names that its own text has, and the paths that they name.
    macros: BTreeMap<String, (BTreeSet<String>, BTreeSet<Vec<String>>)>,
    /// The macros that each module calls outside of functions.
    calls: Vec<(usize, String)>,
}

impl Crate {
    fn read(entry: &Path) -> Self {
        let mut read = Self::default();
        let items = read.open(entry);
        let folder = entry.parent().expect("a folder").to_owned();
        read.module(0, 0, &items, &folder);
        for (module, name) in std::mem::take(&mut read.calls) {
            let (defined, paths) = read.macros.get(&name).cloned().unwrap_or_default();
            read.modules[module].definitions.extend(defined);
            read.modules[module].paths.extend(paths);
        }
        read
    }

    fn open(&mut self, path: &Path) -> Vec<Item> {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        self.files.push(path.to_owned());
        syn::parse_file(&text).expect("valid Rust").items
    }

    /// Adds a module; its files lie in `folder`.
    fn module(&mut self, parent: usize, file: usize, items: &[Item], folder: &Path) -> usize {
        let number = self.modules.len();
        self.modules.push(Module {
            parent,
            file,
            children: BTreeMap::new(),
            definitions: BTreeSet::new(),
            imports: BTreeMap::new(),
            globs: Vec::new(),
            paths: BTreeSet::new(),
        });
        for item in items.iter().filter(|item| !is_test(item)) {
            match item {
                Item::Mod(module) => {
                    let name = module.ident.to_string();
                    let inner = folder.join(&name);
                    let child = match &module.content {
                        Some((_, items)) => self.module(number, file, items, &inner),
                        None => {
                            let flat = folder.join(format!("{name}.rs"));
                            let path = if flat.exists() { flat } else { inner.join("mod.rs") };
                            let items = self.open(&path);
                            self.module(number, self.files.len() - 1, &items, &inner)
                        }
                    };
                    self.modules[number].children.insert(name, child);
                }
                Item::Use(item) => self.modules[number].import(&item.tree, &mut Vec::new()),
                Item::Macro(item) if item.ident.is_some() => {
                    self.modules[number].definitions.extend(name(&Item::Macro(item.clone())));
                    self.define(item);
                }
                other => {
                    if let Item::Macro(item) = other {
                        self.call(number, item);
                    }
                    self.modules[number].definitions.extend(name(other));
                    let mut paths = Paths::default();
                    paths.visit_item(other);
                    self.modules[number].paths.append(&mut paths.found);
                }
            }
        }
        number
    }

    /// Remembers what calls of a macro define and name.
    fn define(&mut self, item: &syn::ItemMacro) {
        let (mut defined, mut paths) = (BTreeSet::new(), Paths::default());
        definitions(item.mac.tokens.clone(), &mut defined);
        paths.tokens(item.mac.tokens.clone());
        self.macros.insert(item.ident.iter().map(ToString::to_string).collect(), (defined, paths.found));
    }

    /// Remembers a call of a macro. Another macro may be passed to it, which it calls.
    fn call(&mut self, module: usize, item: &syn::ItemMacro) {
        let called = item.mac.path.segments.last().map(|segment| segment.ident.to_string());
        let passed = item.mac.tokens.clone().into_iter().filter_map(|token| match token {
            TokenTree::Ident(ident) => Some(ident.to_string()),
            _ => None,
        });
        self.calls.extend(called.into_iter().chain(passed).map(|name| (module, name)));
    }

    /// What a path that is written in a module leads to; nothing where that is another crate's.
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
        match here.imports.get(name) {
            // An import of this name from a crate of this name.
            Some(path) if path.first().is_some_and(|first| first == name) => None,
            Some(path) => self.resolve(module, path, depth),
            None => here.globs.iter().find_map(|glob| match self.resolve(module, glob, depth)? {
                Found::Module(other) => self.member(other, name, depth),
                Found::Item(_) => None,
            }),
        }
    }

    /// The files that each file names, with what it names there.
    fn arrows(&self) -> Vec<BTreeMap<usize, BTreeSet<&str>>> {
        let mut arrows = vec![BTreeMap::<_, BTreeSet<_>>::new(); self.files.len()];
        for (number, module) in self.modules.iter().enumerate() {
            for path in module.imports.values().chain(&module.paths) {
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
    fn import(&mut self, tree: &UseTree, path: &mut Vec<String>) {
        match tree {
            UseTree::Path(inner) => {
                path.push(inner.ident.to_string());
                self.import(&inner.tree, path);
                path.pop();
            }
            UseTree::Name(name) => self.add(&name.ident.to_string(), &name.ident.to_string(), path),
            UseTree::Rename(name) => self.add(&name.rename.to_string(), &name.ident.to_string(), path),
            UseTree::Glob(_) => self.globs.push(path.clone()),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree, path)),
        }
    }

    fn add(&mut self, name: &str, imported: &str, path: &[String]) {
        let mut path = path.to_vec();
        let name =
            if imported == "self" { path.last().cloned().unwrap_or_default() } else { name.to_owned() };
        if imported != "self" {
            path.push(imported.to_owned());
        }
        self.imports.insert(name, path);
    }
}

/// Paths of at least two segments, those inside of macros' arguments included.
#[derive(Default)]
struct Paths {
    found: BTreeSet<Vec<String>>,
}

impl Paths {
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.add(&mut path);
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.add(&mut path);
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.add(&mut path);
    }

    fn add(&mut self, path: &mut Vec<String>) {
        let path = std::mem::take(path);
        if path.len() > 1 {
            self.found.insert(path);
        }
    }
}

impl<'a> Visit<'a> for Paths {
    fn visit_path(&mut self, path: &'a syn::Path) {
        self.add(&mut path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        self.tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }
}

/// The names behind `enum`, `fn` and the like, at any depth. Names that a macro's call gives are no identifiers yet.
fn definitions(tokens: TokenStream, found: &mut BTreeSet<String>) {
    let mut defines = false;
    for token in tokens {
        match token {
            TokenTree::Ident(ident) if defines => {
                found.insert(ident.to_string());
                defines = false;
            }
            TokenTree::Ident(ident) => {
                let keywords = ["const", "enum", "fn", "static", "struct", "trait", "type"];
                defines = keywords.iter().any(|keyword| ident == keyword);
            }
            TokenTree::Group(group) => {
                definitions(group.stream(), found);
                defines = false;
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => defines = false,
        }
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn is_test(item: &Item) -> bool {
    attributes(item).iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "test")
    })
}

fn name(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// Sets of files each of which leads to all others.
fn circles(arrows: &[BTreeMap<usize, BTreeSet<&str>>]) -> Vec<Vec<usize>> {
    let reach = |from: usize| {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(file) = open.pop() {
            open.extend(arrows[file].keys().copied().filter(|next| reached.insert(*next)));
        }
        reached
    };
    let reached: Vec<BTreeSet<usize>> = (0..arrows.len()).map(reach).collect();
    let circle = |file: usize| {
        reached[file].iter().copied().filter(|other| reached[*other].contains(&file)).collect::<Vec<_>>()
    };
    (0..arrows.len())
        .map(circle)
        .filter(|files| files.len() > 1)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// The circles of a crate that are too large, with what ties each.
fn knots(entry: &Path, root: &Path) -> String {
    let read = Crate::read(entry);
    let arrows = read.arrows();
    let name =
        |file: usize| read.files[file].strip_prefix(root).expect("below the root").display().to_string();
    let mut text = String::new();
    for circle in circles(&arrows).into_iter().filter(|circle| circle.len() > MAX_CIRCLE) {
        writeln!(text, "{} files import each other:", circle.len()).expect("memory");
        for &from in &circle {
            for (&to, named) in arrows[from].iter().filter(|(to, _)| circle.contains(to)) {
                let named = named.iter().copied().collect::<Vec<_>>().join(", ");
                writeln!(text, "  {} -> {}: {named}", name(from), name(to)).expect("memory");
            }
        }
    }
    text
}

/// The entries of all crates of the workspace.
fn entries(root: &Path) -> Vec<PathBuf> {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline", "--manifest-path"])
        .arg(root.join("Cargo.toml"))
        .output()
        .expect("cargo starts");
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages").iter();
    let targets = packages.flat_map(|package| package["targets"].as_array().expect("targets"));
    let paths = targets.filter_map(|target| Some(PathBuf::from(target["src_path"].as_str()?)));
    paths.filter(|path| path.ends_with("src/lib.rs") || path.ends_with("src/main.rs")).collect()
}

#[test]
fn no_circle_of_files_is_larger_than_two() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let entries = entries(root);
    assert!(entries.len() > 10, "{entries:?}");
    let knots: String = entries.iter().map(|entry| knots(entry, root)).collect();
    assert!(knots.is_empty(), "{knots}");
}

#[test]
fn circles_are_found() {
    let folder = Folder::new("layers");
    fs::create_dir_all(folder.join("src/b")).expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.join("src").join(name), text).expect("a file");
    write("lib.rs", "mod a; mod b; pub use a::A; #[cfg(test)] mod tests { use crate::b::c::C; }");
    write("a.rs", "pub struct A; fn f() -> String { format!(\"{}\", crate::b::c::C) }");
    write("b/mod.rs", "pub mod c; pub use c::C; pub struct B;");
    write("b/c.rs", "use super::C as Own; pub struct C; fn f(_: crate::A) {}");
    let found = knots(&folder.join("src/lib.rs"), &folder);
    assert_eq!(found, "", "a names c by a macro, and c names a by a re-export: two");
    write("b/c.rs", "use super::B; pub struct C; fn f(_: crate::A) {}");
    let found = knots(&folder.join("src/lib.rs"), &folder);
    assert!(found.starts_with("3 files import each other:\n  src/a.rs -> src/b/c.rs: C\n"), "{found}");
    write(
        "a.rs",
        "macro_rules! list { ($with:ident) => { $with! { A } }; } \
         macro_rules! define { ($name:ident) => { pub struct $name; pub enum Found {} }; } \
         list!(define); fn f(_: crate::b::c::C) {}",
    );
    write("b/c.rs", "use super::B; pub struct C; fn f(_: crate::a::Found) {}");
    let found = knots(&folder.join("src/lib.rs"), &folder);
    assert!(found.contains("src/b/c.rs -> src/a.rs: Found\n"), "a macro defines it: {found}");
}
