//! Which controller reconciles a DaemonSet: its name, the evidence that it is running, and where to look if it is not.

use jiff::Timestamp;

use crate::model::daemon_set::{DaemonSet, Flavor};
use crate::model::snapshot::{Lease, Snapshot};
use crate::report::age::seconds_between;
use crate::report::fix::{Command, Fix};

/// How many times its duration a lease is not renewed until its holder counts as down: another one takes over one duration after the
/// last renewal, and one that was restarted one duration after it has seen the lease (`tryAcquireOrRenew`,
/// client-go/tools/leaderelection/leaderelection.go, release 0.37.2).
const MISSED: i64 = 2;

/// The most pods that the controller creates in one sync.
///
/// Ported from `BurstReplicas`, pkg/controller/daemon/daemon_controller.go, release 1.37.2; OpenKruise has the same default.
pub(crate) const BURST: usize = 250;

/// The longest delay in seconds before a failed pod is replaced, counted from its creation, when the controller replaced the one before
/// it: `newDaemonSetController`, cmd/kube-controller-manager/app/apps.go, release 1.37.2.
pub(crate) const FAILED_POD_BACKOFF: i64 = 900;

/// The scheduler of pods that do not name one.
pub(crate) const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// The program of the default scheduler.
const SCHEDULER: &str = "kube-scheduler";

/// Returns whether pods with this name of a scheduler are for the default one.
pub(crate) fn is_default_scheduler(name: &str) -> bool {
    matches!(name, "" | DEFAULT_SCHEDULER)
}

/// Returns the advice to check whether the default scheduler runs.
pub(crate) fn check_scheduler() -> Fix {
    let lease = Command::kubectl(&["get", "lease", "-o", "yaml"]).namespace("kube-system").name(SCHEDULER);
    Fix::new("check that kube-scheduler is running", lease)
}

/// Returns the advice to see why the default scheduler does nothing, if its lease shows that it runs.
pub(crate) fn scheduler_log() -> Fix {
    log_of(SCHEDULER)
}

/// Returns how to read the log of a part of the control plane that runs; a static pod has this label (kubeadm).
fn log_of(program: &str) -> Fix {
    let logs = Command::kubectl(&["logs", "--tail", "100"]).namespace("kube-system");
    let logs = logs.flag("-l", format!("component={program}"));
    let advice = format!(
        "see the log of {program}, which has renewed its lease; if it is no pod of this cluster, ask who operates it"
    );
    Fix::new(advice, logs)
}

/// The controller that creates and replaces the pods of a DaemonSet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// Kubernetes' own, a part of kube-controller-manager.
    Kubernetes,
    /// OpenKruise's.
    Kruise,
}

impl Controller {
    /// Returns the controller of a DaemonSet.
    pub fn of(daemon_set: &DaemonSet) -> Self {
        match daemon_set.flavor() {
            Flavor::Apps => Controller::Kubernetes,
            Flavor::Advanced => Controller::Kruise,
        }
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Controller::Kubernetes => "the DaemonSet controller",
            Controller::Kruise => "the OpenKruise controller",
        }
    }

    /// Returns the program that contains it.
    pub fn program(self) -> &'static str {
        match self {
            Controller::Kubernetes => "kube-controller-manager",
            Controller::Kruise => "kruise-controller-manager",
        }
    }

    /// Returns the command that shows whether it runs: by its lease, or by its pods.
    fn look(self) -> Command {
        match self {
            Controller::Kubernetes => {
                Command::kubectl(&["get", "lease", "-o", "yaml"]).namespace("kube-system").name(self.program())
            }
            Controller::Kruise => Command::kubectl(&["get", "pods", "-o", "wide"]).namespace("kruise-system"),
        }
    }

    /// Returns the advice to check whether it runs.
    pub fn check(self) -> Fix {
        Fix::new(format!("check {}", self.program()), self.look())
    }

    /// Returns the advice to see why it does nothing; to check whether it runs unless its lease shows that.
    pub fn look_at(self, snapshot: &Snapshot) -> Fix {
        match self.lease(snapshot).is_some() && self.silent_since(snapshot).is_none() {
            true => log_of(self.program()),
            false => self.check(),
        }
    }

    /// Returns its lease; that of OpenKruise's controller is not read.
    pub fn lease(self, snapshot: &Snapshot) -> Option<&Lease> {
        lease(self.program(), snapshot).filter(|_| self == Controller::Kubernetes)
    }

    /// Returns since when it has not renewed its lease, if that is too long.
    pub fn silent_since(self, snapshot: &Snapshot) -> Option<Timestamp> {
        expired_since(self.lease(snapshot)?, snapshot)
    }
}

/// Returns since when the default scheduler has not renewed its lease, if that is too long.
pub(super) fn scheduler_silent_since(snapshot: &Snapshot) -> Option<Timestamp> {
    expired_since(lease(SCHEDULER, snapshot)?, snapshot)
}

/// Returns when the default scheduler last renewed its lease.
pub(super) fn scheduler_renewed_at(snapshot: &Snapshot) -> Option<Timestamp> {
    lease(SCHEDULER, snapshot)?.renewed_at()
}

fn lease<'a>(program: &str, snapshot: &'a Snapshot) -> Option<&'a Lease> {
    let is_its = |lease: &&Lease| lease.metadata.namespace == "kube-system" && lease.metadata.name == program;
    snapshot.leases.iter().find(is_its)
}

