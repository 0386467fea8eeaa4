//! Masks secrets in command lines of programs whose options do not speak of one, such as
//! `mysql -pX`: as lines of a shell, and as lists of arguments in JSON and TOML.

use regex::{Captures, Regex};

/// Programs, each with its options whose value is a secret, as regular expressions. The value of an
/// option that ends in `SEP` is the next argument, or follows `=`; with `SEP?`, it may also be a
/// part of the same argument. Without `SEP`, it is always a part of it.
const PROGRAMS: &[(&str, &str)] = &[
    (r"(?:mysql|mariadb)[a-z_-]*|7z[ar]?", "-p"),
    (
        "curl",
        "-[#0-9fgiIjJkLlnNOqRsSvZ]*[ubUxE]SEP?|\
         --(?:(?:proxy-)?user|oauth2-bearer|cookie|proxy|cert)SEP",
    ),
    ("(?:redis|valkey|keydb)-cli|https?|xh", "-aSEP?"),
    ("ab|siege", "-[AP]SEP?"),
    ("sshpass|mongo[a-z]*|cqlsh|rabbitmqadmin|useradd|usermod|login", "-pSEP?"),
    ("sqlcmd|bcp|mosquitto_[a-z]+|ipmitool|zip|unzip", "-PSEP?"),
    ("ldap[a-z]+", "-wSEP?"),
    ("smbclient|rpcclient", "-USEP?|--userSEP"),
    ("etcdctl|lftp", "-uSEP?|--userSEP"),
    ("openssl", "-[kK]SEP"),
    ("snmp[a-z]+", "-[cAX]SEP?"),
];

/// An escaped character of JSON in JSON.
pub(super) const ESCAPED: &str = r#"\\\\(?:\\.|[^"\\])"#;

