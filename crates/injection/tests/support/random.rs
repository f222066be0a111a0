//! Random documents in all styles of YAML, with comments in all possible places.

use fastrand::Rng;
use serde_json::{Map, Value, json};

pub(crate) struct Random(Rng);

/// A document, and for each of its lines the paths of the values that it belongs to.
pub(crate) struct Written {
    pub(crate) text: String,
    pub(crate) lines: Vec<(String, Vec<String>)>,
    newline: &'static str,
    step: usize,
    list_step: usize,
    count: usize,
    within: Option<String>,
}

/// Paths of changed values, whose lines may differ, and of removed values.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    pub(crate) lines: Vec<String>,
    pub(crate) gone: Vec<String>,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Rng::with_seed(seed))
    }

    fn below(&mut self, end: usize) -> usize {
        self.0.usize(..end)
    }

    fn one_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    pub(crate) fn tree(&mut self) -> Value {
        let mut fields = Map::new();
        for at in 0..=self.below(4) {
            fields.insert(format!("top{at}"), self.value(3));
        }
        Value::Object(fields)
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 4 } else { 9 }) {
            0 => Value::Null,
            1 => json!(self.below(90)),
            2 => json!(format!("text {}: 'quoted' #{}", self.below(9), self.below(9))),
            3 => json!(format!("word{}", self.below(100))),
            4 => json!(format!("lines\n  of\n\ntext {}\n", self.below(9))),
            5 | 6 => {
                let mut fields = Map::new();
                for at in 0..self.below(4) {
                    fields.insert(format!("key{at}"), self.value(depth - 1));
                }
                Value::Object(fields)
            }
            7 => (0..self.below(4)).map(|_| self.value(depth - 1)).collect(),
            _ => {
                let item = |random: &mut Self, at: usize| {
                    let mut fields = Map::new();
                    fields.insert("name".to_owned(), json!(format!("n{at}")));
                    fields.insert("more".to_owned(), random.value(depth - 1));
                    Value::Object(fields)
                };
                (0..=self.below(3)).map(|at| item(self, at)).collect()
            }
        }
    }

    pub(crate) fn write(&mut self, tree: &Value) -> Written {
        let mut out = Written {
            text: String::new(),
            lines: Vec::new(),
            newline: if self.one_in(4) { "\r\n" } else { "\n" },
            step: 2 + self.below(3),
            list_step: 2 * self.below(2),
            count: 0,
            within: None,
        };
        if self.one_in(5) {
            out.line("\u{feff}# é".to_owned(), &[]);
        }
        if self.one_in(3) {
            out.line("---".to_owned(), &[]);
        }
        let mut line = String::new();
        self.entries(&mut out, &mut line, &entries(tree), 0, "", true);
        out.line("---   # another".to_owned(), &[]);
        out.line("left: [ as ,it is ]".to_owned(), &[]);
        let texts: Vec<&str> = out.lines.iter().map(|(line, _)| line.as_str()).collect();
        out.text = texts.join(out.newline) + if self.one_in(4) { "" } else { out.newline };
        out
    }

    /// `line` is the text before the first entry in its line. The items of a list are entries without a key.
    fn entries(
        &mut self,
        out: &mut Written,
        line: &mut String,
        entries: &[(Option<&str>, &Value)],
        column: usize,
        path: &str,
        first: bool,
    ) {
        for (at, (key, value)) in entries.iter().enumerate() {
            let path = key.map_or_else(|| format!("{path}/{at}"), |key| format!("{path}/{key}"));
            if at > 0 || first {
                self.between(out, column, &path);
                *line = " ".repeat(column);
            }
            line.push_str(&match key {
                Some(key) if self.one_in(5) => format!("\"{key}\":"),
                Some(key) => format!("{key}:"),
                None => "-".to_owned(),
            });
            self.behind(out, line, value, column, &path, key.is_none());
        }
    }

    fn between(&mut self, out: &mut Written, column: usize, path: &str) {
        if self.one_in(4) {
            out.count += 1;
            let comment = format!("{}# comment {}", " ".repeat(column), out.count);
            // The comment moves with the value below.
            out.line(comment, &[&format!("{path}/moved")]);
        }
        if self.one_in(8) {
            out.line(String::new(), &[path]);
        }
    }

    fn behind(
        &mut self,
        out: &mut Written,
        line: &mut String,
        value: &Value,
        column: usize,
        path: &str,
        in_list: bool,
    ) {
        let in_flow = self.one_in(4);
        match value {
            Value::Object(_) | Value::Array(_) if !entries(value).is_empty() && !in_flow => {
                if in_list && self.one_in(2) {
                    line.push(' ');
                    if value.is_array() {
                        out.within = Some(format!("{path}/first"));
                    }
                    return self.entries(out, line, &entries(value), column + 2, path, false);
                }
                self.end(out, line, path);
                let step = if value.is_array() && !in_list { out.list_step } else { out.step };
                self.entries(out, line, &entries(value), column + step, path, true);
            }
            Value::String(text) if text.contains('\n') && !in_flow => {
                out.line(format!("{line} |"), &[path]);
                for text in text.lines() {
                    let indent = if text.is_empty() { 0 } else { column + 3 };
                    out.line(" ".repeat(indent) + text, &[path]);
                }
            }
            value => {
                match self.one_in(3) {
                    true => self.hanging(out, line, value, path),
                    false => self.flow(line, value),
                }
                self.end(out, line, &format!("{path}/*"));
            }
        }
    }

    /// A bracketed value on several lines with any indentation.
    fn hanging(&mut self, out: &mut Written, line: &mut String, value: &Value, path: &str) {
        line.push(' ');
        let pretty = serde_json::to_string_pretty(value).expect("JSON");
        for (at, text) in pretty.lines().enumerate() {
            if at > 0 {
                // A comment without a number may be lost when items are reordered.
                line.push_str(if self.one_in(4) { "  # within [ '" } else { "" });
                out.line(std::mem::take(line), &[&format!("{path}/*")]);
                *line = " ".repeat(self.below(7));
            }
            line.push_str(text.trim_start());
        }
    }

    fn flow(&mut self, line: &mut String, value: &Value) {
        match value {
            Value::Null if self.one_in(2) => {}
            Value::String(text) if text.contains('\'') && self.one_in(2) => {
                line.push_str(&format!(" '{}'", text.replace('\'', "''").replace('\n', "\n\n")));
            }
            value => line.push_str(&format!(" {value}")),
        }
    }

    fn end(&mut self, out: &mut Written, line: &str, path: &str) {
        let mut line = line.to_owned();
        if self.one_in(4) {
            out.count += 1;
            line += &format!("  # comment {}", out.count);
        }
        out.line(line, &[path]);
    }

    pub(crate) fn change(&mut self, value: &mut Value) -> Touched {
        let mut touched = Touched::default();
        self.change_in(value, "", &mut touched);
        touched
    }

    fn change_in(&mut self, value: &mut Value, path: &str, touched: &mut Touched) {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                let keys: Vec<String> = fields.keys().cloned().collect();
                for key in keys.iter().filter(|key| *key != "name") {
                    let path = format!("{path}/{key}");
                    if self.one_in(8) && fields.len() > 1 {
                        fields.remove(key);
                        touched.lines.push(path.clone());
                        touched.gone.push(path);
                    } else if let Some(value) = fields.get_mut(key) {
                        self.change_in(value, &path, touched);
                    }
                }
                if self.one_in(3) {
                    let added = self.value(2);
                    fields.insert("added".to_owned(), added);
                    touched.lines.push(format!("{path}/added"));
                }
            }
            Value::Array(items) if !items.is_empty() => self.change_list(items, path, touched),
            other if self.one_in(8) => {
                *other = self.value(2);
                touched.lines.push(path.to_owned());
            }
            _ => {}
        }
    }

    fn change_list(&mut self, items: &mut Vec<Value>, path: &str, touched: &mut Touched) {
        let before = items.clone();
        for (at, item) in items.iter_mut().enumerate() {
            self.change_in(item, &format!("{path}/{at}"), touched);
        }
        // Changed items without names may be confused with each other when others are added or removed.
        let is_clear = items.iter().all(|item| item.get("name").is_some()) || *items == before;
        match self.below(6) {
            0 | 1 => {
                let at = self.below(items.len() + 1);
                items.insert(at, json!({"name": "new", "k": [1]}));
                if !is_clear {
                    touched.gone.push(path.to_owned());
                }
                touched.lines.push(match (is_clear, at) {
                    (false, _) => path.to_owned(),
                    (true, 0) => format!("{path}/first"),
                    (true, _) => format!("{path}/-"),
                });
            }
            2 if items.len() > 1 => {
                let at = self.below(items.len());
                items.remove(at);
                touched.lines.push(path.to_owned());
                touched.gone.push(path.to_owned());
            }
            3 if items.len() > 1 => {
                items.reverse();
                touched.lines.push(path.to_owned());
                if !before.iter().all(|item| item.get("name").is_some()) {
                    touched.gone.push(path.to_owned());
                }
            }
            _ => {}
        }
    }
}

fn entries(value: &Value) -> Vec<(Option<&str>, &Value)> {
    match value {
        Value::Object(fields) => fields.iter().map(|(key, value)| (Some(&**key), value)).collect(),
        Value::Array(items) => items.iter().map(|item| (None, item)).collect(),
        _ => Vec::new(),
    }
}

impl Written {
    fn line(&mut self, line: String, owner: &[&str]) {
        let owners = owner.iter().map(|owner| (*owner).to_owned()).chain(self.within.take());
        self.lines.push((line, owners.collect()));
    }
}
