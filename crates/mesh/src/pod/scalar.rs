//! What a plain scalar is, as Kubernetes reads it: by YAML 1.1, in which `yes` is a boolean and `0755` is octal
//! (`sigs.k8s.io/yaml`, `goyaml.v2/resolve.go`).

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ScalarKind {
    Text,
    Null,
    Bool(bool),
    Whole(i128),
    Float,
}

impl ScalarKind {
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Null => "nothing",
            Self::Bool(_) => "a boolean",
            Self::Whole(_) | Self::Float => "a number",
        }
    }
}

/// What a scalar without quotes is.
pub(super) fn kind(text: &str) -> ScalarKind {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => ScalarKind::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => {
            ScalarKind::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => {
            ScalarKind::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" => ScalarKind::Float,
        _ => number(text).unwrap_or(ScalarKind::Text),
    }
}

fn number(text: &str) -> Option<ScalarKind> {
    let (negative, bare) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if !bare.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let digits = bare.replace('_', "");
    if let Some(whole) = whole(&digits) {
        return Some(ScalarKind::Whole(if negative { -whole } else { whole }));
    }
    let is_infinite = [".inf", ".Inf", ".INF"].contains(&digits.as_str());
    (is_infinite || is_float(&digits)).then_some(ScalarKind::Float)
}

fn whole(digits: &str) -> Option<i128> {
    let prefixes = [("0x", 16), ("0X", 16), ("0b", 2), ("0B", 2), ("0o", 8), ("0O", 8), ("0", 8)];
    let based = prefixes.iter().find_map(|(prefix, base)| {
        let rest = digits.strip_prefix(prefix)?;
        let is_number = !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_number.then(|| i128::from_str_radix(rest, *base).ok())?
    });
    let is_decimal = digits == "0" || !digits.starts_with('0');
    let is_decimal = is_decimal && digits.bytes().all(|byte| byte.is_ascii_digit());
    based.or_else(|| digits.parse().ok().filter(|_| is_decimal))
}

/// `^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`
fn is_float(text: &str) -> bool {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa_fits = match mantissa.split_once('.') {
        Some((whole, part)) => digits(whole) && digits(part) && !(whole.is_empty() && part.is_empty()),
        None => !mantissa.is_empty() && digits(mantissa),
    };
    let exponent_fits = exponent.is_none_or(|exponent| {
        let bare = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !bare.is_empty() && digits(bare)
    });
    mantissa_fits && exponent_fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_are_what_kubernetes_takes_them_for() {
        let check = |text: &str, expected: ScalarKind| assert_eq!(kind(text), expected, "{text:?}");
        for text in
            ["15090,15021", "10.0.0.0/8", "*", "1.8.9", "12:30", "0x", "-", "+", ".", "1e", "0o9", "-x", "é"]
        {
            check(text, ScalarKind::Text);
        }
        check("15001", ScalarKind::Whole(15001));
        check("01337", ScalarKind::Whole(0o1337));
        check("0o2471", ScalarKind::Whole(0o2471));
        check("0x539", ScalarKind::Whole(1337));
        check("0b11", ScalarKind::Whole(3));
        check("1_337", ScalarKind::Whole(1337));
        check("-1", ScalarKind::Whole(-1));
        check("0", ScalarKind::Whole(0));
        // No octal digits: YAML 1.1 makes a float of it.
        check("089", ScalarKind::Float);
        check("1.5", ScalarKind::Float);
        check("1e3", ScalarKind::Float);
        check("-.inf", ScalarKind::Float);
        check(".5", ScalarKind::Float);
        check("1.", ScalarKind::Float);
        check("1.5e-3", ScalarKind::Float);
        check("+1", ScalarKind::Whole(1));
        check("-0x10", ScalarKind::Whole(-16));
        for text in ["0x-1", "0b2", "+x", "1.x", "1-.5", "1.2.3", "1ex", "1e+", "12a", "+.inf.", "inf"] {
            check(text, ScalarKind::Text);
        }
        check("+.Inf", ScalarKind::Float);
        check(".NaN", ScalarKind::Float);
        check("", ScalarKind::Null);
        check("~", ScalarKind::Null);
        check("yes", ScalarKind::Bool(true));
        check("off", ScalarKind::Bool(false));
        check("True", ScalarKind::Bool(true));
        check("tRUE", ScalarKind::Text);
    }
}
