//! JSON files: one value, or one a line; checks and messages that name the element and the key.

use super::error::{TraceError, shown};
use jiff::Timestamp;
use serde_json::Value;

/// The parts of a JSON file: the elements of its array, its lines, or its only object.
pub(super) struct Document {
    parts: Vec<(String, Value)>,
}

/// Whether `text` starts as JSON does.
pub(super) fn starts(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
}

impl Document {
    /// Reads JSON values: an array becomes its elements, several values one a line stay as they are.
    pub fn parse(text: &str, name: &str) -> Result<Self, TraceError> {
        let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        let mut values = Vec::new();
        let mut line = 1;
        let mut passed = 0;
        loop {
            let start = text.len() - text[stream.byte_offset()..].trim_start().len();
            line += text[passed..start].matches('\n').count();
            passed = start;
            match stream.next() {
                None => break,
                Some(Ok(value)) => values.push((format!(" line {line}"), value)),
                Some(Err(error)) => {
                    let (line, column) = (error.line(), error.column());
                    let (file, problem) = (name.to_owned(), error.to_string());
                    return Err(TraceError::Json { file, line, column, problem });
                }
            }
        }
        if values.len() != 1 {
            return Ok(Self { parts: values });
        }
        let parts = match values.remove(0).1 {
            Value::Array(elements) => {
                elements.into_iter().zip(1..).map(|(value, index)| (format!(" element {index}"), value)).collect()
            }
            value => vec![(String::new(), value)],
        };
        Ok(Self { parts })
    }

    /// The parts, each with its place in `file`.
    pub fn elements<'a>(&'a self, file: &'a str) -> impl Iterator<Item = Element<'a>> {
        self.parts.iter().map(move |(at, value)| Element { file, at, key: String::new(), value: Some(value) })
    }

    /// Whether any part has all of these keys; a key with dots goes inside.
    pub fn has(&self, keys: &[&str]) -> bool {
        let inside = |value: &Value, key: &str| key.split('.').try_fold(value, |value, part| value.get(part)).is_some();
        self.parts.iter().any(|(_, value)| keys.iter().all(|key| inside(value, key)))
    }
}

/// A value, perhaps absent, with its place.
#[derive(Clone)]
pub(super) struct Element<'a> {
    file: &'a str,
    at: &'a str,
    key: String,
    value: Option<&'a Value>,
}

impl<'a> Element<'a> {
    /// What stands under `key`; dots go inside.
    pub fn get(&self, key: &str) -> Self {
        let value = key.split('.').try_fold(self.value, |value, part| Some(value?.get(part)));
        let dot = if self.key.is_empty() { "" } else { "." };
        Self { key: format!("{}{dot}{key}", self.key), value: value.flatten(), ..*self }
    }

    /// Whether there is nothing, or `null`.
    pub fn is_absent(&self) -> bool {
        self.value.is_none_or(Value::is_null)
    }

    /// Whether it is `true`.
    pub fn is_true(&self) -> bool {
        self.value.and_then(Value::as_bool).unwrap_or_default()
    }

    /// The value as text, if it is a string with something in it; without blanks around it.
    pub fn as_text(&self) -> Option<&'a str> {
        self.value.and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
    }

    /// The same as part of a name, with a dash for what no name has.
    pub fn as_name(&self) -> Option<String> {
        self.as_text().map(|text| text.replace(char::is_control, "-"))
    }

    /// The value as text, if it is a string, perhaps an empty one.
    pub fn string(&self) -> Option<&'a str> {
        self.value.and_then(Value::as_str)
    }

    /// A string with something in it and no control characters, which is `expected`.
    pub fn text(&self, expected: &str) -> Result<&'a str, TraceError> {
        let text = self.as_text().filter(|text| !text.contains(char::is_control));
        text.ok_or_else(|| self.wrong(expected, "write it as a string in double quotes, without control characters"))
    }

    /// A finite number.
    pub fn number(&self, expected: &str) -> Result<f64, TraceError> {
        let number = self.value.and_then(Value::as_f64).filter(|number| number.is_finite());
        number.ok_or_else(|| self.wrong(expected, "write it as a plain number"))
    }

    /// A whole number from 0 to `most`.
    pub fn whole(&self, most: u32, expected: &str) -> Result<u32, TraceError> {
        match self.value.and_then(Value::as_f64) {
            Some(number) if number.fract() == 0.0 && (0.0..=f64::from(most)).contains(&number) => Ok(number as u32),
            _ => Err(self.wrong(format!("{expected}, a whole number from 0 to {most}"), "write it as a plain number")),
        }
    }

    /// A time with a zone.
    pub fn time(&self) -> Result<Timestamp, TraceError> {
        let expected = "an ISO 8601 time with a zone, like `2026-01-31T18:00:00Z`";
        let time = self.as_text().and_then(|text| text.parse().ok());
        time.ok_or_else(|| self.wrong(expected, "without its zone a time can't be set against others"))
    }

    /// The elements of an array.
    pub fn list(&self, expected: &str) -> Result<Vec<Self>, TraceError> {
        let values = self.value.and_then(Value::as_array);
        let values = values.ok_or_else(|| self.wrong(expected, "put it between `[` and `]`"))?;
        let element = |(index, value)| Self { key: format!("{}[{index}]", self.key), value: Some(value), ..*self };
        Ok(values.iter().enumerate().map(element).collect())
    }

    /// The value isn't `expected`.
    pub fn wrong(&self, expected: impl Into<String>, hint: impl Into<String>) -> TraceError {
        let key = if self.key.is_empty() { String::new() } else { format!("key `{}`", shown(&self.key)) };
        let comma = if self.at.is_empty() || key.is_empty() { "" } else { "," };
        let space = if key.is_empty() { "" } else { " " };
        TraceError::Element {
            file: self.file.to_owned(),
            at: format!("{}{comma}{space}{key}", self.at),
            expected: expected.into(),
            found: match self.value {
                None => "nothing".to_owned(),
                Some(value) => format!("`{}`", shown(&value.to_string())),
            },
            hint: hint.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str, read: impl Fn(&Element) -> Result<(), TraceError>) -> String {
        let document = Document::parse(text, "f").unwrap();
        document.elements("f").find_map(|element| read(&element).err()).unwrap().to_string()
    }

    #[test]
    fn places_are_named_in_arrays_lines_and_objects() {
        let read = |element: &Element| element.get("a.b").text("a name").map(drop);
        let expected = "key `a.b`: expected a name, found";
        assert!(
            refused("[{\"a\":{\"b\":\"x\"}},{\"a\":3}]", read)
                .starts_with(&format!("`f` element 2, {expected} nothing\nhint: "))
        );
        assert!(
            refused("\n{\"a\":{\"b\":\"x\"}}\n\n{\"a\":{\"b\":3}}", read)
                .starts_with(&format!("`f` line 4, {expected} `3`"))
        );
        assert!(refused("{\"a\":{\"b\":\"\"}}", read).starts_with(&format!("`f` {expected} `\"\"`")));
        let list = |element: &Element| element.get("a").list("numbers")?[1].whole(9, "a count").map(drop);
        assert!(
            refused("{\"a\":[1,10]}", list)
                .contains("key `a[1]`: expected a count, a whole number from 0 to 9, found `10`")
        );
    }

    #[test]
    fn text_that_is_no_json_is_refused_with_its_place() {
        let message = Document::parse("[{\"a\":1},\n{\"a\":", "f").err().unwrap().to_string();
        assert!(message.starts_with("`f` line 2, column 5: ") && message.contains("\nhint: "), "{message}");
        assert!(Document::parse(&"[".repeat(100_000), "f").is_err());
    }
}
