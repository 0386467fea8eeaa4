//! Finds the paths that Rust code names; `use` trees are expanded to full paths.

/// Returns all paths of blanked code: `use a::{b, c::*};` gives `a::b` and `a::c::*`, and `d::e()`
/// gives `d::e`.
pub(crate) fn paths(code: &str) -> Vec<String> {
    let tokens = tokens(code);
    let mut found = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        match tokens[i] {
            // `use<'a>` is no import.
            "use" if tokens.get(i + 1) != Some(&"<") => {
                i = read_use_tree(&tokens, i + 1, "", &mut found)
            }
            "extern" if tokens.get(i + 1) == Some(&"crate") => {
                found.extend(tokens.get(i + 2).map(|name| (*name).to_owned()));
                i += 3;
            }
            token if is_identifier(token) => {
                let mut path = token.to_owned();
                while tokens.get(i + 1) == Some(&"::")
                    && tokens.get(i + 2).is_some_and(|t| is_identifier(t))
                {
                    path = format!("{path}::{}", tokens[i + 2]);
                    i += 2;
                }
                if path.contains("::") {
                    found.push(path);
                }
                i += 1;
            }
            _ => i += 1,
        }
    }
    found
}

/// Reads one branch of a `use` tree; returns the index of the token after it.
fn read_use_tree(tokens: &[&str], mut i: usize, prefix: &str, found: &mut Vec<String>) -> usize {
    let mut path = prefix.to_owned();
    while let Some(token) = tokens.get(i) {
        match *token {
            "::" => {}
            "{" => {
                i += 1;
                while tokens.get(i).is_some_and(|t| *t != "}" && *t != ";") {
                    i = read_use_tree(tokens, i, &path, found);
                    if tokens.get(i) == Some(&",") {
                        i += 1;
                    }
                }
                return i + 1;
            }
            "as" => i += 1, // skip the alias
            "self" if !path.is_empty() => {}
            name if is_identifier(name) || name == "*" => {
                path = if path.is_empty() { name.to_owned() } else { format!("{path}::{name}") };
            }
            _ => break,
        }
        i += 1;
    }
    found.push(path);
    i
}

fn tokens(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let identifier =
            rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let length = match identifier {
            0 if rest.starts_with("::") => 2,
            0 => first.len_utf8(),
            length => length,
        };
        let (token, after) = rest.split_at(length);
        found.push(token);
        rest = after.trim_start();
    }
    found
}

fn is_identifier(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

#[test]
fn use_trees_are_expanded_to_full_paths() {
    let check = |code: &str, expected: &[&str]| assert_eq!(paths(code), expected, "{code}");
    check("use a::b;", &["a::b"]);
    check(
        "pub use ::a::{self, b::{c, d as e}, f::*}; g::h();",
        &["a", "a::b::c", "a::b::d", "a::f::*", "g::h"],
    );
    check("use {a, b::c,};\nfn x(y: &z::Z) {}", &["a", "b::c", "z::Z"]);
    check("use a as b;", &["a"]);
    check("extern crate a; let b = ::std::c::d(e);", &["a", "std::c::d"]);
    check("fn f<'a>() -> impl T + use<'a> { a::b }", &["a::b"]);
}
