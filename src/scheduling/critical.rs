//! Which pods a cluster does not work without: by their priority class, and by the priority that it stands for.

use crate::model::pod::PodSpec;

/// The classes that every cluster has, and their values.
///
/// `SystemPriorityClasses`, pkg/apis/scheduling/v1/helpers.go, release 1.37.2.
pub const SYSTEM_CLASSES: [(&str, i32); 2] =
    [("system-cluster-critical", SYSTEM_CRITICAL), ("system-node-critical", HIGHEST_PRIORITY)];

/// The priority from which on a pod is critical: `SystemCriticalPriority`, pkg/apis/scheduling/types.go, release 1.37.2.
pub const SYSTEM_CRITICAL: i32 = 2_000_000_000;

/// The highest priority that a class has.
pub const HIGHEST_PRIORITY: i32 = 2_000_001_000;

/// Returns the value of a class that every cluster has.
pub fn system_priority(class: &str) -> Option<i32> {
    SYSTEM_CLASSES.iter().find(|(name, _)| *name == class).map(|(_, value)| *value)
}

/// Returns whether a pod has at least a priority. A template names a class, whose value the API server writes into the pod.
///
/// Ported from `IsCriticalPodBasedOnPriority`, pkg/kubelet/types/pod_update.go, release 1.37.2, for [`SYSTEM_CRITICAL`].
pub fn has_priority(spec: &PodSpec, least: i32) -> bool {
    let priority = spec.priority.or_else(|| system_priority(&spec.priority_class_name));
    priority.is_some_and(|priority| priority >= least)
}

#[cfg(test)]
mod tests {
    use super::{SYSTEM_CRITICAL, has_priority};
    use crate::model::pod::PodSpec;

    #[test]
    fn a_pod_is_critical_by_its_class_or_its_priority() {
        for (class, priority, expected) in [
            ("", None, false),
            ("system-node-critical", None, true),
            ("system-cluster-critical", None, true),
            ("system-cluster-critical", Some(2_000_000_000), true),
            ("system-node-critical", Some(2_000_001_000), true),
            ("", Some(2_000_000_000), true),
            ("", Some(1_999_999_999), false),
            ("high", Some(1_000_000_000), false),
            ("high", None, false),
            ("system-node-critica", None, false),
        ] {
            let spec = PodSpec { priority_class_name: class.to_owned(), priority, ..PodSpec::default() };
            assert_eq!(has_priority(&spec, SYSTEM_CRITICAL), expected, "{class} {priority:?}");
        }
    }
}
