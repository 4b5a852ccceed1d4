//! The newest time at which anything happened, which is "now" for a dump without a time of its own.
//!
//! The times of the API server and of the DaemonSet controller are trusted. Other writers may set any time in an
//! object: it counts unless it is far later than those, and than the times of most kubelets. What one kubelet has written is one voice.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::object::Object;
use crate::model::metadata::ObjectMeta;

/// The most seconds by which a time may be later than the trusted ones: a dump takes a while, and some clusters are
/// mostly idle.
const TOLERANCE: i64 = 6 * 3600;

/// The most seconds by which kubelets' times may be later than servers': in every cluster, something is created within a year.
const MOST_IDLE: i64 = 366 * 24 * 3600;

/// The most seconds by which the time of one object may be later than those of all others.
const MOST_ALONE: i64 = 30 * 24 * 3600;

/// The number of kubelets that may have a wrong time, if they are fewer than half of them: in a cluster whose nodes are
/// mostly down, few report a time.
const MOST_WRONG: usize = 1;

/// The most seconds by which the time of one kubelet may be later than those of all others, and the trusted ones: kubelets report every
/// five minutes, and a dump takes a while.
const MOST_AHEAD: i64 = 3600;

/// The newest times of a dump.
#[derive(Debug, Default)]
pub(super) struct NewestTimes {
    /// From the API server or the DaemonSet controller: that of the newest object, and that of the next one.
    believed: [Option<Timestamp>; 2],
    /// From others, by the node whose kubelet may have written them.
    claimed: BTreeMap<String, Claims>,
    /// The time reported by each kubelet.
    kubelets: Vec<Timestamp>,
    /// The time reported by each kubelet from which the node controller still hears, and its node.
    alive: Vec<(Timestamp, String)>,
}

/// The newest time of each hour, and of how many objects there are some.
type Claims = BTreeMap<i64, (Timestamp, usize)>;

impl NewestTimes {
    /// Records when something last happened to an object.
    pub(super) fn note(&mut self, object: &impl Object) {
        let Times { believed, claimed, of_kubelet, node, is_down } = object.newest_times();
        let [first, second] = self.believed;
        self.believed = [first.max(believed), second.max(first.min(believed))];
        for at in claimed.into_iter().chain(of_kubelet) {
            add(self.claimed.entry(node.clone()).or_default(), at, 1);
        }
        self.kubelets.extend(of_kubelet);
        self.alive.extend(of_kubelet.filter(|_| !is_down).map(|at| (at, node)));
    }

    /// Returns whether kubelets have reported times, which they do every few minutes.
    pub(super) fn are_of_kubelets(&self) -> bool {
        !self.kubelets.is_empty()
    }

    /// Returns the newest time that is plausible.
    pub(super) fn newest(mut self) -> Option<Timestamp> {
        let wrong = (self.kubelets.len().saturating_sub(1) / 2).min(MOST_WRONG);
        self.kubelets.sort_unstable_by(|one, other| other.cmp(one));
        let most = |since: Timestamp, seconds: i64| since.as_second().saturating_add(seconds);
        let of_kubelets = self.kubelets.get(wrong).map(|at| most(*at, TOLERANCE));
        // In a dump, any of them may be forged.
        let [first, second] = self.believed;
        let others = second.map(|at| most(at, MOST_ALONE)).max(of_kubelets);
        let is_alone = |first: &Timestamp| others.is_some_and(|others| first.as_second() > others);
        let believed = first.filter(|first| !is_alone(first)).or(second);
        if let Some(node) = self.ahead(believed) {
            self.claimed.remove(&node);
        }
        let mut claims = Claims::new();
        self.claimed.into_values().flatten().for_each(|(_, (at, objects))| add(&mut claims, at, objects));
        let limit = match (believed, of_kubelets) {
            (Some(believed), Some(of_kubelets)) => {
                of_kubelets.min(most(believed, MOST_IDLE)).max(most(believed, TOLERANCE))
            }
            // Whoever may not read nodes has pods and events, which agree.
            (Some(believed), None) => most(believed, TOLERANCE).max(agreed(&claims).unwrap_or(i64::MIN)),
            (None, Some(of_kubelets)) => of_kubelets,
            // There are only events and the like: most of them are right.
            (None, None) => most(claims.values().nth(claims.len() / 2)?.0, TOLERANCE),
        };
        let claimed = claims.range(..=limit.div_euclid(3600)).next_back().map(|(_, (newest, _))| *newest);
        believed.max(claimed)
    }

