//! The Helm chart, the only source of installed objects. This module renders its templates with Helm's and sprig's functions.

use crate::template::go;
use gtmpl_ng::{Func, FuncError, Value as TemplateValue};
use mesh::data::document::mapping;
use serde_json::{Value, json};
use std::{collections::HashMap, sync::LazyLock};

const HELPERS: &str = include_str!("../chart/templates/_helpers.tpl");
const VALUES: &str = include_str!("../chart/values.yaml");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChartTemplate(&'static str);

impl ChartTemplate {
    pub const INJECTOR: Self = Self(include_str!("../chart/templates/injector.yaml"));
    pub const WEBHOOKS: Self = Self(include_str!("../chart/templates/webhooks.yaml"));
    pub const OPERATOR: Self = Self(include_str!("../chart/templates/operator.yaml"));
    pub const CRD: Self = Self(include_str!("../chart/templates/crd.yaml"));
    pub const CNI: Self = Self(include_str!("../chart/templates/cni.yaml"));
    pub const REPAIR: Self = Self(include_str!("../chart/templates/repair.yaml"));

    /// Returns the output of `helm template` for these values. Panics if the chart is invalid; tests render every template.
    pub fn objects(self, namespace: &str, values: &Value) -> Vec<Value> {
        let filled = filled(self.0, namespace, values);
        let mut objects = mesh::pod::values("chart", &filled).unwrap_or_else(|problems| panic!("{problems}"));
        objects.retain(|object| !object.is_null());
        objects
    }
}

/// Problems with these values, each as `KEY: problem`.
pub(crate) fn problems(values: &Value) -> Vec<String> {
    let list = filled(r#"{{ include "sidecar-init.problems" . }}"#, "", values);
    serde_json::from_str(list.trim()).expect("the chart's helper makes a list of strings")
}

fn filled(text: &str, namespace: &str, values: &Value) -> String {
    let mut all = mapping("values.yaml", VALUES).expect("chart values are YAML");
    json_patch::merge(&mut all, values);
    let data = json!({ "Values": all, "Release": { "Namespace": namespace } });
    let filled = go::filled("chart", &[HELPERS, text].concat(), &FUNCTIONS, &data);
    filled.unwrap_or_else(|problems| panic!("{problems}"))
}

const FUNCTIONS: [(&str, Func); 2] = [("include", include), ("fromJsonArray", from_json_array)];

/// A call of helper `name` with `data`, and the helpers' definitions; parsed once for all calls.
static PARSED_HELPERS: LazyLock<gtmpl_ng::Template> = LazyLock::new(|| {
    let text = ["{{ template (.name) .data }}", HELPERS].concat();
    go::parsed("helpers", &text, &FUNCTIONS).unwrap_or_else(|problems| panic!("{problems}"))
});

fn include(args: &[TemplateValue]) -> Result<TemplateValue, FuncError> {
    let [TemplateValue::String(name), data] = args else {
        return Err(FuncError::Generic("include takes a helper's name and data".to_owned()));
    };
    let call = HashMap::from([("name".to_owned(), name.as_str().into()), ("data".to_owned(), data.clone())]);
    let filled = go::rendered("helpers", &PARSED_HELPERS, call.into());
    // Trims the file's whitespace between helpers.
    filled.map(|text| text.trim_end().into()).map_err(|problems| FuncError::Generic(problems.joined()))
}

fn from_json_array(args: &[TemplateValue]) -> Result<TemplateValue, FuncError> {
    let text = args.first().map(ToString::to_string).unwrap_or_default();
    let read: Value = serde_json::from_str(&text).map_err(|error| FuncError::Generic(error.to_string()))?;
    Ok(go::plain(&read))
}
