//! `system.yaml`, the documents and `src/` must not disagree.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used
)]

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::Visit;

#[derive(Deserialize)]
struct System {
    actors: Vec<Named>,
    components: Vec<Component>,
    edges: Vec<Edge>,
    flows: Vec<Flow>,
    views: Vec<View>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    description: String,
}

#[derive(Deserialize)]
struct Component {
    name: String,
    description: String,
    files: Vec<String>,
}

#[derive(Deserialize)]
struct Edge {
    from: String,
    to: String,
    kind: String,
}

#[derive(Deserialize)]
struct Flow {
    name: String,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    from: String,
    to: String,
    what: String,
}

#[derive(Deserialize)]
struct View {
    name: String,
    places: Vec<Place>,
}

#[derive(Deserialize)]
struct Place {
    name: String,
    components: Vec<String>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn system() -> System {
    serde_saphyr::from_str(&fs::read_to_string(root().join("system.yaml")).unwrap()).unwrap()
}

/// All files below a folder of the repository, by their path from its root.
fn files(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned()),
            }
        }
    }
    found.sort();
    found
}

/// The component of each file of `src/`.
fn components_of_files() -> BTreeMap<String, String> {
    let system = system();
    let mut owners = BTreeMap::new();
    for file in files("src") {
        let owns = |listed: &String| *listed == file || listed.ends_with('/') && file.starts_with(listed.as_str());
        let owning: Vec<_> = system.components.iter().filter(|component| component.files.iter().any(owns)).collect();
        assert_eq!(owning.len(), 1, "{file} belongs to {} components", owning.len());
        owners.insert(file, owning[0].name.clone());
    }
    owners
}

#[test]
fn every_file_belongs_to_one_component_and_every_listed_file_exists() {
    components_of_files();
    for component in system().components {
        assert!(!component.description.is_empty() && !component.files.is_empty(), "{}", component.name);
        for file in component.files {
            assert!(root().join(&file).exists(), "{} lists {file}", component.name);
        }
    }
}

/// Paths that a file names, outside of its tests.
#[derive(Default)]
struct Paths(Vec<Vec<String>>);

