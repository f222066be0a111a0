//! Patches, applied by an independent implementation of RFC 6902, produce the target document.

use crate::support::rfc6902::apply;
use injection::patch::between;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use testkit::scope;

fn document() -> BoxedStrategy<Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..5_u8).prop_map(Value::from),
        "[a-c/~]{0,2}".prop_map(Value::from),
    ];
    let deep = scalar.prop_recursive(4, 48, 6, |inner| {
        let field = (prop::sample::select(vec!["a", "b/c", "d~", "name", ""]), inner.clone());
        let object = prop::collection::vec(field, 0..5).prop_map(|fields| {
            let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
            Value::Object(fields.collect::<Map<_, _>>())
        });
        let named = (prop::sample::select(vec!["x", "y", "z"]), inner.clone())
            .prop_map(|(name, value)| json!({"name": name, "value": value}));
        let list = prop::collection::vec(prop_oneof![inner, named], 0..6).prop_map(Value::from);
        prop_oneof![object, list]
    });
    deep.boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scope::runs(2000, 500), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_patch_produces_its_target(before in document(), after in document()) {
        let patch = serde_json::to_value(between(&before, &after)).expect("JSON");
        prop_assert_eq!(apply(&before, &patch), Ok(after.clone()), "{}", patch);
        let mut by_the_crate = before.clone();
        json_patch::patch(&mut by_the_crate, &between(&before, &after)).expect("a good patch");
        prop_assert_eq!(by_the_crate, after);
    }

    #[test]
    fn equal_documents_have_an_empty_patch(document in document()) {
        prop_assert!(between(&document, &document.clone()).0.is_empty());
    }
}
