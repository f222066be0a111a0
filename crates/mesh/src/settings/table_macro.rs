//! The macro for a table of settings: a row a setting, in the order of `--help`.

/// `settings! { TYPE of TABLE; TOPIC { NAME: "long" 'short' ["VARIABLE"] KIND, "help"; .. } .. }`; the short form is `_` where there is
/// none. Behind the variables may follow `@ ["annotation"]`: those of a pod with the same meaning, the first that is there. `joined ","`
/// is for a flag that may be repeated: its values are a list, joined so. `example "value"` is a value to show, `of [..]` all values where
/// they are few, `features [..]` what of `docs/meshes.md` the setting covers.
macro_rules! settings {
    (
        $holder:ident of $table:expr;
        $($topic:ident { $($setting:ident: $long:literal $short:tt $variables:tt $(@ $annotations:tt)? $(joined $separator:literal)? $(example $example:literal $(of $values:tt)?)? $(features [$($feature:ident),*])?, $kind:expr, $help:literal;)* })*
    ) => {
        enum SettingIndex {
            $($($setting,)*)*
        }

        #[expect(non_upper_case_globals, reason = "they stand for the variants of an enum, and are matched as such")]
        impl $holder {
            $($(#[doc = $help] pub const $setting: $crate::settings::Setting =
                $crate::settings::Setting::at($table, SettingIndex::$setting as u16);)*)*
        }

        /// In the order of `--help`.
        pub(crate) const TABLE: &[$crate::settings::SettingRow] = &[$($($crate::settings::SettingRow {
            setting: $holder::$setting,
            long: $long,
            short: $crate::settings::table_macro::settings!(@short $short),
            variables: &$variables,
            annotations: $crate::settings::table_macro::settings!(@list $($annotations)?),
            separator: $crate::settings::table_macro::settings!(@separator $($separator)?),
            example: $crate::settings::table_macro::settings!(@example $($example)?),
            values: $crate::settings::table_macro::settings!(@list $($($values)?)?),
            features: &[$($($crate::mesh::Feature::$feature,)*)?],
            kind: $kind,
            topic: $crate::settings::Topic::$topic,
            help: $help,
        },)*)*];
    };
    (@short _) => { None };
    (@short $short:literal) => { Some($short) };
    (@separator) => { None };
    (@separator $separator:literal) => { Some($separator) };
    (@example) => { None };
    (@example $example:literal) => { Some($example) };
    (@list) => { &[] };
    (@list $list:tt) => { &$list };
}

pub(crate) use settings;
