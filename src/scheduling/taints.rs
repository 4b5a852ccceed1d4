//! Taints and tolerations.

use crate::model::node::Taint;
use crate::model::pod::{PodSpec, Toleration};

/// Whether a DaemonSet's pods tolerate a NoSchedule or NoExecute taint.
#[derive(Debug, Clone, PartialEq)]
pub struct TaintOutcome {
    /// The taint.
    pub taint: Taint,
    /// The first toleration that matches it, if any.
    pub tolerated_by: Option<TolerationRef>,
    /// Whether an `Lt` or `Gt` toleration would match it if the feature gate
    /// TaintTolerationComparisonOperators, alpha and off by default, were on.
    pub depends_on_gate: bool,
}

impl TaintOutcome {
    /// Returns whether the taint is untolerated.
    pub fn is_untolerated(&self) -> bool {
        self.tolerated_by.is_none()
    }
}

/// A toleration of a daemon pod, and whose it is.
#[derive(Debug, Clone, PartialEq)]
pub struct TolerationRef {
    /// The toleration.
    pub toleration: Toleration,
    /// Whether the controller adds it to every daemon pod, rather than the template asking for it.
    pub automatic: bool,
}

/// Returns whether a toleration matches a taint, with the comparison operators' feature gate off.
///
/// Ported from `Toleration.ToleratesTaint`, k8s.io/api/core/v1/toleration.go, release 1.37.2.
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    concerns(toleration, taint)
        && match toleration.operator.as_str() {
            "" | "Equal" => toleration.value == taint.value,
            "Exists" => true,
            _ => false,
        }
}

/// Returns whether a taint keeps a pod with these tolerations from being scheduled.
pub fn repels(taint: &Taint, tolerations: &[Toleration]) -> bool {
    matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
        && !tolerations.iter().any(|toleration| tolerates(toleration, taint))
}

/// Returns whether a toleration matches a taint if the feature gate TaintTolerationComparisonOperators is on.
///
/// Ported from `Toleration.ToleratesTaint`, k8s.io/api/core/v1/toleration.go, release 1.37.2.
pub fn tolerates_with_comparison_operators(toleration: &Toleration, taint: &Taint) -> bool {
    let numbers = || Some((decimal_integer(&taint.value)?, decimal_integer(&toleration.value)?));
    match toleration.operator.as_str() {
        "Lt" => concerns(toleration, taint) && numbers().is_some_and(|(taint, bound)| taint < bound),
        "Gt" => concerns(toleration, taint) && numbers().is_some_and(|(taint, bound)| taint > bound),
        _ => tolerates(toleration, taint),
    }
}

fn concerns(toleration: &Toleration, taint: &Taint) -> bool {
    (toleration.effect.is_empty() || toleration.effect == taint.effect)
        && (toleration.key.is_empty() || toleration.key == taint.key)
}

/// Reads a canonical decimal: no plus sign, no leading zeros, no minus zero.
///
/// Ported from `IsDecimalInteger`, k8s.io/apimachinery/pkg/api/validate/content/decimal_int.go,
/// release 1.37.2.
fn decimal_integer(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    (text == "0" || digits.starts_with(|first| ('1'..='9').contains(&first))).then_some(number)
}

/// Returns the tolerations that the controller adds to every pod that it creates.
///
/// Ported from `AddOrUpdateDaemonPodTolerations`, pkg/controller/daemon/util/daemonset_util.go,
/// release 1.37.2.
pub fn automatic_tolerations(host_network: bool) -> Vec<Toleration> {
    let always = [
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ];
    let network = host_network.then_some(("node.kubernetes.io/network-unavailable", "NoSchedule"));
    always
        .into_iter()
        .chain(network)
        .map(|(key, effect)| Toleration {
            key: key.to_owned(),
            operator: "Exists".to_owned(),
            value: String::new(),
            effect: effect.to_owned(),
            toleration_seconds: None,
        })
        .collect()
}

/// Returns the tolerations of the pods that the controller creates from a template.
///
/// An automatic toleration takes the place of each that is the same but for its seconds, or else
/// comes last. Ported from `AddOrUpdateDaemonPodTolerations`,
/// pkg/controller/daemon/util/daemonset_util.go, and `AddOrUpdateTolerationInPodSpec`,
/// pkg/apis/core/v1/helper/helpers.go, release 1.37.2.
pub fn daemon_tolerations(spec: &PodSpec) -> Vec<Toleration> {
    let mut tolerations = spec.tolerations.clone();
    for automatic in automatic_tolerations(spec.host_network) {
        let mut replaced = false;
        for toleration in tolerations.iter_mut().filter(|toleration| is_same_but_for_seconds(toleration, &automatic)) {
            toleration.toleration_seconds = None;
            replaced = true;
        }
        if !replaced {
            tolerations.push(automatic);
        }
    }
    tolerations
}

/// Ported from `Toleration.MatchToleration`, k8s.io/api/core/v1/toleration.go, release 1.37.2.
fn is_same_but_for_seconds(a: &Toleration, b: &Toleration) -> bool {
    a.key == b.key && a.effect == b.effect && a.operator == b.operator && a.value == b.value
}
