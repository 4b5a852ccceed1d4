//! What a new node runs once all pods that are meant for it were scheduled.
//!
//! A pod with a higher priority gets its place whenever it arrives: it preempts the others. Of pods with the same priority, the one that
//! is scheduled first does, which nobody knows beforehand. The same holds from a pod on that may not preempt others.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::ports::{conflicts, host_ports};
use super::preemption::NEVER;
use super::resources::{Amounts, Insufficient, NodeUsage, fits};
use crate::model::node::Node;
use crate::model::pod::{ContainerPort, PodSpec};

/// A pod that is meant for the node.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// Its spec after admission: the priority, the preemption policy and the host ports count.
    pub spec: &'a PodSpec,
    /// Its requests.
    pub requests: &'a Amounts,
}

/// Whether a node runs a pod that is meant for it.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// It does, whichever pod is scheduled first.
    Certain,
    /// It may depend on which pod is scheduled first.
    Depends,
    /// It has no room for it.
    Lacks(Lack),
}

/// What a node lacks for a pod.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lack {
    /// The resources that are insufficient.
    pub resources: Vec<Insufficient>,
    /// The host ports that are in use.
    pub ports: Vec<i32>,
}

/// What pods take of a node.
#[derive(Debug, Clone, Default)]
pub struct Taken<'a> {
    /// Their requests.
    pub usage: NodeUsage,
    /// Their host ports, by number.
    ports: BTreeMap<i32, Vec<&'a ContainerPort>>,
}

impl<'a> Taken<'a> {
    /// Adds a pod with these requests.
    pub fn add(&mut self, spec: &'a PodSpec, requests: &Amounts) {
        self.usage.add_requests(requests);
        host_ports(spec).for_each(|port| self.ports.entry(port.host_port).or_default().push(port));
    }

    fn lack(&self, node: &Node, pod: &Candidate<'_>) -> Option<Lack> {
        let is_taken = |wanted: &&ContainerPort| self.conflicts(wanted).next().is_some();
        let ports: Vec<i32> = host_ports(pod.spec).filter(is_taken).map(|port| port.host_port).collect();
        let resources = fits(pod.requests, node, &self.usage);
        (!ports.is_empty() || !resources.is_empty()).then_some(Lack { resources, ports })
    }

    /// Returns whether one of these pods has its place beside all others.
    fn has_place(&self, node: &Node, pod: &Candidate<'_>) -> bool {
        let own = |wanted: &ContainerPort| host_ports(pod.spec).filter(|held| conflicts(wanted, held)).count();
        let is_taken = |wanted: &ContainerPort| self.conflicts(wanted).count() > own(wanted);
        let mut others = self.usage.clone();
        others.pods = others.pods.saturating_sub(1);
        for (resource, amount) in pod.requests {
            others.requested.entry(resource.clone()).and_modify(|sum| *sum = sum.saturating_sub(*amount));
        }
        !host_ports(pod.spec).any(is_taken) && fits(pod.requests, node, &others).is_empty()
    }

    fn conflicts(&self, wanted: &ContainerPort) -> impl Iterator<Item = &&'a ContainerPort> {
        let held = self.ports.get(&wanted.host_port).into_iter().flatten();
        held.filter(move |held| conflicts(wanted, held))
    }
}

