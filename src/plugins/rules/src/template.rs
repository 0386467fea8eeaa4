//! Texts with expressions in `${…}`.

use crate::expression::{EvaluationError, Expression, ExpressionError, signs, type_name};
use cel::{Context, Value};

/// Largest number of texts of one expression. Each becomes a change, which is compared with others:
/// the time for a list that a container names is not to grow without limit.
const MAX_TEXTS: usize = 1000;

/// A text with expressions in `${…}`. `$${` stands for `${`.
#[derive(Debug)]
pub(crate) struct Template {
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Text(String),
    Expression(Expression),
}

impl Template {
    /// Reads a text.
    ///
    /// # Errors
    /// An expression is invalid, or not closed.
    pub(crate) fn parse(text: &str) -> Result<Self, ExpressionError> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let (before, from) = rest.split_at(at);
            if let Some(escaped) = before.strip_suffix('$') {
                plain.push_str(escaped);
                plain.push_str("${");
                rest = &from[2..];
                continue;
            }
            plain.push_str(before);
            let source = &from[2..];
            let end = end_of_expression(source).ok_or(ExpressionError::Unclosed)?;
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(Part::Expression(Expression::parse(&source[..end])?));
            rest = &source[end + 1..];
        }
        plain.push_str(rest);
        if !plain.is_empty() || parts.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self { parts })
    }

    /// Returns the expressions.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.parts.iter().filter_map(|part| match part {
            Part::Expression(expression) => Some(expression),
            Part::Text(_) => None,
        })
    }

    /// Returns the text, if it has no expression.
    pub(crate) fn constant(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the text for a container. Strings, numbers and bools have a text.
    ///
    /// # Errors
    /// See [`EvaluationError`].
    pub(crate) fn text(&self, context: &Context<'_, '_>) -> Result<String, EvaluationError> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Expression(expression) => {
                    text.push_str(&text_of(&expression.evaluate(context)?)?);
                }
            }
        }
        Ok(text)
    }

    /// Returns the texts for a container: of the elements, if the template is one expression with a
    /// list as its value, else the one text.
    ///
    /// # Errors
    /// See [`EvaluationError`].
    pub(crate) fn texts(&self, context: &Context<'_, '_>) -> Result<Vec<String>, EvaluationError> {
        if let [Part::Expression(expression)] = self.parts.as_slice()
            && let Value::List(list) = expression.evaluate(context)?
        {
            let number = list.len();
            if number > MAX_TEXTS {
                let error = format!("the expression is a list of {number}, more than {MAX_TEXTS}");
                return Err(EvaluationError::Failed(error));
            }
            return list.iter().map(text_of).collect();
        }
        Ok(vec![self.text(context)?])
    }
}

/// Returns the text of a value.
fn text_of(value: &Value) -> Result<String, EvaluationError> {
    match value {
        Value::String(text) => Ok(text.to_string()),
        Value::Int(number) => Ok(number.to_string()),
        Value::UInt(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Bool(value) => Ok(value.to_string()),
        other => Err(EvaluationError::Type {
            found: type_name(other),
            expected: "a string, a number or a bool",
        }),
    }
}

/// Returns the position of the `}` that ends an expression: not one in a string or of a map.
fn end_of_expression(source: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, sign) in signs(source) {
        match sign {
            '{' => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::tests::context;

    #[test]
    fn a_text_has_expressions_in_braces() {
        let text = |template: &str| Template::parse(template).unwrap().text(&context()).unwrap();
        assert_eq!(text("a ${image} b ${1 + 1}"), "a registry/app:1 b 2");
        assert_eq!(text("${{'}': \"}\"}['}']}!"), "}!");
        assert_eq!(text("$${image} $HOME"), "${image} $HOME");
        assert_eq!(text(""), "");
        assert_eq!(Template::parse("plain").unwrap().constant(), Some("plain"));
        assert!(matches!(Template::parse("${image"), Err(ExpressionError::Unclosed)));
        let list = Template::parse("${command.map(c, 'x=' + c)}").unwrap();
        assert_eq!(list.texts(&context()).unwrap(), ["x=a", "x=b"]);
        assert!(list.text(&context()).is_err());
    }

    /// One of 300,000 devices took hours, and no time limit ended it.
    #[test]
    fn a_list_that_a_container_names_is_limited() {
        let texts = |number: usize| {
            let names = vec!["a"; number].join(",");
            Template::parse(&format!("${{'{names}'.split(',')}}")).unwrap().texts(&context())
        };
        assert_eq!(texts(MAX_TEXTS).unwrap().len(), MAX_TEXTS);
        let error = texts(MAX_TEXTS + 1).unwrap_err().to_string();
        assert_eq!(error, "the expression is a list of 1001, more than 1000");
    }

    #[test]
    fn a_raw_string_or_one_in_three_quotes_has_an_end_of_its_own() {
        for (template, expected) in [
            (r"${r'\'}!", r"\!"),
            (r#"${R"}\"}!"#, r"}\!"),
            (r"${'''it's }'''}!", "it's }!"),
            (r#"${"""a"}\""""}!"#, r#"a"}"!"#),
            (r"${r''''}\'''}!", r"'}\!"),
            (r"${size(bR'}\')}!", "2!"),
            (r"${r'${image}'}", "${image}"),
            ("${'a' // don't }\n}!", "a!"),
        ] {
            let parsed = Template::parse(template).unwrap_or_else(|e| panic!("{template}: {e}"));
            assert_eq!(parsed.text(&context()).unwrap(), expected, "{template}");
        }
    }
}
