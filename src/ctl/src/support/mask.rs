//! Masks what looks like a secret in texts of a support bundle. What is JSON, as a whole or in one
//! line, is masked by its structure (`json.rs`), other text by patterns.

use super::commands::{Commands, ESCAPED};
use regex::{Captures, Regex};

/// Parts of names of keys, variables and options that speak of a secret.
const NAMES: &str = concat!(
    r"(?:passw|passphrase|secret|token|credential|creds|auth|(?-u:\b)jwt(?-u:\b)|",
    r"(?:api|access|account|encryption|master|private|shared|signing|ssh)[_-]?key|",
    r"(?:db|my|mysql|pg|redis|require|root|ssh|user)(?:pass|pwd)(?-u:\b)|",
    r"[_.-](?:pass|pwd|pw|key)(?-u:\b)|(?-i:[a-z](?:Pass|Pwd|Key))(?-u:\b)|",
    r"(?-u:\b)pass(?-u:\b))"
);

/// Patterns of secrets, each with what replaces a match. `NAME` stands for a name that speaks of a
/// secret, `KEY` for such a name and what separates it from its value, and `ESCAPED` for an escaped
/// character of JSON in JSON. A second group is a value that may be none.
const PATTERNS: &[(&str, &str)] = &[
    // Private keys in PEM
    (r"(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END [A-Z ]*PRIVATE KEY-----)", "$1***$2"),
    // User and password of a URL, or a token in place of both
    (r"([A-Za-z][A-Za-z0-9+.-]*://)[^\s/@:'\x22]*:[^\s/'\x22]*@", "$1***@"),
    (r"(https?://)[^\s/'\x22]+@", "$1***@"),
    // Credentials of HTTP
    (r#"(?i)(?-u:\b)(authorization\s*[:=]\s*)(?:[A-Za-z0-9_]+\s+)?[^\s"'\\]+"#, "$1***"),
    (r"(?i)(?-u:\b)(bearer|basic)\s+[A-Za-z0-9+/=._~-]{6,}", "$1 ***"),
    (r#"(?i)(?-u:\b)((?:set-)?cookie:\s*)[^\n"\\]+"#, "$1***"),
    // Connections to databases, signatures in URLs, webhooks
    (r"(?i)(;\s*pwd\s*=\s*)[^;\s\x22']+", "$1***"),
    (r"([^\s:/@'\x22]+):[^\s@'\x22]+@((?:tcp|unix)\()", "$1:***@$2"),
    (r"([?&]sig=)[^&\s'\x22]+", "$1***"),
    (r"(https://hooks\.slack\.com/services/)[A-Za-z0-9/_-]+", "$1***"),
    // Tokens that are known by their form
    (r"(?-u:\b)(?:gh[opsur]_|github_pat_|glpat-|xox[a-z]-)[A-Za-z0-9_-]{10,}", "***"),
    (r"(?-u:\b)eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*", "***"),
    // A name beside its value
    (r#"(?i)("name"\s*:\s*"NAME"\s*,\s*"value"\s*:\s*)"(?:[^"\\]|\\.)*""#, r#"$1"***""#),
    // Quoted values: of TOML on several lines, of JSON in JSON, others
    (r#"(?is)(KEY)""".*?""""#, r#"$1"***""#),
    (r"(?is)(KEY)'''.*?'''", "$1'***'"),
    (r#"(?i)(KEY)\\"(?:[^"\\]|ESCAPED)*\\""#, r#"$1\"***\""#),
    (r#"(?i)(KEY)"(?:[^"\\]|\\.)*""#, r#"$1"***""#),
    (r"(?i)(KEY)'[^']*'", "$1'***'"),
    // Other values: numbers of JSON, lines of YAML, single words
    (r#"(?i)("NAME"\s*:\s*)-?[0-9][0-9.eE+-]*"#, r#"$1"***""#),
    (r#"(?im)^([ \t]*NAME:[ \t]+)[^\s"'{\[|>][^\n]*$"#, "$1***"),
    (r#"(?i)(KEY)([^\s"'{\[}\]\\][^\s"'}\]\\]*)"#, "$1***"),
    // The argument after an option: in a line of a shell, in lists of JSON, TOML, JSON in JSON
    (r#"(?i)((?:^|[\s"'])--?NAME\s+)(?:[^\s"'\\-][^\s"'\\]*|'[^']+'|\\"[^"\\]+\\")"#, "$1***"),
    (r#"(?i)((?:^|[\s"'])--?NAME\s+)"[^"\s,:}\]][^"]*""#, "$1***"),
    (r#"(?i)("--?NAME"\s*,\s*)"(?:[^"\\-]|\\.)(?:[^"\\]|\\.)*""#, r#"$1"***""#),
    (r"(?i)('--?NAME'\s*,\s*)'[^'-][^']*'", "$1'***'"),
    (r#"(?i)(\\"--?NAME\\"\s*,\s*)\\"(?:[^"\\-]|ESCAPED)(?:[^"\\]|ESCAPED)*\\""#, r#"$1\"***\""#),
];

/// Values that are no secrets.
const NONE: [&str; 3] = ["null", "true", "false"];

/// Replaces secrets in texts.
pub(super) struct Mask {
    name: Regex,
    patterns: Vec<(Regex, &'static str)>,
    commands: Commands,
}

impl Mask {
    /// Compiles the patterns.
    ///
    /// # Errors
    /// A pattern is not valid, which a test excludes.
    pub(super) fn new() -> Result<Self, regex::Error> {
        let name = format!(r"[A-Za-z0-9_.-]*{NAMES}[A-Za-z0-9_.-]*");
        let key = format!(r#"{name}\\?["']?\]?\s*(?:=>|\+?[:=]+)\s*"#);
        let compiled = |(pattern, by): &(&str, &'static str)| {
            let pattern = pattern.replace("KEY)", &format!("{key})")).replace("NAME", &name);
            let pattern = pattern.replace("ESCAPED", ESCAPED);
            Ok((Regex::new(&pattern)?, *by))
        };
        let patterns = PATTERNS.iter().map(compiled).collect::<Result<_, _>>()?;
        let name = Regex::new(&format!("(?i){NAMES}"))?;
        Ok(Self { name, patterns, commands: Commands::new()? })
    }

    /// Whether a name speaks of a secret.
    pub(super) fn is_secret(&self, name: &str) -> bool {
        self.name.is_match(name)
    }

    /// Returns the text without secrets.
    pub(super) fn apply(&self, text: &str) -> String {
        if let Some(masked) = self.json(text) {
            return self.commands.apply(masked);
        }
        if !text.lines().any(|line| line.starts_with('{')) {
            return self.text(text);
        }
        // Some lines are JSON, as of the audit log.
        let mut masked = String::with_capacity(text.len());
        let mut other = String::new();
        for line in text.split_inclusive('\n') {
            match self.json(line) {
                Some(line) => {
                    masked.push_str(&self.text(&other));
                    other.clear();
                    masked.push_str(&self.commands.apply(line));
                }
                None => other.push_str(line),
            }
        }
        masked.push_str(&self.text(&other));
        masked
    }

    fn text(&self, text: &str) -> String {
        let mut masked = text.to_owned();
        for (pattern, by) in &self.patterns {
            let replaced = pattern.replace_all(&masked, |found: &Captures<'_>| {
                let value = found.get(2).map(|value| value.as_str().trim_end_matches(','));
                let mut replaced = String::new();
                if value.is_some_and(|value| NONE.contains(&value)) {
                    replaced.push_str(&found[0]);
                } else {
                    found.expand(by, &mut replaced);
                }
                replaced
            });
            masked = replaced.into_owned();
        }
        self.commands.apply(masked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn values_that_look_like_secrets_are_masked_and_the_rest_stays() {
        let mask = Mask::new().unwrap();
        for (text, expected) in [
            (r#"password = "a \" b" # why"#, r#"password = "***" # why"#),
            (
                r#"{"registry-token": "x1", "debug": true}"#,
                r#"{"registry-token":"***","debug":true}"#,
            ),
            ("env[DB_PASSWORD]=hunter2 env[PATH]=/bin", "env[DB_PASSWORD]=*** env[PATH]=/bin"),
            ("DB_PASS=a DB_PWD=b PASS=c PWD=/root", "DB_PASS=*** DB_PWD=*** PASS=*** PWD=/root"),
            ("PGPASSWORD=a,b x", "PGPASSWORD=*** x"),
            ("passphrase => a", "passphrase => ***"),
            ("encryption_key: a\nkeys: b", "encryption_key: ***\nkeys: b"),
            ("--api-key=abc --level=debug", "--api-key=*** --level=debug"),
            ("--password abc --level debug", "--password *** --level debug"),
            ("--password \"a b\" --level 'debug'", "--password *** --level 'debug'"),
            ("run --secret abc x", "run --secret *** x"),
            ("openssl -passin pass:abc", "openssl -passin pass:***"),
            ("a well-authored text", "a well-authored text"),
            (r#"["--secret", "a b", "--level"]"#, r#"["--secret","***","--level"]"#),
            (r#"["--token", "--level", "x"]"#, r#"["--token","--level","x"]"#),
            ("args = ['--token', 'a b']", "args = ['--token', '***']"),
            ("skopeo copy --src-creds me:a", "skopeo copy --src-creds ***"),
            ("sh -c 'PGPASSWORD=x psql'", "sh -c 'PGPASSWORD=*** psql'"),
            ("mysql -pX shop", "mysql -p*** shop"),
            ("curl -H \"Authorization: token abc\"", "curl -H \"Authorization: ***\""),
            ("curl -u me:abc https://host", "curl -u *** https://host"),
            ("git clone https://abc@host/a", "git clone https://***@host/a"),
            ("postgres://me:a@b@host/db", "postgres://***@host/db"),
            ("ssh://git@host/a", "ssh://git@host/a"),
            ("Authorization: Bearer abcdefgh", "Authorization: ***"),
            ("proxy: Basic abcdefgh", "proxy: Basic ***"),
            ("proxy=http://me:secret@host:3128/", "proxy=http://***@host:3128/"),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nab\ncd\n-----END RSA PRIVATE KEY-----",
                "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----",
            ),
            ("redis-server --requirepass abc", "redis-server --requirepass ***"),
            ("--dbPass abc --dbpass=abc --pw=x", "--dbPass *** --dbpass=*** --pw=***"),
            ("MYSQLPWD=a OLDPWD=/b AccountKey=c", "MYSQLPWD=*** OLDPWD=/b AccountKey=***"),
            ("Server=a;Uid=sa;Pwd=b;", "Server=a;Uid=sa;Pwd=***;"),
            ("me:abc@tcp(db:3306)/x", "me:***@tcp(db:3306)/x"),
            ("https://host/a?sig=abc&b=1", "https://host/a?sig=***&b=1"),
            ("plugin 10-adjust: memory.limit=67108864", "plugin 10-adjust: memory.limit=67108864"),
            ("auths: nothing\nnext line", "auths: ***\nnext line"),
            ("  password: my secret phrase\nnext: line", "  password: ***\nnext: line"),
            ("secret = '''a\nb'''\nx = 1", "secret = '***'\nx = 1"),
            ("secret = \"\"\"a\nb\"\"\"\nx = 1", "secret = \"***\"\nx = 1"),
        ] {
            assert_eq!(mask.apply(text), expected);
        }
    }

    #[test]
    fn json_stays_json() {
        let before = json!({
            "last_output": "password=\"a b\" token=c", "nested": "{\"token\":\"a\\\"b\"}",
            "end": "token=abc", "line": "secret: a\nb", "api-key": 5, "auth": null, "token": true,
            "auths": {"host": {"auth": "YQ=="}}, "tokens": ["kept"],
            "env": [{"name": "DB_PASSWORD", "value": "a"}, {"name": "B", "value": "kept"}],
            "args": ["run", "--secret", "a \"b", "curl", "-u", "me:a"],
            "line of JSON": "[\"--secret\",\"a\\\"b\",\"-v\"]"
        });
        let after = json!({
            "last_output": "password=\"***\" token=***", "nested": "{\"token\":\"***\"}",
            "end": "token=***", "line": "secret: ***\nb", "api-key": "***", "auth": null,
            "token": true, "auths": {"host": {"auth": "***"}}, "tokens": ["kept"],
            "env": [{"name": "DB_PASSWORD", "value": "***"}, {"name": "B", "value": "kept"}],
            "args": ["run", "--secret", "***", "curl", "-u", "***"],
            "line of JSON": "[\"--secret\",\"***\",\"-v\"]"
        });
        let masked = Mask::new().unwrap().apply(&before.to_string());
        assert_eq!(serde_json::from_str::<Value>(&masked).unwrap(), after, "{masked}");
    }
}