    /// Returns the node whose kubelet has a clock that is far ahead, if there is one: whatever it has written tells no time.
    fn ahead(&mut self, believed: Option<Timestamp>) -> Option<String> {
        self.alive.sort_unstable_by(|one, other| other.cmp(one));
        let [(first, node), (second, _), ..] = self.alive.as_slice() else { return None };
        let others = Some(*second).max(believed)?;
        (first.as_second() > others.as_second().saturating_add(MOST_AHEAD)).then(|| node.clone())
    }
}

fn add(claims: &mut Claims, at: Timestamp, more: usize) {
    let (newest, objects) = claims.entry(hour(at)).or_insert((at, 0));
    (*newest, *objects) = (at.max(*newest), *objects + more);
}

/// Returns the newest hour that several objects tell within the tolerance.
fn agreed(claims: &Claims) -> Option<i64> {
    let others = |at: i64| claims.range(at - TOLERANCE / 3600..=at).map(|(_, (_, objects))| objects).sum::<usize>();
    claims.keys().rev().find(|at| others(**at) > 1).map(|at| at * 3600)
}

fn hour(at: Timestamp) -> i64 {
    at.as_second().div_euclid(3600)
}

/// When something last happened to an object, by writer.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// According to the API server or the DaemonSet controller.
    pub(super) believed: Option<Timestamp>,
    /// According to anyone who may write the object.
    pub(super) claimed: Option<Timestamp>,
    /// According to the kubelet whose node the object is.
    pub(super) of_kubelet: Option<Timestamp>,
    /// The node whose kubelet has written the object, or empty.
    pub(super) node: String,
    /// Whether the node controller no longer hears from that kubelet.
    pub(super) is_down: bool,
}

