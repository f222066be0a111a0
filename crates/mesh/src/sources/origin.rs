//! File positions of the pods whose settings a call reads.

use crate::{data::Tree, data::document::field};
use std::{fmt, ops::Range, sync::Arc};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectPlace {
    pub file: Arc<str>,
    /// The whole file.
    pub text: Arc<str>,
    /// The object's lines, from 1, up to the next object; empty if unknown, as for JSON objects on one line.
    pub lines: Range<usize>,
}

impl ObjectPlace {
    pub fn own_text(&self) -> String {
        let lines = self.text.split_inclusive('\n').skip(self.lines.start - 1);
        lines.take(self.lines.len()).collect()
    }
}

impl fmt::Display for ObjectPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.lines.start)
    }
}

/// The name of a pod in problems, with its file position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodOrigin {
    /// Kind, namespace and name: `Deployment shop/web`.
    pub title: String,
    /// `None` for objects from an API server.
    pub place: Option<ObjectPlace>,
    /// The pod, or the pod template.
    pub(crate) template: Option<Tree>,
}

impl From<&str> for PodOrigin {
    fn from(title: &str) -> Self {
        Self { title: title.to_owned(), ..Self::default() }
    }
}

impl PodOrigin {
    /// The name of a problem with an annotation, a label or a field, such as `pod.yaml:7: Pod shop/web: NAME`.
    pub fn named(&self, name: &str) -> String {
        format!("{}{}: {name}", self.start(name), self.title)
    }

    /// File and line of the annotation, label or field in a problem's name, else the object's first line.
    pub fn start(&self, name: &str) -> String {
        let Some(ObjectPlace { file, lines, .. }) = &self.place else { return String::new() };
        format!("{file}:{}: ", self.line(name).unwrap_or(lines.start))
    }

    fn line(&self, name: &str) -> Option<usize> {
        let pod = self.template.as_ref()?;
        let is_part = |c: char| c.is_alphanumeric() || "-_./".contains(c);
        let of = |field| pod.at(&["metadata", field]).into_iter().flat_map(Tree::fields);
        let named = ["annotations", "labels"].into_iter().flat_map(of).filter(|(key, _)| {
            // A key without a slash is any word.
            key.contains('/') && name.split(|c| !is_part(c)).any(|word| word == key)
        });
        let longest = named.max_by_key(|(key, _)| key.len()).map(|(_, tree)| tree.as_ref());
        let tree = longest.or_else(|| field(pod, name.rsplit(": ").next()?))?;
        tree.place.map(|place| place.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::reader::documents;

    const LIST: &str = "\
apiVersion: v1
kind: List
items:
- kind: Pod
  metadata:
    labels:
      a/b: x
      app.of: x
      app: web
    annotations:
      é/b.c: 'y
        z'
      short: w
  spec:
    containers:
    - name: a
    - name: b
      envFrom: []
      env:
      - name: x
- kind: Other
";

    #[test]
    fn problem_has_the_line_of_the_longest_existing_part_of_its_path() {
        let objects = documents("file", LIST, None).expect("YAML");
        for (pod, name, expected) in [
            (0, "annotation a/b", Some(7)),
            (0, "a/b and é/b.c: has \"x\"", Some(11)),
            (0, "annotation x.a/bc", None),
            (0, "annotation x.a/b", None),
            (0, "annotation a/b-c", None),
            (0, "annotation x.a/b, beside a/b", Some(7)),
            (0, "what is short", None),
            (0, "metadata.annotations.short", Some(13)),
            (0, "pod: kind", Some(4)),
            (0, "pod: metadata.labels.app", Some(9)),
            (0, "pod: metadata.labels.app.of", Some(8)),
            (0, "pod: spec.containers[0]", Some(16)),
            (0, "pod: spec.containers[1].env[0].name", Some(20)),
            (0, "pod: spec.containers[1].env[0].value", Some(20)),
            (0, "pod: spec.containers[1].envFrom[0].name", Some(18)),
            (0, "pod: spec.containers[1].environment", Some(17)),
            (0, "pod: spec.containers[2]", Some(16)),
            (0, "pod: spec.containers[x]", Some(16)),
            (0, "pod: spec: containers", None),
            (1, "pod: kind", Some(21)),
            (1, "annotation a/b", None),
        ] {
            let found = PodOrigin {
                template: objects[0]
                    .get("items")
                    .and_then(|items| items.items().get(pod))
                    .map(|pod| (**pod).clone()),
                ..PodOrigin::default()
            }
            .line(name);
            assert_eq!(found, expected, "{pod} {name}");
        }
    }
}
