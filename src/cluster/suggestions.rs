//! Finds names that do not exist, and suggests similar ones.

use std::collections::BTreeSet;

use super::error::ClusterError;
use super::{Flavors, Query};
use crate::model::daemon_set::DaemonSet;
use crate::model::metadata::ObjectMeta;
use crate::model::pod::Pod;
use crate::model::snapshot::UnknownName;
use crate::report::fix::{Command, Fix};

/// The most suggested names.
pub(super) const OFFERED: usize = 5;

/// Returns suggestions for the name of a DaemonSet that does not exist in a namespace.
pub fn unknown_name<'a>(
    name: &str,
    namespace: Option<&str>,
    existing: impl IntoIterator<Item = &'a ObjectMeta>,
) -> UnknownName {
    let (there, elsewhere): (Vec<_>, Vec<_>) =
        existing.into_iter().partition(|metadata| namespace.is_none_or(|namespace| namespace == metadata.namespace));
    let elsewhere = elsewhere.into_iter().filter(|metadata| metadata.name == name);
    let elsewhere: BTreeSet<&String> = elsewhere.map(|metadata| &metadata.namespace).collect();
    UnknownName {
        name: name.to_owned(),
        near: near(name, there.into_iter().map(|metadata| metadata.name.as_str())),
        elsewhere: elsewhere.into_iter().cloned().collect(),
    }
}

/// Returns the error for a DaemonSet that does not exist.
pub fn unknown_daemon_set(namespace: Option<&str>, unknown: UnknownName) -> ClusterError {
    let UnknownName { name, near, elsewhere } = unknown;
    let namespace = namespace.map(str::to_owned);
    ClusterError::NotFound { resource: "daemonsets.apps", name, namespace, near, elsewhere, instead: None }
}

/// Returns the error for a DaemonSet of some flavor that does not exist. One of the other flavor with the same name is
/// suggested first.
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
    let is_other = |daemon_set: &&DaemonSet| {
        daemon_set.metadata.name == name && namespace.is_none_or(|namespace| namespace == daemon_set.metadata.namespace)
    };
    let others = others.into_iter().filter(is_other).take(1);
    let mut meant: Vec<_> = others.map(|_| format!("{other}/{name}")).collect();
    let UnknownName { name, near, elsewhere } =
        unknown_name(name, namespace, asked.into_iter().map(|daemon_set| &daemon_set.metadata));
    meant.extend(near);
    let namespace = namespace.map(str::to_owned);
    ClusterError::NotFound { resource, name, namespace, near: meant, elsewhere, instead: None }
}

/// Adds to the error for a name that does not exist what to do instead, if anything.
fn instead(mut error: ClusterError, fix: impl FnOnce(&str, Option<&str>) -> Option<Fix>) -> ClusterError {
    if let ClusterError::NotFound { name, namespace, instead, .. } = &mut error
        && let Some(fix) = fix(name, namespace.as_deref())
    {
        *instead = Some(Box::new(fix));
    }
    error
}

/// Adds to the error for an Advanced DaemonSet that the cluster does not have OpenKruise.
pub(super) fn without_openkruise(error: ClusterError) -> ClusterError {
    let advice = "OpenKruise is not installed in this cluster; to list every DaemonSet";
    instead(error, |_, _| Some(Fix::new(advice, Command::kubectl(&["ds", "list", "-A"]))))
}

/// Adds to the error for a DaemonSet that an Advanced one has this name, if so: the command does not take those.
pub fn or_an_advanced(error: ClusterError, advanced: &[DaemonSet]) -> ClusterError {
    instead(error, |name, namespace| {
        let mut known = advanced.iter().map(|advanced| &advanced.metadata);
        let meant = known.find(|it| it.name == name && namespace.is_none_or(|namespace| namespace == it.namespace))?;
        let status = Command::kubectl(&["ds", "status"]).namespace(&meant.namespace).name(format!("ads/{name}"));
        Some(Fix::new(format!("{name} is an Advanced DaemonSet; to see its rollout"), status))
    })
}

/// Returns whether a pod is on a node or targets it: if so, the node has existed.
pub fn is_for_node(pod: &Pod, node: &str) -> bool {
    pod.nodes().any(|named| named == node)
}

/// Returns the error for a node that does not exist.
pub fn unknown_node<'a>(name: &str, existing: impl IntoIterator<Item = &'a str>) -> ClusterError {
    let (name, near, elsewhere) = (name.to_owned(), near(name, existing), Vec::new());
    ClusterError::NotFound { resource: "nodes", name, namespace: None, near, elsewhere, instead: None }
}

/// Adds to the error for a DaemonSet that a node has this name.
pub fn is_a_node(error: ClusterError) -> ClusterError {
    instead(error, |name, _| {
        let coverage = Command::kubectl(&["ds", "coverage"]).flag("--node", name);
        Some(Fix::new(format!("{name} is a node; to see which DaemonSets it should run"), coverage))
    })
}

/// Adds to the error for a node that a DaemonSet has this name, if so.
pub fn or_a_daemon_set<'a>(error: ClusterError, existing: impl IntoIterator<Item = &'a ObjectMeta>) -> ClusterError {
    instead(error, |name, _| {
        let found = existing.into_iter().find(|existing| existing.name == name)?;
        let coverage = Command::kubectl(&["ds", "coverage"]).namespace(&found.namespace).name(name);
        Some(Fix::new(format!("{name} is a DaemonSet; to see its nodes"), coverage))
    })
}

/// Returns the names in a query that no DaemonSet in its namespace has. Fails if the query has a single name, which is unknown.
pub fn unknown_names<'a>(
    query: &Query,
    existing: impl Iterator<Item = &'a DaemonSet> + Clone,
) -> Result<Vec<UnknownName>, ClusterError> {
    let namespace = query.namespace.as_deref();
    let metadata = || existing.clone().map(|daemon_set| &daemon_set.metadata);
    let is_known = |name: &String| {
        metadata()
            .any(|metadata| metadata.name == *name && namespace.is_none_or(|namespace| namespace == metadata.namespace))
    };
    let names: BTreeSet<&String> = query.names.iter().filter(|name| !is_known(name)).collect();
    let mut unknown: Vec<_> = names.into_iter().map(|name| unknown_name(name, namespace, metadata())).collect();
    match (query.names.as_slice(), unknown.pop()) {
        ([_], Some(only)) => Err(unknown_daemon_set(namespace, only)),
        (_, last) => {
            unknown.extend(last);
            Ok(unknown)
        }
    }
}

/// Returns the names that are similar to the given one, the nearest first, five at most.
///
/// The name itself is excluded. A name is similar if at most a third of its letters differ, or if one name contains the other.
pub fn near<'a>(wanted: &str, existing: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let near = existing.into_iter().filter(|name| !name.is_empty() && *name != wanted).filter_map(|name| {
        let distance = strsim::osa_distance(wanted, name);
        let letters = wanted.chars().count().max(name.chars().count());
        let part = wanted.len() >= 3 && name.len() >= 3 && (name.contains(wanted) || wanted.contains(name));
        (distance * 3 <= letters || part).then_some((distance, name))
    });
    let mut near: Vec<(usize, &str)> = near.collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(OFFERED).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::near;

    #[test]
    fn near_names_come_nearest_first_and_far_ones_not_at_all() {
        let existing = ["node-exporter", "kube-proxy", "calico-node", "calico-node-windows"];
        assert_eq!(near("calico-nod", existing), ["calico-node", "calico-node-windows"]);
        assert_eq!(near("kubeproxy", existing), ["kube-proxy"]);
        assert_eq!(near("fluentd", existing), Vec::<String>::new());
    }
}