impl Paths {
    fn tree(&mut self, prefix: &[String], tree: &syn::UseTree) {
        let mut path = prefix.to_vec();
        match tree {
            syn::UseTree::Path(inner) => {
                path.push(inner.ident.to_string());
                self.tree(&path, &inner.tree);
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.tree(prefix, item)),
            syn::UseTree::Name(name) => {
                path.push(name.ident.to_string());
                self.0.push(path);
            }
            syn::UseTree::Rename(name) => {
                path.push(name.ident.to_string());
                self.0.push(path);
            }
            syn::UseTree::Glob(_) => self.0.push(path),
        }
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.tree(&[], &item.tree);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let test = item.attrs.iter().any(|attribute| {
            attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Ident>().is_ok_and(|ident| ident == "test")
        });
        if !test {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.0.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        syn::visit::visit_path(self, path);
    }
}

/// `src/a/b.rs` -> `["a", "b"]`
fn module_of(file: &str) -> Vec<String> {
    let inner = file.strip_prefix("src/").unwrap().strip_suffix(".rs").unwrap();
    inner.split('/').filter(|part| *part != "mod" && *part != "lib").map(str::to_owned).collect()
}

/// The file that a path leads to: that of the longest part of it that is a module.
fn file_of(module: &[String], path: &[String], modules: &BTreeMap<Vec<String>, String>) -> Option<String> {
    let mut place = match path.first().map(String::as_str) {
        Some("crate") => Vec::new(),
        Some("super" | "self") => module.to_vec(),
        Some(first) => {
            // A child module, or something from outside.
            let mut child = module.to_vec();
            child.push(first.to_owned());
            return modules.get(&child).cloned();
        }
        None => return None,
    };
    let mut rest = path;
    while let Some((first, others)) = rest.split_first() {
        match first.as_str() {
            "crate" | "self" => {}
            "super" => {
                place.pop();
            }
            _ => break,
        }
        rest = others;
    }
    place.extend(rest.iter().cloned());
    while !modules.contains_key(&place) {
        place.pop()?;
    }
    modules.get(&place).cloned()
}

/// Every edge that `src/` makes, with one place where it does.
fn uses() -> BTreeMap<(String, String), String> {
    let owners = components_of_files();
    let modules: BTreeMap<Vec<String>, String> =
        owners.keys().filter(|file| file.ends_with(".rs")).map(|file| (module_of(file), file.clone())).collect();
    let mut edges = BTreeMap::new();
    for (module, file) in &modules {
        let mut paths = Paths::default();
        paths.visit_file(&syn::parse_file(&fs::read_to_string(root().join(file)).unwrap()).unwrap());
        for path in paths.0 {
            let Some(target) = file_of(module, &path, &modules) else {
                continue;
            };
            let (from, to) = (&owners[file], &owners[&target]);
            if from != to && target != "src/lib.rs" {
                edges.entry((from.clone(), to.clone())).or_insert(format!("{file}: {}", path.join("::")));
            }
        }
    }
    edges
}

#[test]
fn every_use_is_an_edge_and_every_edge_a_use() {
    let uses = uses();
    let system = system();
    let drawn: BTreeSet<_> = system.edges.iter().map(|edge| (edge.from.clone(), edge.to.clone())).collect();
    assert_eq!(drawn.len(), system.edges.len(), "an edge is drawn twice");
    // The module files that only declare their children draw nothing.
    for (edge, place) in &uses {
        assert!(drawn.contains(edge), "{} -> {} is no edge, but {place}", edge.0, edge.1);
    }
    let rust: BTreeSet<_> =
        components_of_files().into_iter().filter(|(file, _)| file.ends_with(".rs")).map(|(_, name)| name).collect();
    for edge in drawn.iter().filter(|(from, to)| rust.contains(from) && rust.contains(to)) {
        assert!(uses.contains_key(edge), "{} -> {} is drawn, but nothing uses it", edge.0, edge.1);
    }
    let instance = fs::read_to_string(root().join("src/shell/instance.mjs")).unwrap();
    assert!(
        instance.contains("from \"#built\""),
        "shell -> mcp-server is drawn, but nothing there imports what is built"
    );
}

#[test]
fn arrows_go_down_only() {
    let uses = uses();
    let mut open: BTreeSet<&String> = uses.keys().flat_map(|(from, to)| [from, to]).collect();
    while !open.is_empty() {
        let free: Vec<_> = open
            .iter()
            .copied()
            .filter(|name| !uses.keys().any(|(from, to)| to == *name && open.contains(from)))
            .collect();
        assert!(!free.is_empty(), "a circle among {open:?}");
        free.iter().for_each(|name| {
            open.remove(name);
        });
    }
}

#[test]
fn every_step_of_a_flow_goes_along_an_edge_and_every_name_is_known() {
    let system = system();
    let names: BTreeSet<_> = system
        .actors
        .iter()
        .map(|actor| {
            assert!(!actor.description.is_empty());
            &actor.name
        })
        .chain(system.components.iter().map(|component| &component.name))
        .collect();
    for edge in &system.edges {
        assert!(names.contains(&edge.from) && names.contains(&edge.to), "{} -> {}", edge.from, edge.to);
        assert!(["http", "import", "call", "rpc"].contains(&edge.kind.as_str()), "{}", edge.kind);
    }
    for flow in &system.flows {
        assert!(!flow.steps.is_empty());
        for step in &flow.steps {
            let along = system.edges.iter().any(|edge| edge.from == step.from && edge.to == step.to);
            assert!(along && !step.what.is_empty(), "{}: {} -> {} is no edge", flow.name, step.from, step.to);
        }
    }
    let flows: Vec<_> = system.flows.iter().map(|flow| flow.name.as_str()).collect();
    assert_eq!(flows, ["tool-call", "rate-limited-call", "gateway-call"]);
    let rpc = |edge: &Edge| edge.from == "mcp-server" && edge.to == "rate-limiter" && edge.kind == "rpc";
    assert!(system.edges.iter().any(rpc));
    let runtime = system.views.iter().find(|view| view.name == "runtime").unwrap();
    for place in &runtime.places {
        assert!(place.components.iter().all(|name| names.contains(name)), "{}", place.name);
    }
}

/// A pure room can be tested natively and moved anywhere: it doesn't know the platform.
#[test]
fn the_pure_rooms_do_not_name_the_platform() {
    // A tool may well call out.
    let platform = [
        "src/lib.rs",
        "src/door/",
        "src/platform/",
        "src/limiter/admit.rs",
        "src/limiter/ask.rs",
        "src/upstream/client.rs",
        "src/upstream/listing.rs",
        "src/upstream/patience.rs",
        "src/upstream/relay.rs",
        "src/upstream/shared_cache.rs",
    ];
    let pure = ["src/door/head.rs", "src/door/media.rs", "src/door/gateway/judge.rs", "src/platform/step.rs"];
    let more = ["src/stats/flow.rs", "src/tools/", "src/caller/identify.rs", "src/caller/keys.rs"];
    for file in files("src").iter().filter(|file| file.ends_with(".rs")) {
        if platform.iter().chain(&more).any(|free| file.starts_with(free)) && !pure.contains(&file.as_str()) {
            continue;
        }
        let text = fs::read_to_string(root().join(file)).unwrap();
        assert!(!text.contains("worker::") && !text.contains("wasm_bindgen"), "{file} names the platform");
        assert!(!text.contains("SystemTime") && !text.contains("Instant::now"), "{file} reads a clock");
    }
}

#[test]
fn no_file_holds_more_than_one_concept_can_need() {
    for file in files("src") {
        let lines = fs::read_to_string(root().join(&file)).unwrap().lines().count();
        assert!(lines <= 350, "{file} has {lines} lines");
    }
}

/// The pages of the repository that are written for people.
fn pages() -> Vec<String> {
    let markdown = |file: &String| file.ends_with(".md");
    ["README.md".to_owned()].into_iter().chain(files("docs")).chain(files("decisions")).filter(markdown).collect()
}

/// GitHub's anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn headings(text: &str) -> Vec<&str> {
    let mut in_code = false;
    let outside = |line: &&str| {
        in_code ^= line.starts_with("```");
        !in_code && line.starts_with('#')
    };
    text.lines().filter(outside).map(|line| line.trim_start_matches('#')).collect()
}

