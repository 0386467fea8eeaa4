//! Reads the modules of one build target, and the paths that each file names, with `syn`.
//!
//! Inline modules belong to the file that contains them. Paths inside macro calls and attributes
//! are read, too, and strings of attributes that are paths, as serde takes them. Method calls are
//! not read, since they name no path. Start from [`Modules::read`].

use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};
use syn::{
    Attribute, Expr, File, Item, ItemExternCrate, ItemMod, ItemUse, Lit, Macro, Meta, UseTree,
    Visibility,
};

/// Segments of a path, and the line where the path begins. The first segment of `::a` is empty.
pub(crate) type Named = (Vec<String>, usize);

/// A module: a file, or an inline module of a file.
#[derive(Default)]
pub(crate) struct Module {
    pub(crate) file: String,
    pub(crate) parent: Option<usize>,
    pub(crate) children: BTreeMap<String, usize>,
    /// Names of the items that the module defines.
    pub(crate) items: BTreeSet<String>,
    /// Names imported with `use`, each with its full path.
    pub(crate) imports: BTreeMap<String, Vec<String>>,
    /// Paths of glob imports (`use …::*`).
    pub(crate) globs: Vec<Vec<String>>,
    /// All paths that the module names.
    pub(crate) paths: Vec<Named>,
}

/// The modules of a target; the first is the root module.
#[derive(Default)]
pub(crate) struct Modules {
    pub(crate) all: Vec<Module>,
}

impl Modules {
    /// Reads a target from its root file; `text` returns the content of a file, if it exists.
    pub(crate) fn read(root: &str, text: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut modules = Self::default();
        modules.read_file(root, None, folder(root), text);
        modules
    }

    /// Reads a file and its child modules, whose files are in `children_folder`.
    fn read_file(
        &mut self,
        path: &str,
        parent: Option<usize>,
        children_folder: &str,
        text: &dyn Fn(&str) -> Option<String>,
    ) -> Option<usize> {
        let file: File = syn::parse_file(&text(path)?).unwrap_or_else(|e| panic!("{path}: {e}"));
        let module = self.add(path, parent);
        let mut reader = Reader {
            modules: self,
            module,
            folder: children_folder.to_owned(),
            is_inline: false,
            text,
        };
        reader.add_items(&file.items);
        reader.visit_file(&file);
        Some(module)
    }

    /// Adds an empty module; returns its index.
    fn add(&mut self, file: &str, parent: Option<usize>) -> usize {
        self.all.push(Module { file: file.to_owned(), parent, ..Module::default() });
        self.all.len() - 1
    }
}

/// Visitor that records the items and paths of one module.
struct Reader<'a> {
    modules: &'a mut Modules,
    module: usize,
    /// Folder with the files of child modules.
    folder: String,
    /// Whether the module is an inline module.
    is_inline: bool,
    text: &'a dyn Fn(&str) -> Option<String>,
}

