//! Names that are not there, and those that may have been meant.

use super::error::ClusterError;
use super::{Flavors, Query};
use crate::model::daemon_set::DaemonSet;

/// How many near names are offered at most.
const OFFERED: usize = 5;

/// Makes the error for a DaemonSet that is not there, with the near ones of those that are.
pub fn unknown_daemon_set<'a>(
    name: &str,
    namespace: Option<&str>,
    existing: impl IntoIterator<Item = &'a str>,
) -> ClusterError {
    let near = near(name, existing);
    ClusterError::NotFound {
        resource: "daemonsets.apps",
        name: name.to_owned(),
        namespace: namespace.map(str::to_owned),
        near,
    }
}

/// Makes the error for a DaemonSet of some flavor that is not there, with those that may have been meant: the near
/// ones, before them the one of the other flavor that has this name.
pub fn unknown_daemon_set_of<'a>(
    flavors: Flavors,
    name: &str,
    namespace: Option<&str>,
    existing: impl IntoIterator<Item = &'a DaemonSet>,
) -> ClusterError {
    let (resource, other) = match flavors {
        Flavors::Apps => ("daemonsets.apps", "ads"),
        Flavors::Any => ("daemonsets.apps", ""),
        Flavors::Advanced => ("daemonsets.apps.kruise.io", "ds"),
    };
    let (asked, others): (Vec<_>, Vec<_>) =
        existing.into_iter().partition(|daemon_set| flavors.include(daemon_set.flavor()));
    let others = others.into_iter().filter(|daemon_set| daemon_set.metadata.name == name).take(1);
    let mut meant: Vec<_> = others.map(|_| format!("{other}/{name}")).collect();
    meant.extend(near(name, asked.into_iter().map(|daemon_set| daemon_set.metadata.name.as_str())));
    ClusterError::NotFound { resource, name: name.to_owned(), namespace: namespace.map(str::to_owned), near: meant }
}

/// Makes the error for a node that is not there, with the near ones of those that are.
pub fn unknown_node<'a>(name: &str, existing: impl IntoIterator<Item = &'a str>) -> ClusterError {
    ClusterError::NotFound { resource: "nodes", name: name.to_owned(), namespace: None, near: near(name, existing) }
}

/// Checks that each DaemonSet that the query names is among those that exist in its namespace.
///
/// # Errors
///
/// Fails on the first name that is not there, with the near ones.
pub fn check_daemon_sets(query: &Query, existing: &[DaemonSet]) -> Result<(), ClusterError> {
    let there = || {
        let daemon_sets = existing.iter().map(|daemon_set| &daemon_set.metadata);
        daemon_sets.filter(|metadata| query.namespace.as_ref().is_none_or(|namespace| *namespace == metadata.namespace))
    };
    match query.names.iter().find(|name| !there().any(|metadata| metadata.name == **name)) {
        Some(name) => {
            Err(unknown_daemon_set(name, query.namespace.as_deref(), there().map(|metadata| metadata.name.as_str())))
        }
        None => Ok(()),
    }
}

/// Returns the names that look like the wanted one, the nearest first, five at most.
///
/// A name is near where a third of its letters differ at most, or where one name is part of the
/// other.
pub fn near<'a>(wanted: &str, existing: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut near: Vec<(usize, &str)> = existing
        .into_iter()
        .filter(|name| !name.is_empty())
        .filter_map(|name| {
            let distance = edit_distance(wanted, name);
            let letters = wanted.chars().count().max(name.chars().count());
            let part = wanted.len() >= 3 && name.len() >= 3 && (name.contains(wanted) || wanted.contains(name));
            (distance * 3 <= letters || part).then_some((distance, name))
        })
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(OFFERED).map(|(_, name)| name.to_owned()).collect()
}

/// Counts the letters that must be put in, taken out, replaced or swapped with the next.
fn edit_distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for i in 1..=one.len() {
        let mut row = vec![i; other.len() + 1];
        for j in 1..=other.len() {
            let replaced = last[j - 1] + usize::from(one[i - 1] != other[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::{edit_distance, near};

    #[test]
    fn letters_put_in_taken_out_replaced_or_swapped_count_one_each() {
        for (one, other, distance) in
            [("", "", 0), ("abc", "", 3), ("abc", "abc", 0), ("abc", "acb", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!(edit_distance(one, other), distance, "{one} {other}");
            assert_eq!(edit_distance(other, one), distance, "{other} {one}");
        }
    }

    #[test]
    fn near_names_come_nearest_first_and_far_ones_not_at_all() {
        let existing = ["node-exporter", "kube-proxy", "calico-node", "calico-node-windows"];
        assert_eq!(near("calico-nod", existing), ["calico-node", "calico-node-windows"]);
        assert_eq!(near("kubeproxy", existing), ["kube-proxy"]);
        assert_eq!(near("fluentd", existing), Vec::<String>::new());
    }
}
