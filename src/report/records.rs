//! Things that have the same few properties, one a row, in whatever format is asked for.

use super::figures::{count, figure};
use super::table::{Screen, align_right, empty_table, trimmed};
use comfy_table::{ColumnConstraint, ContentArrangement};
use serde_json::{Map, Value};

/// Rows of named properties.
///
/// ```
/// use autohet::report::Records;
/// let mut records = Records::new(&[("gpus", "GPUs"), ("usd", "USD/h")]);
/// records.push(vec![1234.into(), 0.5.into()]);
/// assert_eq!(records.csv(), "gpus,usd\n1234,0.5\n");
/// assert_eq!(records.markdown().lines().last(), Some("| 1,234 | 0.5000 |"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// Key of each column in JSON and CSV, and its heading for people.
    columns: Vec<(String, String)>,
    rows: Vec<Vec<Value>>,
}

impl Records {
    /// Nothing yet, with these columns: a key for machines and a heading for people each.
    pub fn new(columns: &[(&str, &str)]) -> Self {
        let column = |(key, heading): &(&str, &str)| ((*key).to_owned(), (*heading).to_owned());
        Self { columns: columns.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Things as they are in JSON: a column for each field, `a.b` for a field of a field. Lists are one cell; those of
    /// objects, which would be tables of their own, are left out.
    pub fn of_json<'a>(things: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut records = Self::default();
        for thing in things {
            let mut cells = Vec::new();
            flatten(thing, "", &mut cells);
            let mut row = vec![Value::Null; records.columns.len()];
            for (key, value) in cells {
                let place = records.columns.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
                    records.columns.push((key.clone(), key.replace(['_', '.'], " ")));
                    records.columns.len() - 1
                });
                row.resize(row.len().max(place + 1), Value::Null);
                row[place] = value;
            }
            records.rows.push(row);
        }
        let width = records.columns.len();
        records.rows.iter_mut().for_each(|row| row.resize(width, Value::Null));
        records
    }

    /// Adds a row, a value for each column.
    pub fn push(&mut self, row: Vec<Value>) {
        debug_assert_eq!(row.len(), self.columns.len());
        self.rows.push(row);
    }

    /// As a table, numbers to the right.
    pub fn table(&self, screen: Screen) -> String {
        let mut table = empty_table(screen);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(screen.width);
        table.set_header(self.columns.iter().map(|(_, heading)| heading));
        for row in &self.rows {
            table.add_row(row.iter().map(for_people));
        }
        let is_numeric = |column: &usize| {
            let mut values = self.rows.iter().map(|row| &row[*column]);
            values.clone().any(Value::is_number) && values.all(|value| value.is_number() || value.is_null())
        };
        let numeric: Vec<usize> = (0..self.columns.len()).filter(is_numeric).collect();
        align_right(&mut table, numeric);
        // A word that is cut in two is another word.
        let is_one_word = |column: usize| self.rows.iter().all(|row| !for_people(&row[column]).contains(' '));
        for (number, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 1));
            if is_one_word(number) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        trimmed(&table) + "\n"
    }

    /// As JSON: an array of objects.
    pub fn json(&self) -> Value {
        let object = |row: &Vec<Value>| {
            let keys = self.columns.iter().map(|(key, _)| key.clone());
            Value::Object(keys.zip(row.iter().cloned()).collect::<Map<_, _>>())
        };
        Value::Array(self.rows.iter().map(object).collect())
    }

    /// As CSV.
    pub fn csv(&self) -> String {
        let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_writer(Vec::new());
        let written = "writing to memory doesn't fail";
        writer.write_record(self.columns.iter().map(|(key, _)| key)).expect(written);
        for row in &self.rows {
            writer.write_record(row.iter().map(super::sweep::cell)).expect(written);
        }
        String::from_utf8(writer.into_inner().expect(written)).expect("all cells are text")
    }

    /// As a table of Markdown.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut text = line(self.columns.iter().map(|(_, heading)| heading.clone()).collect());
        text = text + "|" + &"---|".repeat(self.columns.len()) + "\n";
        for row in &self.rows {
            text += &line(row.iter().map(for_people).collect());
        }
        text
    }
}

/// The cells of a thing, by dotted key.
fn flatten(thing: &Value, key: &str, cells: &mut Vec<(String, Value)>) {
    match thing {
        Value::Object(fields) => {
            for (name, field) in fields {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                flatten(field, &key, cells);
            }
        }
        Value::Array(entries) if entries.iter().any(Value::is_object) => {}
        Value::Array(entries) => {
            let entries: Vec<String> = entries.iter().map(super::sweep::cell).collect();
            cells.push((key.to_owned(), entries.join("; ").into()));
        }
        value => cells.push((key.to_owned(), value.clone())),
    }
}

fn for_people(value: &Value) -> String {
    match value {
        Value::Number(number) => match number.as_u64() {
            Some(whole) => count(whole),
            None => figure(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::Bool(is_so) => if *is_so { "yes" } else { "no" }.to_owned(),
        value => super::sweep::cell(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn things_in_json_are_rows() {
        let things = [json!({ "a": 1, "b": { "c": [1, 2], "d": [{}] } }), json!({ "b": { "e": "x | y" }, "a": null })];
        let records = Records::of_json(&things);
        assert_eq!(records.csv(), "a,b.c,b.e\n1,1; 2,\n,,x | y\n");
        assert!(records.markdown().ends_with("|  |  | x \\| y |\n"), "{}", records.markdown());
        assert_eq!(Records::of_json(&[]).json(), json!([]));
    }

    #[test]
    fn one_thing_in_four_formats() {
        let mut records = Records::new(&[("name", "name"), ("gpus", "GPUs"), ("usd", "USD/h")]);
        records.push(vec!["a, b".into(), 1234.into(), json!(0.5)]);
        records.push(vec!["c".into(), 2.into(), Value::Null]);
        assert_eq!(records.csv(), "name,gpus,usd\n\"a, b\",1234,0.5\nc,2,\n");
        assert_eq!(records.json()[1], json!({ "name": "c", "gpus": 2, "usd": null }));
        assert_eq!(records.markdown().lines().nth(2), Some("| a, b | 1,234 | 0.5000 |"));
        assert!(records.table(Screen::PLAIN).contains("1,234  0.5000"), "{}", records.table(Screen::PLAIN));
    }
}
