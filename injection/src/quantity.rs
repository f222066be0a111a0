//! Quantities of Kubernetes: `100m`, `1.5Gi`, `1e3` (`apimachinery`, `pkg/api/resource/quantity.go`).

/// What units a quantity may have. An exponent is one too, and read apart.
const UNITS: [&str; 16] =
    ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Whether a text is an amount of a resource.
///
/// # Errors
/// What is wrong with it and what would be right.
pub(crate) fn check(text: &str) -> Result<(), &'static str> {
    const FORM: &str = "is no quantity; expected a number and perhaps a unit, such as 100m, 0.5, 128Mi or 1G";
    let (negative, bare) = match text.strip_prefix(['+', '-']) {
        Some(bare) => (text.starts_with('-'), bare),
        None => (false, text),
    };
    let end = bare.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(bare.len());
    let (number, unit) = bare.split_at(end);
    let is_number = number.bytes().any(|byte| byte.is_ascii_digit()) && number.matches('.').count() <= 1;
    if !is_number || !(UNITS.contains(&unit) || is_exponent(unit)) {
        return Err(FORM);
    }
    if negative && number.bytes().any(|byte| (b'1'..=b'9').contains(&byte)) {
        return Err("is negative; Kubernetes takes no such amount");
    }
    Ok(())
}

fn is_exponent(unit: &str) -> bool {
    let digits = unit.strip_prefix(['e', 'E']).map(|rest| rest.strip_prefix(['+', '-']).unwrap_or(rest));
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_those_of_kubernetes() {
        for good in ["0", "100m", "1.5Gi", ".5", "5.", "+1k", "1e3", "1E-3", "2E", "128Mi", "-0"] {
            assert_eq!(check(good), Ok(()), "{good:?}");
        }
        for bad in
            ["", "x", "1 Gi", "1gi", "1..5", ".", "1KB", "Mi", "0x1", "1e", "1e+", "1mi", " 1", "-5", "１"]
        {
            assert!(check(bad).is_err(), "{bad:?}");
        }
    }
}
