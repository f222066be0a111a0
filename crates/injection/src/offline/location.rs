//! The line of a document that a problem is about: an annotation, or a field by its path.

use mesh::data::Tree;

/// The pod or the template at a JSON pointer.
pub(super) fn at<'a>(document: &'a Tree, pointer: &str) -> Option<&'a Tree> {
    pointer.split('/').skip(1).try_fold(document, |tree, step| match tree.items() {
        [] => tree.get(step),
        items => items.get(step.parse::<usize>().ok()?).map(AsRef::as_ref),
    })
}

/// The line that a problem's name leads to; `None` if it leads nowhere.
pub(super) fn line(pod: &Tree, name: &str) -> Option<usize> {
    let is_part = |c: char| c.is_alphanumeric() || "-_./".contains(c);
    let of = |field| pod.at(&["metadata", field]).into_iter().flat_map(Tree::fields);
    let named = ["annotations", "labels"].into_iter().flat_map(of).filter(|(key, _)| {
        // Without a slash a name may be any word.
        key.contains('/') && name.split(|c| !is_part(c)).any(|word| word == key)
    });
    // Of several annotations or labels that it speaks of, the longest.
    let named = named.max_by_key(|(key, _)| key.len()).map(|(_, tree)| tree.as_ref());
    let tree = named.or_else(|| field(pod, name.rsplit(": ").next()?))?;
    tree.place.map(|place| place.line)
}

/// A field by a path such as `spec.containers[0].env`, as far as it leads.
fn field<'a>(mut tree: &'a Tree, mut path: &str) -> Option<&'a Tree> {
    let mut found = None;
    loop {
        let of_key = tree.fields().iter().filter_map(|(key, inner)| {
            let rest = path.strip_prefix(key.as_str())?;
            (rest.is_empty() || rest.starts_with(['.', '['])).then_some((inner, rest))
        });
        let of_place = || {
            let (number, rest) = path.strip_prefix('[')?.split_once(']')?;
            Some((tree.items().get(number.parse::<usize>().ok()?)?, rest))
        };
        let step = of_key.min_by_key(|(_, rest)| rest.len()).or_else(of_place);
        let Some((inner, rest)) = step else { return found };
        (found, tree, path) = (Some(inner.as_ref()), inner, rest.strip_prefix('.').unwrap_or(rest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mesh::pod::holders;

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
    fn a_problem_stands_where_as_much_of_its_path_as_there_is_leads() {
        let document = holders("file", LIST).expect("YAML").remove(0);
        for (pod, name, expected) in [
            ("/items/0", "annotation a/b", Some(7)),
            ("/items/0", "file: document 1: a/b and é/b.c: says \"x\"", Some(11)),
            ("/items/0", "annotation x.a/bc", None),
            ("/items/0", "annotation x.a/b", None),
            ("/items/0", "annotation a/b-c", None),
            ("/items/0", "annotation x.a/b, beside a/b", Some(7)),
            ("/items/0", "what is short", None),
            ("/items/0", "metadata.annotations.short", Some(13)),
            ("/items/0", "pod: kind", Some(4)),
            ("/items/0", "pod: metadata.labels.app", Some(9)),
            ("/items/0", "pod: metadata.labels.app.of", Some(8)),
            ("/items/0", "pod: spec.containers[0]", Some(16)),
            ("/items/0", "pod: spec.containers[1].env[0].name", Some(20)),
            ("/items/0", "pod: spec.containers[1].env[0].value", Some(20)),
            ("/items/0", "pod: spec.containers[1].envFrom[0].name", Some(18)),
            ("/items/0", "pod: spec.containers[1].environment", Some(17)),
            ("/items/0", "pod: spec.containers[2]", Some(16)),
            ("/items/0", "pod: spec.containers[x]", Some(16)),
            ("/items/0", "pod: spec: containers", None),
            ("/items/1", "pod: kind", Some(21)),
            ("/items/1", "annotation a/b", None),
            ("/items/2", "pod: kind", None),
            ("/items/x", "pod: kind", None),
            ("", "pod: items[0].spec", Some(15)),
            ("/nothing", "pod: kind", None),
        ] {
            let found = at(&document.tree, pod).and_then(|pod| line(pod, name));
            assert_eq!(found, expected, "{pod} {name}");
        }
    }
}
