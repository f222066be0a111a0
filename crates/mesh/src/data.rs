//! Untyped data: one tree for YAML and JSON input and for output. `serde_json::Value` has neither positions nor a field order.
//! A scalar keeps its source string; the reader decides whether `0755` is a number.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{collections::BTreeSet, fmt, sync::Arc};

pub mod document;
pub(crate) mod reader;
pub mod yaml;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextPosition {
    pub line: usize,
    pub column: usize,
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// `None` for JSON.
    pub place: Option<TextPosition>,
    pub value: TreeValue,
}

/// A value with its fields in order. Aliases share fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeValue {
    Scalar { text: String, kind: ScalarKind },
    List(Vec<Arc<Tree>>),
    Map(Vec<(String, Arc<Tree>)>),
}

impl Default for Tree {
    fn default() -> Self {
        Self::scalar("", ScalarKind::Null)
    }
}

impl Tree {
    pub fn read(json: &str) -> Self {
        serde_json::from_str(json).expect("our own documents are JSON")
    }

    pub fn scalar(text: impl Into<String>, kind: ScalarKind) -> Self {
        Self { place: None, value: TreeValue::Scalar { text: text.into(), kind } }
    }

    pub fn list(items: impl IntoIterator<Item = Self>) -> Self {
        Self { place: None, value: TreeValue::List(items.into_iter().map(Arc::new).collect()) }
    }

    pub fn map(fields: impl IntoIterator<Item = (String, Self)>) -> Self {
        let fields = fields.into_iter().map(|(key, tree)| (key, Arc::new(tree)));
        Self { place: None, value: TreeValue::Map(fields.collect()) }
    }

    pub fn items(&self) -> &[Arc<Self>] {
        if let TreeValue::List(items) = &self.value { items } else { &[] }
    }

    pub fn fields(&self) -> &[(String, Arc<Self>)] {
        if let TreeValue::Map(fields) = &self.value { fields } else { &[] }
    }

    pub fn get(&self, key: &str) -> Option<&Self> {
        let (_, tree) = self.fields().iter().find(|(name, _)| name == key)?;
        (!tree.is_null()).then_some(tree)
    }

    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |tree, key| tree.get(key))
    }

    pub fn is_null(&self) -> bool {
        matches!(self.value, TreeValue::Scalar { kind: ScalarKind::Null, .. })
    }

    pub fn text(&self) -> Option<&str> {
        match &self.value {
            TreeValue::Scalar { text, kind: ScalarKind::Text } => Some(text),
            _ => None,
        }
    }
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (text, kind) = match &self.value {
            TreeValue::Scalar { text, kind } => (text, *kind),
            TreeValue::List(items) => return serializer.collect_seq(items.iter().map(Arc::as_ref)),
            TreeValue::Map(fields) => {
                return serializer.collect_map(fields.iter().map(|(key, tree)| (key, tree.as_ref())));
            }
        };
        match kind {
            ScalarKind::Text => serializer.serialize_str(text),
            ScalarKind::Null => serializer.serialize_unit(),
            ScalarKind::Bool(is) => serializer.serialize_bool(is),
            ScalarKind::Whole(number) => match (i64::try_from(number), u64::try_from(number)) {
                (Ok(number), _) => serializer.serialize_i64(number),
                (Err(_), Ok(number)) => serializer.serialize_u64(number),
                (Err(_), Err(_)) => serializer.serialize_str(text),
            },
            // Floats that JSON lacks, such as infinity, become strings.
            ScalarKind::Float => match text.replace('_', "").parse::<f64>() {
                Ok(number) if number.is_finite() => serializer.serialize_f64(number),
                Ok(_) | Err(_) => serializer.serialize_str(text),
            },
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FromJson)
    }
}

/// Repeated keys are refused, as in YAML.
struct FromJson;