/// Returns which of the pods that are meant for a node it runs, if no others are on it but those that have `taken` their place.
pub fn settle<'a>(node: &Node, taken: &Taken<'a>, pods: &[Candidate<'a>]) -> Vec<Place> {
    let priority = |pod: &Candidate<'_>| pod.spec.priority.unwrap_or(0);
    let mut order: Vec<usize> = (0..pods.len()).collect();
    order.sort_by_key(|number| Reverse(priority(&pods[*number])));
    // Pods of lower priority may have been there before it.
    let first_never = order.iter().find(|number| pods[**number].spec.preemption_policy == NEVER);
    let lowest = first_never.map_or(i32::MIN, |number| priority(&pods[*number]));
    let rank = |number: &usize| priority(&pods[*number]).max(lowest);
    let mut places = vec![Place::Certain; pods.len()];
    // With the pods that run for certain, and with all that may.
    let (mut least, mut most) = (taken.clone(), taken.clone());
    for group in order.chunk_by(|one, other| rank(one) == rank(other)) {
        let mut rest = Vec::new();
        for number in group {
            match least.lack(node, &pods[*number]) {
                Some(lack) => places[*number] = Place::Lacks(lack),
                None => rest.push(*number),
            }
        }
        rest.iter().for_each(|number| most.add(pods[*number].spec, pods[*number].requests));
        for number in rest {
            match most.has_place(node, &pods[number]) {
                true => least.add(pods[number].spec, pods[number].requests),
                false => places[number] = Place::Depends,
            }
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::{Candidate, Place, Taken, settle};
    use crate::model::node::Node;
    use crate::model::pod::PodSpec;
    use crate::scheduling::resources::{Amounts, template_requests};

    fn pod(cpu: &str, priority: i32, more: Value) -> PodSpec {
        let mut container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
        container["ports"] = more["ports"].clone();
        let policy = more["policy"].as_str().unwrap_or_default();
        from_value(json!({"priority": priority, "preemptionPolicy": policy, "containers": [container]})).unwrap()
    }

    /// Returns `y`, `?` or `n` for each pod on a node of 4 cores and some pod slots.
    fn settled(slots: &str, pods: &[PodSpec]) -> String {
        let node: Node = from_value(json!({"status": {"allocatable": {"cpu": "4", "pods": slots}}})).unwrap();
        let requests: Vec<Amounts> = pods.iter().map(template_requests).collect();
        let candidates: Vec<Candidate<'_>> =
            pods.iter().zip(&requests).map(|(spec, requests)| Candidate { spec, requests }).collect();
        let places = settle(&node, &Taken::default(), &candidates);
        let letter = |place: &Place| match place {
            Place::Certain => 'y',
            Place::Depends => '?',
            Place::Lacks(_) => 'n',
        };
        places.iter().map(letter).collect()
    }

    #[test]
    fn priority_decides_and_then_the_order_which_is_not_known() {
        let of = |pods: &[(&str, i32)]| -> Vec<PodSpec> {
            pods.iter().map(|(cpu, priority)| pod(cpu, *priority, Value::Null)).collect()
        };
        for (pods, expected) in [
            (&[("1", 0), ("1", 5), ("2", 0)][..], "yyy"),
            (&[("3", 0), ("3", 5)], "ny"),
            (&[("3", 0), ("3", 0)], "??"),
            // The small one has room beside either of the others. Not every order is tried to find that out.
            (&[("3", 0), ("3", 0), ("1", 0)], "???"),
            (&[("5", 9), ("1", 0)], "ny"),
            // Which of those above runs is not known, so neither is what is left.
            (&[("3", 5), ("2", 5), ("2", 0)], "???"),
        ] {
            assert_eq!(settled("9", &of(pods)), expected, "{pods:?}");
        }
    }

    #[test]
    fn slots_and_host_ports_are_room_too() {
        let small = |priority: i32| pod("100m", priority, Value::Null);
        assert_eq!(settled("2", &[small(0), small(0), small(5)]), "??y");
        let on_port = |priority: i32| pod("100m", priority, json!({"ports": [{"hostPort": 80, "containerPort": 80}]}));
        assert_eq!(settled("9", &[on_port(0), on_port(5), small(0)]), "nyy");
        assert_eq!(settled("9", &[on_port(0), on_port(0)]), "??");
    }

    #[test]
    fn a_pod_that_may_not_preempt_is_sure_of_its_place_only_beside_all_of_lower_priority() {
        let never = |cpu: &str| pod(cpu, 5, json!({"policy": "Never"}));
        assert_eq!(settled("9", &[never("3"), pod("3", 0, Value::Null)]), "??");
        assert_eq!(settled("9", &[never("1"), pod("3", 0, Value::Null)]), "yy");
        assert_eq!(settled("9", &[never("3"), pod("3", 9, Value::Null)]), "ny");
    }
}