/// Quotes of a list of arguments, each with what is not the end of such an argument: those of JSON
/// and of many logs, those of TOML, and those of JSON in JSON.
const QUOTES: [(&str, &str); 3] =
    [(r#"""#, r#"[^"\\]|\\."#), ("'", "[^']"), (r#"\\""#, r#"[^"\\]|ESCAPED"#)];

/// Begin of a program's name in a line of a shell, which may be in JSON with `\n`.
const BEGIN: &str = r"(?:(?-u:\b)|\\[nt])";

/// Rest of a command after its program, in a line of a shell.
const LINE: &str = r"[ \t](?:[^\n|;&\\]|\\[^n]|[|;&][^\s|;&])*";

/// An argument in a line of a shell. A quote before what follows a text in JSON opens none.
const ARGUMENT: &str = concat!(
    r#"(?:"[^"\s,:}\]][^"]*"|'[^'\s,:}\]][^']*'|\\"[^"\\]+\\"|"#,
    r#"(?:[^\s"'\\]|\\[^"'n])+)"#
);

/// Replaces secrets in command lines: the pattern of a command, and that of its options.
pub(super) struct Commands(Vec<(Regex, Regex)>);

impl Commands {
    /// Compiles the patterns.
    ///
    /// # Errors
    /// A pattern is not valid, which a test excludes.
    pub(super) fn new() -> Result<Self, regex::Error> {
        let mut patterns = Vec::new();
        for (programs, options) in PROGRAMS {
            let options_with = |next: &str| options.replace("SEP", &format!("(?:=|{next})"));
            let options = options_with(r"[ \t]+");
            patterns.push((
                Regex::new(&format!("{BEGIN}(?:{programs}){LINE}"))?,
                Regex::new(&format!(r#"([\s"'](?:{options})){ARGUMENT}"#))?,
            ));
            for (quote, content) in QUOTES {
                let content = format!("(?:{})", content.replace("ESCAPED", ESCAPED));
                let next = format!(r"{quote}\s*,\s*{quote}");
                let program = format!("{quote}(?:{content}*/)?(?:{programs})");
                let options = options_with(&next);
                patterns.push((
                    Regex::new(&format!("{program}(?:{next}{content}*)+"))?,
                    Regex::new(&format!("({next}(?:{options})){content}+"))?,
                ));
            }
        }
        Ok(Self(patterns))
    }

    /// Returns the text without secrets in command lines.
    pub(super) fn apply(&self, mut text: String) -> String {
        for (command, option) in &self.0 {
            let masked = command.replace_all(&text, |found: &Captures<'_>| {
                option.replace_all(&found[0], "$1***").into_owned()
            });
            text = masked.into_owned();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Command lines, with `@` where a secret is.
    const COMMANDS: &[&[&str]] = &[
        &["mysql", "-h", "db", "-p@", "shop"],
        &["/usr/bin/mysqldump", "-p@", "--all-databases"],
        &["mysql", "-p", "shop"],
        &["curl", "-u", "@", "https://host/"],
        &["curl", "-sSu", "@", "-U", "@", "-o", "/dev/null", "https://host/"],
        &["curl", "--user", "@", "--proxy-user=@", "--user-agent", "kept"],
        &["curl", "-u@", "-XPUT", "https://host/"],
        &["sudo", "redis-cli", "-h", "db", "-a", "@", "ping"],
        &["sshpass", "-p", "@", "ssh", "host"],
        &["sshpass", "-p@", "ssh", "-p", "@", "host"],
        &["docker", "login", "-u", "me", "-p", "@", "host"],
        &["docker", "run", "-p", "80:80", "image"],
        &["ldapsearch", "-x", "-w", "@", "-b", "dc=a"],
        &["mosquitto_pub", "-u", "me", "-P", "@"],
        &["smbclient", "//host/share", "-U", "@"],
        &["7z", "x", "-p@", "file"],
        &["ps", "-p", "1", "-u", "root", "-a", "x"],
    ];

    fn lines(secret: &str) -> Vec<String> {
        COMMANDS.iter().map(|command| command.join(" ").replace('@', secret)).collect()
    }

    fn lists(secret: &str) -> Vec<Vec<String>> {
        let list = |command: &&[&str]| {
            command.iter().map(|argument| argument.replace('@', secret)).collect()
        };
        COMMANDS.iter().map(list).collect()
    }

    #[test]
    fn secrets_in_lines_are_masked() {
        let commands = Commands::new().unwrap();
        for secret in ["me:a,b%c&d", "'a b'", "\"a b\""] {
            for (line, expected) in lines(secret).into_iter().zip(lines("***")) {
                assert_eq!(commands.apply(line), expected);
            }
        }
        let line = "a; FOO=1 mysql -pX | b -pY && curl -u me:x http://h/ && c -u d\nls -u e";
        let expected = "a; FOO=1 mysql -p*** | b -pY && curl -u *** http://h/ && c -u d\nls -u e";
        assert_eq!(commands.apply(line.to_owned()), expected);
    }

    #[test]
    fn secrets_in_lists_of_arguments_are_masked() {
        let commands = Commands::new().unwrap();
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        for secret in ["me:a\\b", "a \"b\" c", "-a,b"] {
            let (before, after) = (json!({"args": lists(secret)}), json!({"args": lists("***")}));
            assert_eq!(read(&commands.apply(before.to_string())), after);
            let pretty = serde_json::to_string_pretty(&before).unwrap();
            assert_eq!(read(&commands.apply(pretty)), after);
            // A shell has them in one argument; a log has JSON in JSON.
            let shell = |secret| json!(["sh", "-c", lines(secret).join("\n")]).to_string();
            let masked = commands.apply(shell("'a b'"));
            assert_eq!(read(&masked), read(&shell("***")));
            let nested = json!({"line": before.to_string()}).to_string();
            assert_eq!(read(&commands.apply(nested)), json!({"line": after.to_string()}));
        }
        let toml = |secret| format!("args = ['curl', '-u', '{secret}', 'https://host']");
        assert_eq!(commands.apply(toml("a b")), toml("***"));
        // A text that ends in an option has no value.
        let ends = json!({"a": "curl -u ", "b": "x", "c": ["curl -u", "y"]}).to_string();
        assert_eq!(commands.apply(ends.clone()), ends);
    }
}
