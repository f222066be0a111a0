//! The CustomResourceDefinition of VirtualEnvironment, which is the chart's.
//!
//! The same name, group, version and spec as upstream's, so that objects written for upstream are accepted. The status is
//! ours, and has conditions alone. It is a subresource, so writing it changes no generation. Defaults stand in descriptions alone: a
//! default of the schema would be written into every object, and could not be changed any more.

use crate::chart::ChartTemplate;
use serde_json::Value;

pub fn definition() -> Value {
    let mut found =
        ChartTemplate::Crd.objects("", |values| values["operator"]["enabled"] = true.into()).remove(0);
    // It is for `helm uninstall`.
    found["metadata"].as_object_mut().expect("an object has metadata").remove("annotations");
    found
}
