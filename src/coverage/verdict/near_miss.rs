//! Near misses: what almost matches, so that it is likely a mistake.

use std::collections::BTreeMap;

use strsim::osa_distance;

use crate::model::node::Taint;
use crate::model::pod::Toleration;
use crate::scheduling::taints::tolerates;

/// Label keys and their deprecated equivalents.
const LEGACY_KEYS: &[(&str, &str)] = &[
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
    ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"),
    ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
    ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"),
];

/// Returns the same label under its other prefix.
fn other_prefix(key: &str) -> Option<&'static str> {
    LEGACY_KEYS.iter().find_map(|(new, old)| {
        if key == *new {
            Some(*old)
        } else if key == *old {
            Some(*new)
        } else {
            None
        }
    })
}

/// Returns the label of the node that was likely meant by a key that it does not have: the same label
/// under its other prefix, or one that differs in case or by a typo.
pub fn near_key<'a>(key: &str, labels: &'a BTreeMap<String, String>) -> Option<(&'a str, &'a str)> {
    let other = other_prefix(key);
    let same = labels.iter().find(|(label, _)| Some(label.as_str()) == other);
    let typo = || labels.iter().find(|(label, _)| is_key_typo(key, label));
    same.or_else(typo).map(|(label, value)| (label.as_str(), value.as_str()))
}

/// Returns whether two keys differ by a typo in the prefix or in the name: a long prefix does not make `gpu` out of `cpu`.
fn is_key_typo(a: &str, b: &str) -> bool {
    let ((a_prefix, a_name), (b_prefix, b_name)) = (parts(a), parts(b));
    (a_prefix == b_prefix && is_typo(a_name, b_name)) || (a_name == b_name && is_typo(a_prefix, b_prefix))
}

fn parts(key: &str) -> (&str, &str) {
    key.rsplit_once('/').unwrap_or(("", key))
}

/// Returns whether one value was likely meant by another: they differ in case, or by a typo, or both say only that something is there, as
/// the roles of nodes do.
///
/// Values that differ in one letter alone, such as `us-east-1a` and `us-east-1b`, differ on purpose.
pub fn is_near_value(wanted: &str, actual: &str) -> bool {
    let differing = wanted.chars().zip(actual.chars()).filter(|(a, b)| !a.eq_ignore_ascii_case(b)).count();
    let one_letter = wanted.chars().count() == actual.chars().count() && differing == 1;
    (!one_letter && is_typo(wanted, actual)) || matches!((wanted, actual), ("true", "") | ("", "true"))
}

/// Returns the name that is likely meant by one that does not exist.
pub fn near_name<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known.filter(|name| is_typo(wanted, name)).min_by_key(|name| osa_distance(wanted, name))
}

/// Returns whether two different texts differ in case only, or in one or two letters of many.
fn is_typo(a: &str, b: &str) -> bool {
    let allowed = match a.len().min(b.len()) {
        0..=3 => 0,
        4..=7 => 1,
        _ => 2,
    };
    // Lengths rule out nearly every pair, before anything is compared.
    if a == b || a.is_empty() || b.is_empty() || a.len().abs_diff(b.len()) > allowed {
        return false;
    }
    if a.eq_ignore_ascii_case(b) {
        return true;
    }
    // Names that differ in a number, such as zone-1 and zone-2, differ on purpose.
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    digits(a) == digits(b) && osa_distance(&a.to_lowercase(), &b.to_lowercase()) <= allowed
}

/// Returns a toleration that was likely meant for a taint, and what is wrong with it.
pub fn near_toleration<'a>(taint: &Taint, tolerations: &'a [Toleration]) -> Option<(&'a Toleration, String)> {
    tolerations.iter().find_map(|toleration| {
        if tolerates(toleration, taint) {
            return None;
        }
        let with_effect = Toleration { effect: taint.effect.clone(), ..toleration.clone() };
        let with_value = Toleration { value: taint.value.clone(), ..toleration.clone() };
        let with_key = Toleration { key: taint.key.clone(), ..toleration.clone() };
        let wrong = if toleration.key == taint.key && tolerates(&with_effect, taint) {
            format!("effect {} instead of {}", toleration.effect, taint.effect)
        } else if toleration.key == taint.key && tolerates(&with_value, taint) {
            format!("value {:?} instead of {:?}", toleration.value, taint.value)
        } else if toleration.key == taint.key {
            "another value and effect".to_owned()
        } else if tolerates(&with_key, taint) && is_near_key(&toleration.key, &taint.key) {
            format!("key {} instead of {}", toleration.key, taint.key)
        } else {
            return None;
        };
        Some((toleration, wrong))
    })
}

