//! The time of day, as objects of Kubernetes write it.

use k8s_openapi::jiff::Timestamp;

/// Now, to the microsecond (`metav1.MicroTime`).
pub(super) fn micro() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// Now, to the second (`metav1.Time`).
pub(super) fn second() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_kubernetes() {
        let (micro, second) = (micro(), second());
        assert_eq!(
            (micro.len(), second.len()),
            ("2026-01-01T00:00:00.000000Z".len(), "2026-01-01T00:00:00Z".len())
        );
        assert!(micro.parse::<Timestamp>().is_ok() && second.parse::<Timestamp>().is_ok());
    }
}
