//! k8s.io/api/core/v1/toleration_test.go

use kubectl_ds::model::node::Taint;
use kubectl_ds::model::pod::Toleration;
use kubectl_ds::scheduling::taints::{tolerates, tolerates_with_comparison_operators};
use serde::Deserialize;

use super::rows;

/// TestTolerationToleratesTaint
#[test]
fn tolerations_bear_the_taints_that_they_bear_upstream() {
    #[derive(Deserialize)]
    struct Row {
        name: String,
        /// Whether the feature gate TaintTolerationComparisonOperators is on.
        gate: bool,
        toleration: Toleration,
        taint: Taint,
        want: bool,
    }
    for Row { name, gate, toleration, taint, want } in rows(include_str!("tolerations.json")) {
        let tolerated = match gate {
            true => tolerates_with_comparison_operators(&toleration, &taint),
            false => tolerates(&toleration, &taint),
        };
        assert_eq!(tolerated, want, "{name}");
    }
}

/// TestCompareNumericValues; the rows with other operators compare values in their own way.
#[test]
fn numbers_compare_as_they_do_upstream() {
    #[derive(Deserialize)]
    struct Row {
        name: String,
        operator: String,
        /// The toleration's value, and the taint's.
        toleration: String,
        taint: String,
        want: bool,
    }
    for Row { name, operator, toleration, taint, want } in rows(include_str!("numeric_tolerations.json")) {
        if !matches!(operator.as_str(), "Gt" | "Lt") {
            continue;
        }
        let toleration = Toleration { operator, value: toleration, ..Toleration::default() };
        let taint = Taint { value: taint, ..Taint::default() };
        assert_eq!(tolerates_with_comparison_operators(&toleration, &taint), want, "{name}");
        assert!(!tolerates(&toleration, &taint), "{name}: the gate is off by default");
    }
}
