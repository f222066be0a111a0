//! A file of several documents, some of which get other values.

use super::documents::{BYTE_ORDER_MARK, is_marker, split};
use super::json::{in_order_of, rewritten};
use super::yaml;
use mesh::data::yaml::block;
use mesh::{InputProblem, Problems};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    pub text: String,
    /// The numbers, from 0, of the documents that could not be edited and were written again, without the comments within them.
    pub rewritten: Vec<usize>,
}

/// The text in which each document has its new value. A document whose value is the same keeps its text, byte for byte.
///
/// `name` is that of the file, for problems. `new` has as many values as the text has documents.
///
/// # Errors
/// When the text is neither YAML nor JSON, or when a value can't be written.
pub fn edit(name: &str, text: &str, new: &[Value]) -> Result<Edited, Problems> {
    let old = mesh::pod::values(name, text)?;
    if old == new {
        return Ok(Edited { text: text.to_owned(), rewritten: Vec::new() });
    }
    let fault = |fault: &str| {
        Problems(vec![InputProblem::of(name, format!("can't be written with its pods injected: {fault}"))])
    };
    let documents = split(text, old.len())
        .ok_or_else(|| fault("its documents can't be separated; begin each with a line ---"))?;
    let mut edited = Edited { text: String::new(), rewritten: Vec::new() };
    for (number, document) in documents.into_iter().enumerate() {
        let (old, new) = (&old[number], &new[number]);
        if old == new {
            edited.text.push_str(document);
            continue;
        }
        let done =
            rewritten(document, new).or_else(|| yaml::edited(document, old, new)).unwrap_or_else(|| {
                edited.rewritten.push(number);
                again(document, new)
            });
        edited.text.push_str(&with_line_ends_of(document, done));
    }
    match mesh::pod::values(name, &edited.text) {
        Ok(values) if values == new => Ok(edited),
        _ => Err(fault("what is read back differs")),
    }
}

/// A document of YAML written again, between the marks and comments around it.
fn again(document: &str, new: &Value) -> String {
    let body = document.trim_start_matches(BYTE_ORDER_MARK);
    let mut before = document[..document.len() - body.len()].to_owned();
    let is_comment = |line: &&str| line.trim_start().is_empty() || line.trim_start().starts_with('#');
    match body.split_inclusive('\n').position(|line| is_marker(line, "---")) {
        Some(at) => {
            before.extend(body.split_inclusive('\n').take(at));
            before.push_str("---\n");
        }
        None => before.extend(body.split_inclusive('\n').take_while(is_comment)),
    }
    let end = document.lines().find(|line| is_marker(line, "...")).map(|_| "...\n");
    format!("{before}{}{}", block(&in_order_of(None, new)), end.unwrap_or_default())
}

/// A text with the line ends of a document, where all of those are Windows'.
fn with_line_ends_of(document: &str, text: String) -> String {
    let windows = document.matches("\r\n").count();
    if windows == 0 || windows != document.matches('\n').count() {
        return text;
    }
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}