#[test]
fn no_link_is_dead() {
    for page in pages() {
        let text = fs::read_to_string(root().join(&page)).unwrap();
        for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => PathBuf::from(&page),
                path => Path::new(&page).parent().unwrap().join(path),
            };
            assert!(root().join(&target).exists(), "{page} links to {link}");
            if !fragment.is_empty() {
                let text = fs::read_to_string(root().join(&target)).unwrap();
                assert!(
                    headings(&text).into_iter().any(|heading| anchor(heading) == fragment),
                    "{page} links to {link}"
                );
            }
        }
    }
}

#[test]
fn every_decision_has_its_four_parts() {
    for page in files("decisions") {
        let text = fs::read_to_string(root().join(&page)).unwrap();
        let number = &page["decisions/".len()..][..4];
        assert!(text.starts_with(&format!("# {number} ")), "{page} begins with its number");
        for part in ["## Context", "## Decision", "## Consequence", "## What would undo it"] {
            assert!(text.contains(part), "{page} has no {part:?}");
        }
    }
}

/// `MCP_` names of a text.
fn variables(text: &str) -> BTreeSet<String> {
    let inner = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    text.split(|c: char| !inner(c))
        .filter(|word| word.starts_with("MCP_") && word.len() > 4)
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_readme_lists_the_variables_that_are_read_with_the_defaults_that_hold() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let rows: BTreeMap<String, String> = readme
        .lines()
        .filter_map(|line| line.strip_prefix("| `MCP_"))
        .map(|row| {
            let (name, rest) = row.split_once('`').unwrap();
            (format!("MCP_{name}"), rest.split('|').nth(1).unwrap().trim().trim_matches('`').to_owned())
        })
        .collect();
    let read: BTreeSet<String> = sluice::config::NAMES.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(rows.keys().cloned().collect::<BTreeSet<_>>(), read);
    // What wrangler.toml sets is what holds without it, so that either can be left out.
    let wrangler = fs::read_to_string(root().join("wrangler.toml")).unwrap();
    let set = wrangler.lines().filter_map(|line| line.split_once(" = ")).filter(|(name, _)| name.starts_with("MCP_"));
    for (name, value) in set {
        assert_eq!(rows[name], value, "{name} in README.md and in wrangler.toml");
    }
    let mut given = serde_json::Map::new();
    for (name, default) in rows.iter().filter(|(_, default)| !default.is_empty()) {
        given.insert(name.clone(), serde_json::from_str(default).unwrap_or_else(|_| panic!("{name}: {default}")));
    }
    let parse = |given| sluice::config::parse(given, &sluice::tools::defaults()).unwrap();
    assert_eq!(parse(&given), parse(&serde_json::Map::new()), "the README's defaults are the defaults");
}

