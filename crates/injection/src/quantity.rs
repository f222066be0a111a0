//! Quantities of Kubernetes: `100m`, `1.5Gi`, `1e3` (`apimachinery`, `pkg/api/resource/quantity.go`).

/// An exponent is a unit too, and read apart.
const UNITS: [(&str, f64); 16] = [
    ("", 1.0),
    ("n", 1e-9),
    ("u", 1e-6),
    ("m", 1e-3),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("E", 1e18),
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("Pi", 1_125_899_906_842_624.0),
    ("Ei", 1_152_921_504_606_846_976.0),
];

/// An amount of a resource, in its unit without a prefix.
pub(crate) fn read(text: &str) -> Result<f64, &'static str> {
    const FORM: &str =
        "is not a quantity; expected a number and perhaps a unit, such as 100m, 0.5, 128Mi or 1G";
    let (negative, bare) = match text.strip_prefix(['+', '-']) {
        Some(bare) => (text.starts_with('-'), bare),
        None => (false, text),
    };
    let end = bare.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(bare.len());
    let (number, unit) = bare.split_at(end);
    let is_number = number.bytes().any(|byte| byte.is_ascii_digit()) && number.matches('.').count() <= 1;
    let factor = UNITS.iter().find(|(known, _)| *known == unit).map(|(_, factor)| *factor);
    let factor = factor.or_else(|| is_exponent(unit).then(|| format!("1{unit}").parse().ok()).flatten());
    let Some(factor) = factor.filter(|_| is_number) else { return Err(FORM) };
    if negative && number.bytes().any(|byte| (b'1'..=b'9').contains(&byte)) {
        return Err("is negative; Kubernetes takes no such amount");
    }
    let bare: f64 = number.parse().map_err(|_| FORM)?;
    Ok(bare * factor)
}

/// By more than a rounding: 0.7 and 700m are one.
pub(crate) fn is_more(one: f64, other: f64) -> bool {
    one > other * (1.0 + 1e-9)
}

fn is_exponent(unit: &str) -> bool {
    let digits = unit.strip_prefix(['e', 'E']).map(|rest| rest.strip_prefix(['+', '-']).unwrap_or(rest));
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A number of seconds or failures, which the API holds in 32 bits with a sign.
pub(crate) fn count(text: &str) -> Option<u32> {
    text.parse().ok().filter(|count| *count <= i32::MAX.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let read = read(good).expect(good);
            assert!(!is_more(read, amount) && !is_more(amount, read), "{good:?} is {read}");
        }
        for bad in
            ["", "x", "1 Gi", "1gi", "1..5", ".", "1KB", "Mi", "0x1", "1e", "1e+", "1mi", " 1", "-5", "１"]
        {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