impl Times {
    /// Returns the times of an object: when the API server created it or started to delete it, and what others have
    /// written. The deletion timestamp is in the future by the grace period.
    pub(super) fn new(metadata: &ObjectMeta, claimed: Option<Timestamp>) -> Times {
        let believed = metadata.creation_timestamp.get().max(metadata.deleted_at());
        Times { believed, claimed, ..Times::default() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::NewestTimes;
    use crate::model::event::Event;
    use crate::model::node::Node;
    use crate::model::pod::Pod;

    fn node(heartbeat: &str) -> Node {
        let conditions = json!([{"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}]);
        from_value(json!({"metadata": {"name": "n", "creationTimestamp": "2026-02-01T00:00:00Z"},
            "status": {"conditions": conditions}}))
        .unwrap()
    }

    fn event(created: Value, last: &str) -> Event {
        from_value(json!({"metadata": {"name": "e", "creationTimestamp": created}, "lastTimestamp": last})).unwrap()
    }

    fn newest(nodes: &[&str], events: &[(&str, &str)]) -> String {
        let mut times = NewestTimes::default();
        for (number, heartbeat) in nodes.iter().enumerate() {
            let mut node = node(heartbeat);
            node.metadata.name = format!("n{number}");
            times.note(&node);
        }
        for (created, last) in events {
            let created = if created.is_empty() { Value::Null } else { json!(created) };
            times.note(&event(created, last));
        }
        times.newest().map(|newest| newest.to_string()).unwrap_or_default()
    }

    const NOON: &str = "2026-03-01T12:00:00Z";
    const BEFORE: &str = "2026-03-01T11:56:00Z";

    #[test]
    fn a_forged_creation_does_not_set_now() {
        let created = |times: &[&str]| {
            let mut newest = NewestTimes::default();
            for time in times {
                let pod = json!({"metadata": {"name": "p", "creationTimestamp": time}});
                newest.note(&from_value::<Pod>(pod).unwrap());
            }
            newest.newest().map(|newest| newest.to_string()).unwrap_or_default()
        };
        assert_eq!(created(&[NOON, "9999-12-01T00:00:00Z", BEFORE]), NOON);
        assert_eq!(created(&[NOON, BEFORE, "2026-02-01T00:00:00Z"]), NOON);
        assert_eq!(created(&[NOON, "2026-02-10T00:00:00Z"]), NOON);
        assert_eq!(created(&[NOON]), NOON);
    }

    /// A dump of one namespace has no nodes, and what is in it was created long ago.
    #[test]
    fn what_several_objects_tell_is_now_without_nodes() {
        let old = "2026-01-01T00:00:00Z";
        let of = |events: &[&str]| {
            let mut times = NewestTimes::default();
            times.note(&from_value::<Pod>(json!({"metadata": {"name": "p", "creationTimestamp": old}})).unwrap());
            events.iter().for_each(|last| times.note(&event(Value::Null, last)));
            times.newest().map(|newest| newest.to_string()).unwrap_or_default()
        };
        assert_eq!((of(&[BEFORE, NOON]).as_str(), of(&[NOON]).as_str()), (NOON, old));
    }

    /// Each node is one voice, whatever its kubelet writes.
    #[test]
    fn the_clock_of_one_kubelet_does_not_set_now() {
        let ahead = "2026-03-01T15:10:00Z";
        let of = |nodes: &[(&str, &str)]| {
            let mut times = NewestTimes::default();
            for (number, (heartbeat, ready)) in nodes.iter().enumerate() {
                let mut node = node(heartbeat);
                node.metadata.name = format!("n{number}");
                node.status.conditions[0].status = (*ready).to_owned();
                times.note(&node);
                let started = json!({"metadata": {"name": "p", "creationTimestamp": "2026-02-01T00:00:00Z"},
                    "spec": {"nodeName": node.metadata.name}, "status": {"startTime": heartbeat}});
                times.note(&from_value::<Pod>(started).unwrap());
                let event = json!({"metadata": {"name": "e"}, "lastTimestamp": heartbeat, "source": {"host": node.metadata.name}});
                times.note(&from_value::<Event>(event).unwrap());
            }
            times.newest().map(|newest| newest.to_string()).unwrap_or_default()
        };
        let [up, down] = ["True", "Unknown"];
        assert_eq!(of(&[(NOON, up), (ahead, up), (BEFORE, up)]), NOON);
        assert_eq!(of(&[(NOON, up), (ahead, up)]), NOON);
        assert_eq!(of(&[(ahead, up)]), ahead);
        // All others are down.
        assert_eq!(of(&[(NOON, down), (ahead, up), (BEFORE, down)]), ahead);
    }

    #[test]
    fn a_forged_time_does_not_set_now() {
        let far = "9999-12-01T00:00:00Z";
        for (situation, nodes, events, expected) in [
            ("nothing is forged", &[NOON, BEFORE, BEFORE][..], &[][..], NOON),
            (
                "most nodes are down",
                &[NOON, NOON, "2026-02-20T00:00:00Z", "2026-02-20T00:00:00Z", "2026-02-20T00:00:00Z"],
                &[],
                NOON,
            ),
            ("an event", &[NOON, BEFORE], &[(BEFORE, far)], NOON),
            ("an event that was created in that year", &[NOON, BEFORE], &[(far, far)], NOON),
            ("several events", &[NOON, BEFORE], &[(BEFORE, far), (BEFORE, far), (BEFORE, far)], NOON),
            ("an event of next week", &[NOON, BEFORE], &[(BEFORE, "2026-03-08T12:00:00Z")], NOON),
            ("a node of three", &[far, NOON, BEFORE], &[], NOON),
            ("the only node, years ahead", &[far], &[(BEFORE, NOON)], NOON),
            ("events alone", &[], &[("", NOON), ("", BEFORE), ("", far)], NOON),
            ("an event that was counted for hours", &[NOON], &[("2026-03-01T03:00:00Z", NOON)], NOON),
            ("a cluster in which nothing was created for a month", &[NOON], &[], NOON),
        ] {
            assert_eq!(newest(nodes, events), expected, "{situation}");
        }
        assert_eq!(newest(&[], &[]), "");
    }
}