#[test]
fn no_page_names_a_variable_that_isnt_read() {
    let read: BTreeSet<String> = sluice::config::NAMES.iter().map(|name| (*name).to_owned()).collect();
    for page in pages() {
        let text = fs::read_to_string(root().join(&page)).unwrap();
        let strange: Vec<_> = variables(&text).difference(&read).cloned().collect();
        assert!(strange.is_empty(), "{page} names {strange:?}");
    }
}

/// Rust and the shell name each other's functions, and no compiler sees both.
#[test]
fn what_rust_asks_of_the_shell_is_there_and_nothing_else() {
    let read = |file: &str| fs::read_to_string(root().join(file)).unwrap();
    let mut asked = BTreeSet::new();
    for file in files("src").iter().filter(|file| file.ends_with(".rs")) {
        let text = read(file);
        for import in text.split("js_namespace = __sluice").skip(1) {
            let name = match import.split_once("js_name = ").filter(|(before, _)| !before.contains(']')) {
                Some((_, rest)) => rest,
                None => import.split_once("fn ").unwrap().1,
            };
            let end = name.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap();
            asked.insert(name[..end].to_owned());
        }
    }
    let shell = read("src/shell/imports.mjs");
    let (_, given) = shell.split_once("globalThis.__sluice = {").unwrap();
    let given: BTreeSet<_> = given.split_once('}').unwrap().0.split(',').map(|name| name.trim().to_owned()).collect();
    assert_eq!(asked, given);
}

/// A guard whose patch doesn't apply guards nothing: each stretch that it changes stands in its file as the patch has it.
#[test]
fn every_guard_that_is_taken_away_is_there() {
    for patch in files("test/guards") {
        let text = fs::read_to_string(root().join(&patch)).unwrap();
        assert!(text.contains("\n--- a/"), "{patch} names no file");
        for section in text.split("\n--- a/").skip(1) {
            let file = fs::read_to_string(root().join(section.lines().next().unwrap())).unwrap();
            assert!(section.contains("\n@@ "), "{patch} changes nothing");
            for stretch in section.split("\n@@ ").skip(1) {
                let lines = stretch.lines().skip(1).filter(|line| !line.starts_with('+'));
                let before: String = lines.map(|line| format!("{}\n", line.get(1..).unwrap_or_default())).collect();
                assert!(file.contains(&before), "{patch} doesn't apply:\n{before}");
            }
        }
    }
}