impl<'de> de::Visitor<'de> for FromJson {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::default())
    }

    fn visit_bool<E>(self, is: bool) -> Result<Tree, E> {
        Ok(Tree::scalar(is.to_string(), ScalarKind::Bool(is)))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Tree, E> {
        Ok(Tree::scalar(number.to_string(), ScalarKind::Whole(number.into())))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Tree, E> {
        Ok(Tree::scalar(number.to_string(), ScalarKind::Whole(number.into())))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Tree, E> {
        Ok(Tree::scalar(number.to_string(), ScalarKind::Float))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::scalar(text, ScalarKind::Text))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Tree::list(items))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let (mut fields, mut keys) = (Vec::new(), BTreeSet::new());
        while let Some((key, tree)) = access.next_entry::<String, Tree>()? {
            if !keys.insert(key.clone()) {
                return Err(de::Error::custom(format!("the key {key:?} is repeated")));
            }
            fields.push((key, tree));
        }
        Ok(Tree::map(fields))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalarKind {
    Text,
    Null,
    Bool(bool),
    Whole(i128),
    Float,
}

impl ScalarKind {
    /// YAML 1.1 type of an unquoted scalar, as Kubernetes reads it (`goyaml.v2/resolve.go`): `0755` is octal.
    pub fn of_plain(text: &str) -> Self {
        match text {
            "" | "~" | "null" | "Null" | "NULL" => Self::Null,
            "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => {
                Self::Bool(true)
            }
            "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => {
                Self::Bool(false)
            }
            ".nan" | ".NaN" | ".NAN" => Self::Float,
            _ => Self::of_number(text).unwrap_or(Self::Text),
        }
    }

    fn of_number(text: &str) -> Option<Self> {
        let bare = text.strip_prefix(['-', '+']).unwrap_or(text);
        if !bare.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return None;
        }
        let digits = bare.replace('_', "");
        if let Some(whole) = whole(&digits) {
            return Some(Self::Whole(if text.starts_with('-') { -whole } else { whole }));
        }
        // For a leading digit or point, Rust's float syntax equals YAML's.
        let is_float = digits.parse::<f64>().is_ok() || [".inf", ".Inf", ".INF"].contains(&&*digits);
        is_float.then_some(Self::Float)
    }
}

fn whole(digits: &str) -> Option<i128> {
    let prefixes = [("0x", 16), ("0X", 16), ("0b", 2), ("0B", 2), ("0o", 8), ("0O", 8), ("0", 8)];
    let based = prefixes.iter().find_map(|(prefix, base)| {
        let rest = digits.strip_prefix(prefix).filter(|rest| !rest.starts_with(['-', '+']))?;
        i128::from_str_radix(rest, *base).ok()
    });
    let is_decimal = digits == "0" || !digits.starts_with('0');
    based.or_else(|| digits.parse().ok().filter(|_| is_decimal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_values_round_trip_through_a_tree() {
        let json = r#"{"b":[null,true,-7,18446744073709551615,1.5,1e+300,"x"],"a":{}}"#;
        let tree = Tree::read(json);
        assert_eq!(serde_json::to_string(&tree).expect("JSON"), json);
        for (refused, expected) in [("{\"a\":1,\"a\":2}", "the key \"a\" is repeated"), ("[", "EOF")] {
            let error = serde_json::from_str::<Tree>(refused).expect_err(refused).to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn plain_scalars_have_their_types_in_kubernetes() {
        use ScalarKind::{Bool, Float, Null, Text, Whole};
        let texts = "15090,15021 10.0.0.0/8 * 1.8.9 12:30 0x - + . 1e 0o9 -x é 0x-1 0b2 +x 1.x 1-.5 1.2.3 1ex 1e+ 12a +.inf. inf tRUE";
        let floats = "089 1.5 1e3 -.inf .5 1. 1.5e-3 +.Inf .NaN 1.e5";
        for (words, kind) in [
            (texts, Text),
            // YAML 1.1 reads `089` as a float.
            (floats, Float),
            ("15001", Whole(15001)),
            ("01337 0o1337", Whole(0o1337)),
            ("0x539 1337 1_337 +1337", Whole(1337)),
            ("0b11", Whole(3)),
            ("-0x10", Whole(-16)),
            ("0", Whole(0)),
            ("~ null", Null),
            ("yes True", Bool(true)),
            ("off", Bool(false)),
        ] {
            words.split(' ').for_each(|word| assert_eq!(ScalarKind::of_plain(word), kind, "{word:?}"));
        }
        assert_eq!(ScalarKind::of_plain(""), Null);
    }

    #[test]
    fn numbers_without_a_json_form_become_strings() {
        let plain = |text: &str| Tree::scalar(text, ScalarKind::of_plain(text));
        let words =
            "9223372036854775807 9223372036854775808 18446744073709551616 -1 1_0.5 .inf -.5e1 .nan 0755";
        let found = serde_json::to_value(Tree::list(words.split(' ').map(plain))).expect("JSON");
        let (most, above) = (i64::MAX, 9_223_372_036_854_775_808_u64);
        assert_eq!(found, json!([most, above, "18446744073709551616", -1, 10.5, ".inf", -5.0, ".nan", 493]));
    }
}
