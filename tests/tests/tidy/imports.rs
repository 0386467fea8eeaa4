//! Dependencies between the files of one build target.
//!
//! A file depends on the files that define the items that it names, in `use` or with a path. A
//! re-exported item counts as an item of the file that defines it, not of the file that re-exports
//! it. The declaration of a child module is no dependency.

use crate::modules::Module;
use std::collections::BTreeMap;

/// Dependencies: map from a file to each file that it depends on, with the line of the first name.
pub(crate) type Edges = BTreeMap<String, BTreeMap<String, usize>>;

/// Resolution of a name in a module.
#[derive(Clone, Copy)]
enum Name {
    Module(usize),
    /// Defined in this module.
    Item(usize),
    /// Imported from another crate.
    External,
}

/// Finds definitions. Each name of each module is resolved once, since glob imports may be cyclic.
struct Names<'a> {
    modules: &'a [Module],
    resolved: BTreeMap<(usize, &'a str), Option<Name>>,
}

impl<'a> Names<'a> {
    /// Resolves a path in a module. Returns the module that defines the item, or `None` if another
    /// crate defines it.
    fn definition(&mut self, from: usize, path: &'a [String]) -> Option<usize> {
        let (mut at, mut rest) = (from, path);
        while let Some((first, others)) = rest.split_first() {
            at = match first.as_str() {
                "crate" => 0,
                "self" => at,
                "super" => self.modules[at].parent?,
                _ => break,
            };
            rest = others;
        }
        let mut is_in_crate = rest.len() < path.len();
        for name in rest {
            match self.lookup(at, name) {
                Some(Name::Module(module)) => at = module,
                Some(Name::Item(module)) => return Some(module),
                Some(Name::External) => return None,
                // A macro defines the item.
                None if is_in_crate => return Some(at),
                None => return None,
            }
            is_in_crate = true;
        }
        Some(at)
    }

    /// Resolves a name in a module; returns `None` if the name is unknown.
    fn lookup(&mut self, module: usize, name: &'a str) -> Option<Name> {
        if let Some(resolved) = self.resolved.get(&(module, name)) {
            return *resolved;
        }
        self.resolved.insert((module, name), None); // the result of a cycle of glob imports
        let here = &self.modules[module];
        let found = if let Some(child) = here.children.get(name) {
            Some(Name::Module(*child))
        } else if here.items.contains(name) {
            Some(Name::Item(module))
        } else if let Some(path) = here.imports.get(name) {
            Some(self.imported(module, path, name).unwrap_or(Name::External))
        } else {
            here.globs.iter().find_map(|glob| {
                let from = self.definition(module, glob)?;
                if from == module { None } else { self.lookup(from, name) }
            })
        };
        self.resolved.insert((module, name), found);
        found
    }

    /// Resolves an import of a module.
    fn imported(&mut self, module: usize, path: &'a [String], name: &str) -> Option<Name> {
        let (last, before) = path.split_last()?;
        if matches!(last.as_str(), "crate" | "self" | "super") {
            return Some(Name::Module(self.definition(module, path)?));
        }
        if before.is_empty() && last == name {
            return None; // `use serde;`
        }
        let from = if before.is_empty() { module } else { self.definition(module, before)? };
        self.lookup(from, last)
    }
}

/// Returns the dependencies between the files of a target.
pub(crate) fn edges(modules: &[Module]) -> Edges {
    let mut names = Names { modules, resolved: BTreeMap::new() };
    let mut edges = Edges::new();
    for (number, module) in modules.iter().enumerate() {
        for (path, line) in &module.paths {
            let Some(definition) = names.definition(number, path) else { continue };
            let needed = &modules[definition].file;
            if *needed != module.file {
                let lines = edges.entry(module.file.clone()).or_default();
                lines.entry(needed.clone()).or_insert(*line);
            }
        }
    }
    edges
}
