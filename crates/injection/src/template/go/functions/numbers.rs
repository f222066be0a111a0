//! Functions of numbers: whole ones, as sprig's, that don't overflow in silence, and how decimal ones are rounded.

use super::{ANY, FunctionResult, functions, text, whole};
use gtmpl_ng::Value;

functions! {
    "int" | "int64" reads 1..=1, |args| Ok(whole(&args[0]).into());
    "atoi" reads 1..=1, |args| Ok(text(&args[0]).parse().unwrap_or(0_i64).into());
    "float64" reads 1..=1, |args| Ok(float(&args[0]).into());
    "add" reads 0..=ANY, |args| folded(args, i64::checked_add);
    "add1" reads 1..=1, |args| folded(&[args[0].clone(), 1.into()], i64::checked_add);
    "sub" reads 2..=2, |args| folded(args, i64::checked_sub);
    "mul" reads 1..=ANY, |args| folded(args, i64::checked_mul);
    "div" reads 2..=2, |args| folded(args, i64::checked_div);
    "mod" reads 2..=2, |args| folded(args, i64::checked_rem);
    "max" | "biggest" reads 1..=ANY, |args| folded(args, |one, other| Some(one.max(other)));
    "min" reads 1..=ANY, |args| folded(args, |one, other| Some(one.min(other)));
    "ceil" reads 1..=1, |args| Ok(float(&args[0]).ceil().into());
    "floor" reads 1..=1, |args| Ok(float(&args[0]).floor().into());
    "round" reads 2..=3, |args| {
        let places = i32::try_from(whole(&args[1]).clamp(-300, 300)).unwrap_or(0);
        let scaled = float(&args[0]) * 10_f64.powi(places);
        // Where it rounds up; a negative number has no part that reaches it.
        let up = scaled.fract() >= args.get(2).map_or(0.5, float);
        let rounded = if up { scaled.ceil() } else { scaled.floor() };
        Ok((rounded / 10_f64.powi(places)).into())
    };
}

fn folded(args: &[Value], step: fn(i64, i64) -> Option<i64>) -> FunctionResult {
    let mut numbers = args.iter().map(whole);
    let first = numbers.next().unwrap_or(0);
    let outcome = numbers.try_fold(first, step);
    outcome.map(Value::from).ok_or_else(|| "divides by zero or leaves the range of whole numbers".to_owned())
}

fn float(value: &Value) -> f64 {
    match value {
        Value::Bool(is) => f64::from(u8::from(*is)),
        other => text(other).trim().parse().unwrap_or(0.0),
    }
}
