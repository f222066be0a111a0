//! Syntax of Kubernetes' labels and quantities, of DNS names and of HTTP header names, used in labels, routes, scripts and
//! manifests.

use std::borrow::Cow;

const MAX_LENGTH: usize = 63;

pub(crate) const LABEL_VALUE: &str =
    "expected up to 63 letters, digits, -, _ and ., with a letter or a digit at both ends";

/// True for a nonempty label value: up to 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends.
pub fn is_label_value(text: &str) -> bool {
    let is_end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.len() <= MAX_LENGTH
        && is_end(text.bytes().next())
        && is_end(text.bytes().last())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// True for a name in label value syntax, after an optional DNS name and slash.
pub fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_domain(prefix) && is_label_value(name),
        None => is_label_value(text),
    }
}

/// True for a lowercase DNS name, the format of Kubernetes' names (RFC 1123).
pub fn is_domain(text: &str) -> bool {
    let is_label = |label: &str| {
        is_label_value(label)
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

/// True for an HTTP token, such as a header name (RFC 9110, section 5.6.2); tokens need no escapes in script strings.
pub fn is_token(text: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token)
}

pub const LABEL_KEY: &str = "expected a label key, such as virtual-env or example.com/env";

/// Units of quantities (`apimachinery`, `pkg/api/resource/quantity.go`), each 1000 times the previous one.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// Each 1024 times the previous one; the first is 1024.
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Parses a resource amount, such as `100m`, `1.5Gi` and `1e3`, in its base unit.
pub(crate) fn quantity(text: &str) -> Result<f64, &'static str> {
    const FORM: &str =
        "is not a quantity; expected a number with an optional unit, such as 100m, 0.5, 128Mi or 1G";
    let (negative, bare) = match text.strip_prefix(['+', '-']) {
        Some(bare) => (text.starts_with('-'), bare),
        None => (false, text),
    };
    let (number, unit) = number_and_unit(bare);
    let is_number = number.bytes().any(|byte| byte.is_ascii_digit()) && number.matches('.').count() <= 1;
    let decimal = place(&DECIMAL, unit).map(|at| 1000_f64.powi(at - 3));
    let factor = decimal.or(place(&BINARY, unit).map(|at| 1024_f64.powi(at + 1)));
    // An exponent is also a unit.
    let factor = factor.or_else(|| is_exponent(unit).then(|| format!("1{unit}").parse().ok()).flatten());
    let Some(factor) = factor.filter(|_| is_number) else { return Err(FORM) };
    if negative && number.bytes().any(|byte| (b'1'..=b'9').contains(&byte)) {
        return Err("is negative; expected 0 or more");
    }
    let bare: f64 = number.parse().map_err(|_| FORM)?;
    Ok(bare * factor)
}

fn number_and_unit(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()))
}

fn place(units: &[&str], unit: &str) -> Option<i32> {
    units.iter().zip(0..).find(|(known, _)| **known == unit).map(|(_, at)| at)
}

/// A quantity in Go's format (`Quantity.String`): an integer in the largest possible unit, `100m` for `0.1` and `2Gi` for
/// `2048Mi`. Exponents, and invalid or out-of-range quantities, stay unchanged.
pub(crate) fn canonical_quantity(text: &str) -> Cow<'_, str> {
    canonical(text).map_or(Cow::Borrowed(text), Cow::Owned)
}

fn canonical(text: &str) -> Option<String> {
    let (number, unit) = number_and_unit(text);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut mantissa: u128 = format!("{whole}{fraction}").parse().ok()?;
    let mut exponent = match place(&BINARY, unit) {
        Some(power) => {
            let divisor = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
            mantissa = mantissa.checked_mul(1 << (10 * (power + 1)))?.div_ceil(divisor);
            let times = mantissa.trailing_zeros().min(60) / 10;
            if mantissa >= 1024 {
                let unit = times.checked_sub(1).map_or("", |at| BINARY[at as usize]);
                return Some(format!("{}{unit}", mantissa >> (10 * times)));
            }
            0
        }
        None => 3 * place(&DECIMAL, unit)? - 9 - i32::try_from(fraction.len()).ok()?,
    };
    while mantissa != 0 && mantissa.is_multiple_of(10) {
        (mantissa, exponent) = (mantissa / 10, exponent + 1);
    }
    while exponent % 3 != 0 || exponent > 18 {
        (mantissa, exponent) = (mantissa.checked_mul(10)?, exponent - 1);
    }
    let unit = if mantissa == 0 { "" } else { DECIMAL.get(usize::try_from(exponent / 3 + 3).ok()?)? };
    Some(format!("{mantissa}{unit}"))
}

/// Compares without rounding errors: 0.7 equals 700m.
pub(crate) fn is_more(one: f64, other: f64) -> bool {
    one > other * (1.0 + 1e-9)
}

fn is_exponent(unit: &str) -> bool {
    let digits = unit.strip_prefix(['e', 'E']).map(|rest| rest.strip_prefix(['+', '-']).unwrap_or(rest));
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Parses a number of seconds or failures, a signed 32-bit API integer.
pub(crate) fn count(text: &str) -> Option<u32> {
    text.parse().ok().filter(|count| *count <= i32::MAX.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_written_as_go_writes_them() {
        for (given, expected) in [
            ("0.1", "100m"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("2000", "2k"),
            ("1000000k", "1G"),
            ("1024", "1024"),
            ("2048Mi", "2Gi"),
            ("1536Mi", "1536Mi"),
            ("0.5Gi", "512Mi"),
            ("0.5Ki", "512"),
            ("1.0001Ki", "1025"),
            ("1e3", "1e3"),
            ("0.000", "0"),
            ("100E", "100E"),
            ("1000E", "1000E"),
        ] {
            assert_eq!(canonical_quantity(given), expected, "{given}");
        }
    }

    #[test]
    fn words_have_their_forms() {
        let long = "x".repeat(64);
        for (text, value, key, domain, token) in [
            ("virtual-env", true, true, true, true),
            ("a.b/c_d", false, true, false, false),
            ("A_b", true, true, false, true),
            ("-a", false, false, false, true),
            ("", false, false, false, false),
            ("a b", false, false, false, false),
            ("a/b/c", false, false, false, false),
            ("a\"", false, false, false, false),
            ("a\\", false, false, false, false),
            ("a\n", false, false, false, false),
            (":authority", false, false, false, false),
            (&long, false, false, false, true),
        ] {
            let found = (is_label_value(text), is_label_key(text), is_domain(text), is_token(text));
            assert_eq!(found, (value, key, domain, token), "{text:?}");
        }
    }

    #[test]
    fn quantities_are_those_of_kubernetes() {
        for (good, amount) in [
            ("0", 0.0),
            ("100m", 0.1),
            ("1.5Gi", 1_610_612_736.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("+1k", 1000.0),
            ("1e3", 1000.0),
            ("1E-3", 0.001),
            ("2E", 2e18),
            ("128Mi", 134_217_728.0),
            ("-0", 0.0),
        ] {
            let read = quantity(good).expect(good);
            assert!(!is_more(read, amount) && !is_more(amount, read), "{good:?} is {read}");
        }
        for bad in
            ["", "x", "1 Gi", "1gi", "1..5", ".", "1KB", "Mi", "0x1", "1e", "1e+", "1mi", " 1", "-5", "１"]
        {
            assert!(quantity(bad).is_err(), "{bad:?}");
        }
    }
}
