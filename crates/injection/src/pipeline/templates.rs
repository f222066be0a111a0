//! Which templates a pod gets.

use super::pod::CheckedPod;
use crate::configuration::Configuration;
use crate::template::InjectionTemplate;
use mesh::{InputProblem, Problems};

/// The annotation by which a pod names them.
pub const TEMPLATES: &str = "inject.istio.io/templates";

/// How many templates a pod may name: each is rendered and merged, and the API server limits the length of annotations
/// only after it has called webhooks.
const MAX_NAMED: usize = 64;

/// The templates of a pod, in their order: those that it names, else the default ones.
pub(super) fn chosen<'a>(
    pod: &CheckedPod,
    configuration: &'a Configuration,
) -> Result<Vec<(&'a str, &'a InjectionTemplate)>, Problems> {
    let (source, query): (&str, Vec<&str>) = match pod.annotation(TEMPLATES) {
        Some(text) => {
            let named = text.split(',').count();
            if named > MAX_NAMED {
                let text = format!("names {named} templates; expected at most {MAX_NAMED}");
                return Err(Problems(vec![InputProblem::of(TEMPLATES, text)]));
            }
            (TEMPLATES, text.split(',').map(str::trim).collect())
        }
        None => ("defaultTemplates", configuration.default_templates.iter().map(String::as_str).collect()),
    };
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for name in query {
        // Aliases are not nested.
        let alias = configuration.aliases.get(name);
        let names = alias.map_or_else(|| vec![name], |names| names.iter().map(String::as_str).collect());
        for one in names {
            match configuration.templates.get_key_value(one) {
                Some((name, template)) => found.push((name.as_str(), template)),
                None => {
                    let by = if alias.is_some() {
                        format!(" (the alias {name} refers to it)")
                    } else {
                        String::new()
                    };
                    let known: Vec<&str> = configuration
                        .templates
                        .keys()
                        .chain(configuration.aliases.keys())
                        .map(String::as_str)
                        .collect();
                    let text = format!("is an unknown template{by}; known: {}", known.join(", "));
                    problems.push(InputProblem::with_item(source, one, text));
                }
            }
        }
    }
    Problems::check(problems).map(|()| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_names_too_many_templates_is_refused_with_one_problem() {
        let configuration = Configuration::default();
        let count = |names: &str| {
            let mut pod = CheckedPod::default();
            pod.set("annotations", TEMPLATES, names);
            chosen(&pod, &configuration).map(|found| found.len())
        };
        let named = vec!["sidecar"; MAX_NAMED].join(", ");
        assert_eq!(count(&named).ok(), Some(MAX_NAMED));
        let problems = count(&format!("{named},")).expect_err("too many");
        let expected = "inject.istio.io/templates: names 65 templates; expected at most 64";
        assert_eq!(problems.0.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    }
}
