//! Functions of numbers: whole ones, as sprig's, that don't overflow in silence.

use super::{Answer, functions, text, whole};
use gtmpl_ng::{NumberKind, Value};

functions! {
    "int" reads 1..=1 |args| Ok(whole(&args[0]).into());
    "int64" reads 1..=1 |args| Ok(whole(&args[0]).into());
    "atoi" reads 1..=1 |args| Ok(whole(&text(&args[0]).into()).into());
    "float64" reads 1..=1 |args| Ok(float(&args[0]).into());
    "add" reads 1..=any |args| folded(args, i64::checked_add);
    "add1" reads 1..=1 |args| folded(&[args[0].clone(), 1.into()], i64::checked_add);
    "sub" reads 2..=2 |args| folded(args, i64::checked_sub);
    "mul" reads 1..=any |args| folded(args, i64::checked_mul);
    "div" reads 2..=2 |args| folded(args, i64::checked_div);
    "mod" reads 2..=2 |args| folded(args, i64::checked_rem);
    "max" reads 1..=any |args| folded(args, |one, other| Some(one.max(other)));
    "min" reads 1..=any |args| folded(args, |one, other| Some(one.min(other)));
    "ceil" reads 1..=1 |args| Ok(float(&args[0]).ceil().into());
    "floor" reads 1..=1 |args| Ok(float(&args[0]).floor().into());
    "round" reads 2..=2 |args| {
        let places = i32::try_from(whole(&args[1]).clamp(-300, 300)).unwrap_or(0);
        let scale = 10_f64.powi(places);
        Ok(((float(&args[0]) * scale).round() / scale).into())
    };
}

fn folded(args: &[Value], step: fn(i64, i64) -> Option<i64>) -> Answer {
    let mut numbers = args.iter().map(whole);
    let first = numbers.next().unwrap_or(0);
    let outcome = numbers.try_fold(first, step);
    outcome.map(Value::from).ok_or_else(|| "divides by zero or leaves the range of whole numbers".to_owned())
}

fn float(value: &Value) -> f64 {
    match value {
        Value::Number(number) => match number.kind() {
            NumberKind::Float(number) => number,
            NumberKind::Signed(number) => number as f64,
            NumberKind::Unsigned(number) => number as f64,
        },
        other => text(other).trim().parse().unwrap_or(0.0),
    }
}

/// Without the part behind the point; the nearest that fits where it is out of range.
#[expect(clippy::cast_possible_truncation, reason = "the cast is the saturating one that is wanted")]
pub(super) fn truncated(number: f64) -> i64 {
    number.trunc() as i64
}
