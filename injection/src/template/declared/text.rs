//! Texts with references: `${domain}` stands for a fact of the sidecar or a parameter of the template. `$(NAME)` is
//! Kubernetes' own and stays as it is; `$${` is a `${` that is none of ours.

use super::fact::{FACTS, Fact};
use super::parameter::Parameter;
use super::reading::Reader;
use super::writing::Scene;
use policy::settings::nearest;

/// A text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Fact(Fact),
    /// By its name; reading has seen to it that it exists.
    Parameter(String),
}

impl Text {
    /// A text that refers to nothing.
    pub(super) fn plain(text: &str) -> Self {
        Self(vec![Part::Literal(text.to_owned())])
    }

    /// Reads one; unknown references go to the reader's problems.
    pub(super) fn read(text: &str, at: &str, reader: &mut Reader) -> Self {
        let (mut parts, mut literal, mut rest) = (Vec::new(), String::new(), text);
        while let Some(start) = rest.find("${") {
            if rest[..start].ends_with('$') {
                literal.push_str(&rest[..start]);
                literal.push('{');
                rest = &rest[start + 2..];
                continue;
            }
            literal.push_str(&rest[..start]);
            let Some(end) = rest[start..].find('}') else {
                reader.problem(
                    at,
                    Some(text),
                    "has a ${ without its }; write $${ for a ${ that is no reference",
                );
                return Self(Vec::new());
            };
            let name = &rest[start + 2..start + end];
            rest = &rest[start + end + 1..];
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            if reader.parameters.iter().any(|parameter| parameter.name == name) {
                parts.push(Part::Parameter(name.to_owned()));
            } else if let Some((_, fact)) = FACTS.iter().find(|(known, _)| *known == name) {
                parts.push(Part::Fact(*fact));
            } else {
                let text = unknown(name, &reader.parameters);
                reader.problem(at, Some(name), &text);
            }
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Self(parts)
    }

    /// The text where it refers to nothing.
    pub(super) fn literal(&self) -> Option<&str> {
        match &self.0[..] {
            [] => Some(""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// What it is for a pod; `None` where it refers to something that isn't set.
    pub(super) fn fill(&self, scene: &Scene<'_>) -> Option<String> {
        let mut filled = String::new();
        for part in &self.0 {
            match part {
                Part::Literal(text) => filled.push_str(text),
                Part::Fact(fact) => filled.push_str(&fact.value(scene)?),
                Part::Parameter(name) => filled.push_str(scene.parameter(name)?),
            }
        }
        Some(filled)
    }

    /// Where its value comes from, for problems, if that is one place.
    pub(super) fn source<'a>(&self, scene: &'a Scene<'_>) -> Option<&'a str> {
        match &self.0[..] {
            [Part::Parameter(name)] => scene.source(name),
            _ => None,
        }
    }
}

fn unknown(name: &str, parameters: &[Parameter]) -> String {
    let names =
        || FACTS.iter().map(|(name, _)| *name).chain(parameters.iter().map(|known| known.name.as_str()));
    match nearest(name, names()) {
        Some(known) => format!("is neither a fact nor a parameter; did you mean ${{{known}}}?"),
        None => {
            format!("is neither a fact nor a parameter; there are {}", names().collect::<Vec<_>>().join(", "))
        }
    }
}
