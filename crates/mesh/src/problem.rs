//! Input problems, which stop a command.

use crate::visible::visible;
use std::{collections::HashSet, fmt};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InputProblem {
    pub name: String,
    /// Offending item of the value; `None` if the whole value, or its absence, is at fault.
    pub item: Option<String>,
    pub text: String,
    /// The file's line with a caret below the fault, or empty.
    pub excerpt: String,
}

impl InputProblem {
    pub fn with_item(name: &(impl fmt::Display + ?Sized), item: &str, text: impl Into<String>) -> Self {
        Self::about(name, Some(item), text)
    }

    pub fn of(name: &(impl fmt::Display + ?Sized), text: impl Into<String>) -> Self {
        Self::about(name, None, text)
    }

    pub fn about(name: &(impl fmt::Display + ?Sized), item: Option<&str>, text: impl Into<String>) -> Self {
        Self {
            name: name.to_string(),
            item: item.map(str::to_owned),
            text: text.into(),
            excerpt: String::new(),
        }
    }
}

const UNKNOWN: [&str; 3] = ["unknown flag", "unknown command", "unknown topic"];

impl fmt::Display for InputProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names and texts may quote a manifest.
        let (name, text) = (visible(&self.name), visible(&self.text));
        if let Some(item) = &self.item {
            return write!(f, "{name}: {item:?} {text}");
        }
        match UNKNOWN.into_iter().find_map(|what| Some((what, text.strip_prefix(what)?))) {
            // A name with a colon can't be part of a sentence.
            Some((what, rest)) if !name.contains(": ") => write!(f, "{what} {name}{rest}"),
            Some(_) | None => write!(f, "{name}: {text}"),
        }
    }
}

/// All problems of one call; at least one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<InputProblem>);

impl Problems {
    /// Most items reported per list: a value of several megabytes can have millions of wrong items.
    pub const MAX_ITEMS: usize = 32;

    /// Most problems reported: a manifest of several megabytes can have thousands of wrong containers.
    pub const MAX: usize = 100;

    pub fn first(found: impl IntoIterator<Item = InputProblem>) -> Vec<InputProblem> {
        let mut seen = HashSet::new();
        let mut found: Vec<_> = found.into_iter().filter(|problem| seen.insert(problem.clone())).collect();
        let more = found.len().saturating_sub(Self::MAX);
        if more > 0 {
            found.truncate(Self::MAX);
            let text = format!("{more} more are not listed; fix these first");
            found.push(InputProblem::of("further problems", text));
        }
        found
    }

    pub fn check(found: impl IntoIterator<Item = InputProblem>) -> Result<(), Self> {
        let found = Self::first(found);
        if found.is_empty() { Ok(()) } else { Err(Self(found)) }
    }

    /// For a command that would have changed something.
    pub fn unchanged(&self) -> String {
        self.headed("the input", "; nothing was changed")
    }

    pub fn joined(&self) -> String {
        self.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    /// The only problem, or the number of problems in `place` and a line for each; the first line ends with `effect`.
    pub fn headed(&self, place: &str, effect: &str) -> String {
        if let [only] = &self.0[..] {
            return format!("{only}{effect}{}", only.excerpt);
        }
        let problems: String = self.0.iter().map(|one| format!("\n  {one}{}", one.excerpt)).collect();
        format!("{} problems in {place}{effect}{problems}", self.0.len())
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.headed("the input", ""))
    }
}

#[cfg(test)]
mod tests {
    use super::{InputProblem, Problems};

    #[test]
    fn unknown_names_are_a_part_of_the_sentence() {
        let check = |name: &str, text: &str, expected: &str| {
            assert_eq!(InputProblem::of(name, text).to_string(), expected);
        };
        check("--bogus", "unknown flag (see --help)", "unknown flag --bogus (see --help)");
        check("aply", "unknown command; did you mean apply?", "unknown command aply; did you mean apply?");
        let place = "pod.yaml: container istio-init: --bogus";
        check(place, "unknown flag", &format!("{place}: unknown flag"));
        check("--family", "needs a value", "--family: needs a value");
    }

    #[test]
    fn problems_are_one_line_with_any_quotation() {
        let name = "Pod a\u{1b}[2J\n::error::b";
        for problem in
            [InputProblem::of(name, "is\nwrong"), InputProblem::with_item(name, "x\n", "is\nwrong")]
        {
            let shown = problem.to_string();
            assert!(!shown.contains(char::is_control), "{shown:?}");
            assert!(shown.starts_with("Pod a\\u{1b}[2J\\n::error::b: "), "{shown}");
        }
    }

    #[test]
    fn only_the_first_distinct_problems_are_reported() {
        let numbered =
            (0..16_000).flat_map(|at| [at, at]).map(|at| InputProblem::of(&at.to_string(), "is wrong"));
        let Problems(found) = Problems::check(numbered).expect_err("problems");
        assert_eq!(found[Problems::MAX - 1].to_string(), "99: is wrong");
        let last = "further problems: 15900 more are not listed; fix these first";
        assert_eq!((found.len(), &*found[Problems::MAX].to_string()), (Problems::MAX + 1, last));
    }

    #[test]
    fn problems_are_counted_with_a_line_each() {
        let one = InputProblem::with_item("--proxy-uid", "root", "is not a number");
        let two = InputProblem::of("--mesh", "needs a value");
        assert_eq!(
            Problems(vec![one.clone()]).unchanged(),
            "--proxy-uid: \"root\" is not a number; nothing was changed"
        );
        let both = Problems(vec![one, two]);
        assert_eq!(both.joined(), "--proxy-uid: \"root\" is not a number; --mesh: needs a value");
        assert_eq!(
            both.to_string(),
            "2 problems in the input\n  --proxy-uid: \"root\" is not a number\n  --mesh: needs a value"
        );
    }
}
