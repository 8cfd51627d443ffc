//! Files that import each other in a circle, listed.
//!
//! A file imports the file that declares a thing, also if it names the thing by another path, such
//! as `crate::Thing`. What a file imports from its own parents is no circle: a submodule is a part
//! of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use regex::Regex;

/// The circles, each with its reason. No other may appear; one that disappears leaves this list.
const CIRCLES: [(&str, &str); 4] = [
    // The pool's teams run on devices that hold the pool.
    ("crates/edbatch-cuda", "device team_pool"),
    // The planner plans distinct lifetimes by planning again.
    ("crates/edbatch-layout", "distinct planner"),
    // Classes of Python that return each other.
    ("crates/edbatch-python", "cell network operand record tensor values"),
    // A tree, its nodes, and the walks over them.
    ("crates/pqtree", "builder circular conflict count journal nodes text tree visits walk work"),
];

/// A module: its names from the crate's root.
type Module = Vec<String>;

/// The modules of a crate and what they import.
#[derive(Default)]
struct Imports {
    /// For each module: all paths in it from the crate's root.
    paths: BTreeMap<Module, Vec<Vec<String>>>,
    /// Names that a module re-exports, and their paths.
    again: BTreeMap<(Module, String), Vec<String>>,
}

impl Imports {
    /// Reads the sources of a crate: pairs of a file's path and its text.
    fn new<'t>(files: impl Iterator<Item = (&'t str, &'t str)>) -> Self {
        let files: BTreeMap<Module, String> = files
            .map(|(path, text)| {
                let names = path.trim_end_matches(".rs").split('/').map(String::from);
                (names.filter(|name| name != "lib" && name != "mod").collect(), code(text))
            })
            .collect();
        let (mut all, uses) =
            (Self::default(), Regex::new(r"(?m)^\s*(pub\S* )?use ([^;]+);").unwrap());
        let inline = Regex::new(r"\b(?:crate|super)(?:::\w+)+").unwrap();
        for (module, text) in &files {
            let mut paths = Vec::new();
            for found in uses.captures_iter(text) {
                for path in expanded(&found[2]) {
                    let Some(path) = absolute(module, &path, &files) else { continue };
                    if let (Some(_), Some(name)) = (found.get(1), path.last()) {
                        all.again.insert((module.clone(), name.clone()), path.clone());
                    }
                    paths.push(path);
                }
            }
            let text = uses.replace_all(text, "");
            let inline = inline.find_iter(&text);
            paths.extend(inline.filter_map(|path| absolute(module, path.as_str(), &files)));
            all.paths.insert(module.clone(), paths);
        }
        all
    }

    /// The module that declares what a path names.
    fn declaring(&self, path: &[String]) -> Module {
        let modules = (0..=path.len()).rev().map(|length| path.split_at(length));
        let (module, rest) = modules
            .into_iter()
            .find(|(module, _)| self.paths.contains_key(*module))
            .unwrap_or((&[], path));
        let again = rest.first().and_then(|name| self.again.get(&(module.into(), name.clone())));
        match again {
            Some(again) if again != path => self.declaring(&[again, &rest[1..]].concat()),
            _ => module.into(),
        }
    }

    /// The circles, each as the sorted names of its modules.
    fn circles(&self) -> Vec<String> {
        let names: Vec<&Module> = self.paths.keys().collect();
        let mut edges = Vec::new();
        for (from, (module, paths)) in self.paths.iter().enumerate() {
            for path in paths {
                let to = self.declaring(path);
                // A program without a library has no root.
                let Ok(to) = names.binary_search(&&to) else { continue };
                if !module.is_empty() && !module.starts_with(names[to]) {
                    edges.push((from as u32, to as u32));
                }
            }
        }
        let graph = DiGraph::<(), ()>::from_edges(edges);
        let circles = tarjan_scc(&graph).into_iter().filter(|circle| circle.len() > 1);
        let name = |module: NodeIndex| names[module.index()].join("/");
        let named = circles.map(|circle| circle.into_iter().map(name).collect::<BTreeSet<_>>());
        named.map(|circle| circle.into_iter().collect::<Vec<_>>().join(" ")).collect()
    }
}

/// The text without comments and unit tests.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The paths of a `use` with braces.
fn expanded(text: &str) -> Vec<String> {
    let Some((before, rest)) = text.split_once('{') else {
        let path = text.split(" as ").next().unwrap().trim();
        return if path.is_empty() { Vec::new() } else { vec![path.into()] };
    };
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for c in rest[..rest.rfind('}').unwrap()].chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        match c {
            ',' if depth == 0 => parts.push(String::new()),
            c => parts.last_mut().unwrap().push(c),
        }
    }
    let parts = parts.iter().flat_map(|part| expanded(part));
    parts.map(|part| format!("{}{part}", before.trim())).collect()
}

/// A path from the crate's root, or `None` for one of another crate.
fn absolute<T>(module: &Module, path: &str, files: &BTreeMap<Module, T>) -> Option<Vec<String>> {
    let mut names: Vec<String> = path.split("::").map(String::from).collect();
    let mut start = module.clone();
    match names[0].as_str() {
        "crate" => start.clear(),
        "self" => {}
        "super" => {
            start.pop();
        }
        _ => {
            start.push(names[0].clone());
            return files.contains_key(&start).then(|| [module.as_slice(), &names].concat());
        }
    }
    names.remove(0);
    while names.first().is_some_and(|name| name == "super") {
        start.pop();
        names.remove(0);
    }
    Some([start, names].concat())
}

#[test]
fn files_import_each_other_in_listed_circles_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let crates = fs::read_dir(root.join("crates")).unwrap();
    let crates = crates.map(|folder| format!("crates/{}", folder.unwrap().file_name().display()));
    let crates: BTreeSet<String> =
        crates.chain(["benches", "datasets", "xtask"].map(String::from)).collect();
    let mut found = Vec::new();
    for folder in &crates {
        let source = root.join(folder).join("src");
        let paths = crate::architecture::sources(&source);
        let inside = |path: &Path| path.strip_prefix(&source).unwrap().display().to_string();
        let files: Vec<(String, String)> = paths
            .iter()
            .map(|path| (inside(path), fs::read_to_string(path).unwrap()))
            .filter(|(path, _)| {
                !path.split('/').any(|part| part.trim_end_matches(".rs") == "tests")
            })
            .collect();
        let imports = Imports::new(files.iter().map(|(path, text)| (&**path, &**text)));
        found.extend(imports.circles().into_iter().map(|circle| (folder.clone(), circle)));
    }
    let listed = CIRCLES.map(|(folder, circle)| (folder.into(), circle.into()));
    assert_eq!(found, listed);
}

#[test]
fn circles_are_found_through_re_exports_and_not_to_parents() {
    let files = [
        ("lib.rs", "mod a;\nmod b;\npub use a::{deep::Deep, A};\n"),
        ("a.rs", "mod deep;\nuse super::b::B;\n// use crate::Gone;\n"),
        ("a/deep.rs", "use super::A;\nuse crate::a::Other;\n"),
        ("b.rs", "fn b(deep: &crate::Deep) {}\n#[cfg(test)]\nmod tests {\n    use crate::A;\n}\n"),
    ];
    assert_eq!(Imports::new(files.into_iter()).circles(), [] as [String; 0]);
    let mut circular = files;
    circular[2].1 = "use std::{fmt, io as other};\nuse crate::{b::{B as C}};\n";
    assert_eq!(Imports::new(circular.into_iter()).circles(), ["a/deep b"]);
}
