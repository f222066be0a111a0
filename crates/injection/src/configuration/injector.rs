//! The `config` of Istio's ConfigMap: injection rules and templates.

use super::selector;
use crate::decision::{InjectionPolicy, LabelSelector};
use crate::{configuration::Configuration, template::InjectionTemplate};
use mesh::{InputProblem, data::document::DocumentReader, settings::nearest};
use serde_json::Value;

/// `template` is for older programs and has no effect here.
const KEYS: [&str; 8] = [
    "aliases",
    "alwaysInjectSelector",
    "defaultTemplates",
    "injectedAnnotations",
    "neverInjectSelector",
    "policy",
    "template",
    "templates",
];

impl Configuration {
    pub(super) fn take_config(&mut self, name: &str, given: &Value) -> Vec<InputProblem> {
        let mut fields = DocumentReader::of(name, given);
        for key in given.as_object().into_iter().flat_map(serde_json::Map::keys) {
            if !KEYS.contains(&key.as_str()) {
                let near = nearest(key, KEYS.into_iter());
                let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                self.warnings.push(format!("{name}: {key} is an unknown key and has no effect{near}"));
            }
        }
        self.rules.policy = self.policy(name, &mut fields);
        self.rules.never = self.selectors(name, &mut fields, "neverInjectSelector");
        self.rules.always = self.selectors(name, &mut fields, "alwaysInjectSelector");
        self.injected_annotations = fields.named_texts("injectedAnnotations");
        let default_templates = fields.texts("defaultTemplates");
        if !default_templates.is_empty() {
            self.default_templates = default_templates;
        }
        for key in fields.mapping("aliases").into_iter().flat_map(serde_json::Map::keys) {
            let members = aliased(&mut fields, key);
            self.aliases.insert(key.clone(), members);
        }
        let templates = fields.mapping("templates");
        if given["template"].is_string() && templates.is_none_or(serde_json::Map::is_empty) {
            self.warnings.push(format!(
                "{name}: templates are empty; template is an injection template of a release before Istio 1.10 and has no effect, \
                 so the built-in templates replace it"
            ));
        }
        let mut problems = fields.finish();
        for (key, written) in templates.into_iter().flatten() {
            let template = InjectionTemplate::read(&format!("{name}: templates.{key}"), written);
            let template = template.or_else(|found| {
                // A default template affects nearly every pod; any other, only pods that select it.
                if !written.is_string() || self.defaults().contains(&key.as_str()) {
                    return Err(found);
                }
                let refusals = found.0.iter();
                let refusals = refusals.map(|problem| format!("{problem}; pods that name it are refused"));
                self.warnings.extend(refusals);
                Ok(InjectionTemplate::Unreadable(found))
            });
            match template {
                Ok(template) => drop(self.templates.insert(key.clone(), template)),
                Err(found) => problems.extend(found.0),
            }
        }
        let is_template = |name: &String| {
            self.templates.contains_key(name)
                || templates.is_some_and(|templates| templates.contains_key(name))
        };
        problems.extend(self.unknown_names(name, &is_template));
        for (alias, members) in &self.aliases {
            let unknown = members.iter().filter(|member| !is_template(member));
            self.warnings.extend(
                unknown.map(|member| {
                    format!("{name}: aliases.{alias} names {member:?}, which is not a template")
                }),
            );
        }
        problems
    }

    /// The policy; for unknown policies, Istio injects nothing.
    fn policy(&mut self, name: &str, fields: &mut DocumentReader<'_>) -> Option<InjectionPolicy> {
        match fields.text("policy").as_str() {
            "enabled" => Some(InjectionPolicy::Enabled),
            "disabled" => Some(InjectionPolicy::Disabled),
            other => {
                self.warnings.push(format!(
                    "{name}: policy is {other:?}, so the webhook injects no pod; expected enabled or disabled"
                ));
                None
            }
        }
    }

    fn selectors(&mut self, name: &str, fields: &mut DocumentReader<'_>, key: &str) -> Vec<LabelSelector> {
        let mut selectors = Vec::new();
        for (at, written) in fields.list(key).iter().enumerate() {
            match selector::read(written) {
                Ok(selector) => {
                    let unknown = selector::unknown_keys(written);
                    self.warnings.extend(unknown.map(|unknown| {
                        format!(
                            "{name}: {key}[{at}]: {unknown:?} is not part of a selector and has no effect; expected \
                             matchLabels or matchExpressions"
                        )
                    }));
                    selectors.push(selector);
                }
                Err(why) => self.warnings.push(format!("{name}: {key}[{at}] never matches: {why}")),
            }
        }
        selectors
    }

    /// Unknown names for which every pod is refused; names that affect only an alias's pods are warnings.
    fn unknown_names(&self, name: &str, is_template: &dyn Fn(&String) -> bool) -> Vec<InputProblem> {
        let unknown =
            self.default_templates.iter().filter(|one| !is_template(one) && !self.aliases.contains_key(*one));
        let text = format!("is neither a template nor an alias; known: {}", self.known_names());
        let of = format!("{name}: defaultTemplates");
        let mut problems: Vec<InputProblem> =
            unknown.map(|one| InputProblem::with_item(&of, one, &*text)).collect();
        for alias in &self.default_templates {
            let members = self.aliases.get(alias).into_iter().flatten();
            let of = format!("{name}: aliases.{alias}");
            let text = "is not a template, and the alias is a default: every pod would be refused";
            let unknown = members.filter(|member| !is_template(member));
            problems.extend(unknown.map(|member| InputProblem::with_item(&of, member, text)));
        }
        problems
    }
}

/// An alias's members; the alias name may contain dots.
fn aliased(fields: &mut DocumentReader<'_>, key: &str) -> Vec<String> {
    let path = format!("aliases.{key}");
    let written = fields.at("aliases").and_then(|aliases| aliases.get(key)).unwrap_or(&Value::Null);
    let Value::Array(items) = written else {
        fields.refuse(&path, written, "a list of template names");
        return Vec::new();
    };
    let wrong = items.iter().filter(|item| !item.is_string());
    wrong.for_each(|item| fields.refuse(&path, item, "a template name"));
    items.iter().filter_map(|item| Some(item.as_str()?.to_owned())).collect()
}