fn is_near_key(a: &str, b: &str) -> bool {
    is_key_typo(a, b) || other_prefix(a) == Some(b)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{is_near_value, near_key, near_name, near_toleration};
    use crate::model::node::Taint;
    use crate::model::pod::Toleration;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_label_under_its_legacy_prefix_is_found() {
        let node = labels(&[("kubernetes.io/os", "linux"), ("other", "x")]);
        assert_eq!(near_key("beta.kubernetes.io/os", &node), Some(("kubernetes.io/os", "linux")));
        let node = labels(&[("node-role.kubernetes.io/master", "")]);
        assert!(near_key("node-role.kubernetes.io/control-plane", &node).is_some());
    }

    #[test]
    fn a_typo_in_a_key_is_found_and_chance_is_not() {
        let node = labels(&[("example.com/Storage", "ssd"), ("zone", "a")]);
        assert_eq!(near_key("example.com/storage", &node), Some(("example.com/Storage", "ssd")));
        assert_eq!(near_key("example.com/stroage", &node), Some(("example.com/Storage", "ssd")));
        assert_eq!(near_key("pool", &node), None);
    }

    #[test]
    fn values_that_count_up_are_no_typo() {
        assert!(!is_near_value("us-east-1a", "us-east-1b"), "one letter of a short suffix is a choice");
        assert!(!is_near_value("zone-1", "zone-2"));
        assert!(!is_near_value("linux", "linux"));
        assert!(is_near_value("linux", "Linux"));
        assert!(is_near_value("linux", "linxu"));
        assert!(is_near_value("true", "") && is_near_value("", "true") && !is_near_value("false", ""));
    }

    #[test]
    fn the_closest_name_is_meant() {
        assert_eq!(
            near_name("system-node-critcal", ["system-node-critical", "other"].into_iter()),
            Some("system-node-critical")
        );
        assert_eq!(near_name("gvisor", ["kata", "runc"].into_iter()), None);
        assert_eq!(near_name("gvisor", ["advisor"].into_iter()), None, "two letters of six are too many");
    }

    #[test]
    fn a_toleration_with_the_wrong_effect_or_value_is_close() {
        let taint = Taint {
            key: "dedicated".to_owned(),
            value: "gpu".to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        };
        let toleration = |operator: &str, value: &str, effect: &str| Toleration {
            key: "dedicated".to_owned(),
            operator: operator.to_owned(),
            value: value.to_owned(),
            effect: effect.to_owned(),
            ..Toleration::default()
        };
        let wrong = |toleration| near_toleration(&taint, &[toleration]).map(|(_, wrong)| wrong);
        assert_eq!(
            wrong(toleration("Exists", "", "NoExecute")).as_deref(),
            Some("effect NoExecute instead of NoSchedule")
        );
        assert_eq!(
            wrong(toleration("Equal", "cpu", "NoSchedule")).as_deref(),
            Some("value \"cpu\" instead of \"gpu\"")
        );
        assert_eq!(wrong(toleration("Equal", "cpu", "NoExecute")).as_deref(), Some("another value and effect"));
        assert_eq!(wrong(toleration("Exists", "", "NoSchedule")), None, "it tolerates the taint");
    }

    #[test]
    fn a_label_that_only_resembles_the_wanted_one_is_another() {
        let node = labels(&[
            ("storage.example.org/tier", "gold"),
            ("nvidia.com/gpu", "true"),
            ("intel.feature.node.kubernetes.io/cpu", "true"),
        ]);
        assert_eq!(near_key("example.com/tier", &node), None);
        assert_eq!(near_key("intel.feature.node.kubernetes.io/gpu", &node), None);
        assert!(near_key("intel.faeture.node.kubernetes.io/cpu", &node).is_some());
    }

    #[test]
    fn a_toleration_of_another_key_is_close_if_the_keys_are() {
        let taint = Taint {
            key: "node-role.kubernetes.io/control-plane".to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        };
        for (key, effect, close) in [
            ("node-role.kubernetes.io/master", "NoSchedule", true),
            ("node-role.kubernetes.io/controlplane", "NoSchedule", true),
            ("node-role.kubernetes.io/master", "NoExecute", false),
            ("dedicated", "NoSchedule", false),
        ] {
            let (key, effect, operator) = (key.to_owned(), effect.to_owned(), "Exists".to_owned());
            let toleration = Toleration { key, effect, operator, ..Toleration::default() };
            assert_eq!(near_toleration(&taint, std::slice::from_ref(&toleration)).is_some(), close, "{toleration:?}");
        }
    }
}
