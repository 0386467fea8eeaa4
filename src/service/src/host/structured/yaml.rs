//! YAML to JSON values: one document, string keys, no merge keys.
//!
//! The parser is `serde-saphyr`; this file sets its limits, so that a small file with nested
//! aliases cannot expand without bound. Numbers with a leading zero are octal, as in YAML 1.1,
//! since other CDI readers read `fileMode: 0660` as octal. `yes` and `on` are strings, as in YAML
//! 1.2.

use serde_json::Value;
use serde_saphyr::{
    DuplicateKeyPolicy, MergeKeyPolicy, Options, UserMessageFormatter, budget, options,
};

/// Maximum nesting of lists and mappings; CDI specifications and classes need fewer than ten
/// levels.
const MAX_DEPTH: usize = 64;
/// Maximum number of values in a file, with aliases expanded. CDI specifications of many devices
/// have some thousands.
const MAX_NODES: usize = 250_000;
/// Maximum number of bytes in all scalars, with aliases expanded; four times the size of a file.
const MAX_SCALAR_BYTES: usize = 16 << 20;

/// Error of invalid YAML, or of YAML that exceeds a limit.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.render_with_formatter(&UserMessageFormatter))]
pub struct InvalidYaml(Box<serde_saphyr::Error>);

/// Parses a file with one YAML document; an empty file is null.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, InvalidYaml> {
    serde_saphyr::from_slice_with_options(bytes, limits()).map_err(|e| InvalidYaml(Box::new(e)))
}

fn limits() -> Options {
    options! {
        budget: budget! {
            max_depth: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_documents: 1,
            max_total_scalar_bytes: MAX_SCALAR_BYTES,
            enforce_alias_anchor_ratio: false,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        legacy_octal_numbers: true,
        strict_booleans: true,
        underscored_numbers_as_strings: true,
        with_snippet: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(text: &str, expected: Result<Value, &str>) {
        let found = parse(text.as_bytes()).map_err(|e| e.to_string());
        assert_eq!(found, expected.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn a_document_is_parsed_to_json() {
        check("", Ok(json!(null)));
        check("---\n", Ok(json!(null)));
        check("\u{feff}a: b\n", Ok(json!({"a": "b"})));
        check("{\"a\": [1, \"x\\ny\", null]}", Ok(json!({"a": [1, "x\ny", null]})));
        check(
            concat!(
                "# a specification\na: 'it''s'\n1: 0660\nb:\n  - \"0660\"\n",
                "  - c: |\n      one\n      two\n    d: {e: [~, -1]}\n"
            ),
            Ok(json!({"a": "it's", "1": 432, "b": ["0660", {"c": "one\ntwo\n", "d": {"e": [null,
                    -1]}}]})),
        );
        check("a: &x {b: 1}\nc: [*x, *x]\n", Ok(json!({"a": {"b": 1}, "c": [{"b": 1}, {"b": 1}]})));
        check("a: &k key\n*k : 1\n", Ok(json!({"a": "key", "key": 1})));
        check(
            "a: !!str 5\nb: !!int \"5\"\nc: !!seq []\nd: ! 5\n",
            Ok(json!({"a": "5", "b": 5, "c": [], "d": "5"})),
        );
    }

    #[test]
    fn plain_scalars_have_the_types_of_yaml() {
        for (text, expected) in [
            ("~", json!(null)),
            ("Null", json!(null)),
            ("nULL", json!("nULL")),
            ("True", json!(true)),
            ("yes", json!("yes")),
            ("0", json!(0)),
            ("-0", json!(0)),
            ("17", json!(17)),
            ("+17", json!(17)),
            ("-17", json!(-17)),
            ("0660", json!(432)),
            ("0o660", json!(432)),
            ("0x1F", json!(31)),
            ("0x", json!("0x")),
            ("18446744073709551615", json!(u64::MAX)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("1.5", json!(1.5)),
            ("-.5", json!(-0.5)),
            ("1e3", json!(1000.0)),
            (".", json!(".")),
            ("1_000", json!("1_000")),
            ("1.2.3", json!("1.2.3")),
            ("10M", json!("10M")),
            ("1\u{e9}", json!("1\u{e9}")),
            ("--17", json!("--17")),
            ("+-17", json!("+-17")),
            ("0x+1", json!("0x+1")),
            ("0o-1", json!("0o-1")),
        ] {
            check(&format!("a: {text}\n"), Ok(json!({ "a": expected })));
        }
    }

    #[test]
    fn invalid_text_is_refused() {
        check(
            "a: 1\na: 2\n",
            Err("duplicate mapping key `a` is not allowed here at line 2, column 1"),
        );
        check("? [a]\n: 1\n", Err("expected string scalar at line 1, column 3"));
        check("a: &x [*x]\n", Err("Recursive reference not allowed here at line 1, column 8"));
        check("a: !!int x\n", Err("invalid u64 at line 1, column 10"));
        check(
            "a: &x {b: 1}\nc:\n  <<: *x\n",
            Err("merge key not allowed here at line 3, column 3"),
        );
        check("a: .inf\n", Err("value `.inf` is not a finite number at line 1, column 4"));
        let texts = ["a: 1\n---\nb: 2\n", "a: *x\n", "a: b: c\n", "a: [1", "a: \"b\n", "a: -\n"];
        for text in texts {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(parse(b"a: \xff").unwrap_err().to_string().contains("not valid UTF-8"));
    }

    #[test]
    fn a_large_file_without_aliases_is_within_the_limits() {
        let text: String = (0..100_000).map(|n| format!("- {n}\n")).collect();
        assert_eq!(parse(text.as_bytes()).unwrap().as_array().map(Vec::len), Some(100_000));
    }

    #[test]
    fn alias_bombs_and_deep_nesting_exceed_the_limits() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for i in 1..60 {
            let last = format!("*a{}", i - 1);
            bomb.push_str(&format!("a{i}: &a{i} [{}]\n", vec![last; 9].join(", ")));
        }
        assert!(parse(bomb.as_bytes()).unwrap_err().to_string().contains("Nodes"));
        let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 1000].join(", "));
        assert!(parse(long.as_bytes()).unwrap_err().to_string().contains("ScalarBytes"));
        let deep = format!("{}{}", "[".repeat(MAX_DEPTH + 1), "]".repeat(MAX_DEPTH + 1));
        assert!(parse(deep.as_bytes()).unwrap_err().to_string().contains("Depth"));
        let fine = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        assert!(parse(fine.as_bytes()).is_ok());
        // Nesting by indentation, far beyond the maximum depth.
        let chain: String = (1..3000).map(|i| format!("{}- \n", " ".repeat(i))).collect();
        assert!(parse(chain.as_bytes()).is_err());
    }

    #[test]
    fn random_text_does_not_panic() {
        let pieces = [
            "a", ": ", "- ", "\n", "  ", "[", "]", "{", "}", "&x ", "*x", "!", "|\n", ">", "'",
            "\"", "\\", "? ", "#", "%", "---\n", "\t", ",", "é",
        ];
        // A linear congruential generator (Knuth's MMIX) with a fixed seed: failures are
        // repeatable.
        let mut seed = 7_u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..12 {
                seed = seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                text.push_str(pieces[(seed >> 33) as usize % pieces.len()]);
            }
            let _ = parse(text.as_bytes());
        }
    }
}