/// Returns when a lease was last renewed if it has expired.
fn expired_since(lease: &Lease, snapshot: &Snapshot) -> Option<Timestamp> {
    let renewed = lease.renewed_at()?;
    let duration = lease.spec.lease_duration_seconds.unwrap_or(15);
    // Until then, nobody could renew it, or it was not seen.
    let from = snapshot.reachable_since.map_or(renewed, |since| since.max(renewed));
    let has_expired = |now| seconds_between(from, now) > MISSED * duration;
    (has_expired(snapshot.earlier_now()) && is_late(snapshot, has_expired)).then_some(renewed)
}

/// Returns whether most nodes have renewed their leases since one has expired, if a dump does not say when it was made: one clock that is
/// ahead makes everything else look old.
fn is_late(snapshot: &Snapshot, has_expired: impl Fn(Timestamp) -> bool) -> bool {
    let is_of_node = |lease: &&Lease| lease.metadata.namespace == "kube-node-lease";
    let of_nodes = || snapshot.leases.iter().filter(is_of_node).filter_map(Lease::renewed_at);
    let later = of_nodes().filter(|renewed| has_expired(*renewed)).count();
    !snapshot.is_now_estimated || later * 2 >= of_nodes().count()
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::{Controller, scheduler_silent_since};
    use crate::facts::test_support::{at, world};

    #[test]
    fn a_lease_has_expired_a_while_after_its_duration() {
        let silent = |controller: Controller, of_controller: &str, of_scheduler: &str| {
            let mut snapshot = world().finish();
            for (name, renewed) in [("kube-scheduler", of_scheduler), ("kube-controller-manager", of_controller)] {
                let lease = json!({
                    "metadata": {"name": name, "namespace": "kube-system"},
                    "spec": {"renewTime": at(renewed), "leaseDurationSeconds": 15},
                });
                snapshot.leases.push(from_value(lease).unwrap());
            }
            (controller.silent_since(&snapshot).is_some(), scheduler_silent_since(&snapshot).is_some())
        };
        let of = Controller::Kubernetes;
        assert_eq!(silent(of, "11:59:30", "11:00:00"), (false, true));
        assert_eq!(silent(of, "11:59:29", "11:59:30"), (true, false));
        assert_eq!(silent(Controller::Kruise, "11:00:00", "11:59:29"), (false, true));
    }

    #[test]
    fn the_clock_of_one_node_in_a_dump_makes_no_controller_silent() {
        let is_silent = |of_nodes: &[&str], is_now_estimated: bool| {
            let mut snapshot = world().finish();
            snapshot.is_now_estimated = is_now_estimated;
            let leases = of_nodes
                .iter()
                .enumerate()
                .map(|(number, renewed)| (format!("n{number}"), "kube-node-lease", *renewed));
            for (name, namespace, renewed) in
                leases.chain([("kube-controller-manager".to_owned(), "kube-system", "11:48:00")])
            {
                let lease = json!({"metadata": {"name": name, "namespace": namespace},
                    "spec": {"renewTime": at(renewed), "leaseDurationSeconds": 15}});
                snapshot.leases.push(from_value(lease).unwrap());
            }
            Controller::Kubernetes.silent_since(&snapshot).is_some()
        };
        assert!(!is_silent(&["11:48:02", "11:48:05", "12:00:00"], true));
        assert!(is_silent(&["11:48:02", "11:48:05", "12:00:00"], false));
        assert!(is_silent(&["11:59:52", "11:59:55", "11:48:00"], true) && is_silent(&[], true));
    }

    #[test]
    fn a_date_that_is_ahead_makes_no_controller_silent() {
        for (ahead, is_silent) in [(0, true), (60, true), (600, false), (-600, true)] {
            let mut snapshot = world().finish();
            let lease = json!({"metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
                "spec": {"renewTime": at("11:55:00"), "leaseDurationSeconds": 15}});
            snapshot.leases.push(from_value(lease).unwrap());
            snapshot.clock_difference = jiff::SignedDuration::from_secs(ahead);
            assert_eq!(Controller::Kubernetes.silent_since(&snapshot).is_some(), is_silent, "{ahead}");
        }
    }

    #[test]
    fn a_lease_does_not_expire_while_the_api_server_is_away() {
        for (back, is_silent) in [(None, true), (Some("11:59:29"), true), (Some("11:59:30"), false)] {
            let mut snapshot = world().finish();
            let lease = json!({"metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
                "spec": {"renewTime": at("11:59:10"), "leaseDurationSeconds": 15}});
            snapshot.leases.push(from_value(lease).unwrap());
            snapshot.reachable_since = back.map(|back| at(back).parse().unwrap());
            assert_eq!(Controller::Kubernetes.silent_since(&snapshot).is_some(), is_silent, "{back:?}");
        }
    }

    #[test]
    fn a_lease_that_the_api_server_has_just_written_is_renewed_whatever_the_clock_of_its_holder() {
        for (written, is_silent) in [(Some("11:59:50"), false), (Some("11:50:00"), true), (None, true)] {
            let mut snapshot = world().finish();
            let managed = written.map(|time| json!([{"time": at(time), "fieldsV1": {"f:spec": {"f:renewTime": {}}}}]));
            let lease = json!({
                "metadata": {"name": "kube-controller-manager", "namespace": "kube-system", "managedFields": managed},
                "spec": {"renewTime": at("11:40:00"), "leaseDurationSeconds": 15},
            });
            snapshot.leases.push(from_value(lease).unwrap());
            assert_eq!(Controller::Kubernetes.silent_since(&snapshot).is_some(), is_silent, "{written:?}");
        }
    }
}