impl Reader<'_> {
    fn current(&mut self) -> &mut Module {
        &mut self.modules.all[self.module]
    }

    /// Records the names of items.
    fn add_items(&mut self, items: &[Item]) {
        let names = items.iter().filter_map(|item| {
            Some(match item {
                Item::Const(item) => &item.ident,
                Item::Enum(item) => &item.ident,
                Item::Fn(item) => &item.sig.ident,
                Item::Macro(item) => item.ident.as_ref()?,
                Item::Static(item) => &item.ident,
                Item::Struct(item) => &item.ident,
                Item::Trait(item) => &item.ident,
                Item::Type(item) => &item.ident,
                Item::Union(item) => &item.ident,
                _ => return None,
            })
        });
        let names: Vec<String> = names.map(ToString::to_string).collect();
        self.current().items.extend(names);
    }

    /// Records the imports of a `use` tree; `before` is the path of its parent.
    fn read_use_tree(&mut self, tree: &UseTree, before: &[String]) {
        let with = |name: String| [before, &[name]].concat();
        let (path, name) = match tree {
            UseTree::Path(path) => {
                return self.read_use_tree(&path.tree, &with(path.ident.to_string()));
            }
            UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.read_use_tree(tree, before));
            }
            UseTree::Glob(glob) => {
                let line = glob.star_token.spans[0].start().line;
                self.current().globs.push(before.to_vec());
                return self.current().paths.push((before.to_vec(), line));
            }
            UseTree::Name(name) if name.ident == "self" => (before.to_vec(), before.last()),
            UseTree::Name(name) => (with(name.ident.to_string()), None),
            UseTree::Rename(name) if name.ident == "self" => (before.to_vec(), None),
            UseTree::Rename(name) => (with(name.ident.to_string()), None),
        };
        let (name, line) = match (tree, name) {
            (UseTree::Rename(rename), _) => (rename.rename.to_string(), rename.rename.span()),
            (UseTree::Name(own), Some(name)) => (name.clone(), own.ident.span()),
            (UseTree::Name(own), None) => (own.ident.to_string(), own.ident.span()),
            _ => return,
        };
        self.current().imports.insert(name, path.clone());
        self.current().paths.push((path, line.start().line));
    }

    /// Finds paths such as `a::b::c` among the tokens of a macro call.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = vec![];
        let (mut line, mut colons) = (0, 0);
        let end_path = |path: &mut Vec<String>, line: usize, reader: &mut Self| {
            if path.len() > 1 {
                reader.current().paths.push((path.clone(), line));
            }
            path.clear();
        };
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        end_path(&mut path, line, self);
                    }
                    line = ident.span().start().line;
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    end_path(&mut path, line, self);
                    self.read_tokens(group.stream());
                    colons = 0;
                }
                _ => {
                    end_path(&mut path, line, self);
                    colons = 0;
                }
            }
        }
        end_path(&mut path, line, self);
    }

    /// Finds strings that are paths among the tokens of an attribute, such as
    /// `with = "crate::json"`.
    fn read_strings(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.read_strings(group.stream()),
                TokenTree::Literal(literal) => {
                    if let Lit::Str(text) = Lit::new(literal)
                        && let Ok(path) = text.parse::<syn::Path>()
                    {
                        self.visit_path(&path);
                    }
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let name = item.ident.to_string();
        let parent = self.module;
        let (file, is_inline) = (self.current().file.clone(), self.is_inline);
        let child_folder = format!("{}/{name}", self.folder);
        if let Some((_, items)) = &item.content {
            let module = self.modules.add(&file, Some(parent));
            self.current().children.insert(name, module);
            let previous =
                (self.module, std::mem::replace(&mut self.folder, child_folder), is_inline);
            (self.module, self.is_inline) = (module, true);
            self.add_items(items);
            items.iter().for_each(|item| self.visit_item(item));
            (self.module, self.folder, self.is_inline) = previous;
            return;
        }
        let path_value = item.attrs.iter().find_map(path_attribute);
        let candidates = match path_value {
            Some(value) => {
                let from = if is_inline { &self.folder } else { folder(&file) };
                let path = normalized(&format!("{from}/{value}"));
                let children_folder = folder(&path).to_owned();
                vec![(path, children_folder)]
            }
            None => {
                vec![
                    (format!("{child_folder}.rs"), child_folder.clone()),
                    (format!("{child_folder}/mod.rs"), child_folder),
                ]
            }
        };
        let text = self.text;
        let found = candidates.iter().find_map(|(path, children_folder)| {
            self.modules.read_file(path, Some(parent), children_folder, text)
        });
        if let Some(module) = found {
            self.current().children.insert(name, module);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let before = item.leading_colon.as_ref().map(|_| vec![String::new()]).unwrap_or_default();
        self.read_use_tree(&item.tree, &before);
    }

    fn visit_item_extern_crate(&mut self, item: &'ast ItemExternCrate) {
        let (name, line) = (item.ident.to_string(), item.ident.span().start().line);
        self.current().paths.push((vec![String::new(), name], line));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if let (true, Some(first)) = (path.segments.len() > 1, path.segments.first()) {
            let line = first.ident.span().start().line;
            let names = path.segments.iter().map(|segment| segment.ident.to_string());
            let before = path.leading_colon.as_ref().map(|_| String::new());
            self.current().paths.push((before.into_iter().chain(names).collect(), line));
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.read_tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    /// Skips the path of `pub(in crate::a)`, which is no dependency.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    /// Reads an attribute; comments are attributes with the name `doc`.
    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.read_tokens(list.tokens.clone());
            self.read_strings(list.tokens.clone());
        }
        if !attribute.path().is_ident("doc") {
            visit::visit_attribute(self, attribute);
        }
    }
}

fn path_attribute(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    let Expr::Lit(literal) = &pair.value else { return None };
    match &literal.lit {
        Lit::Str(text) if pair.path.is_ident("path") => Some(text.value()),
        _ => None,
    }
}

/// Returns the folder of a file.
fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Returns a path with `..` resolved.
fn normalized(path: &str) -> String {
    let mut parts: Vec<&str> = vec![];
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}
