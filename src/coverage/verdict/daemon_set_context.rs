//! One DaemonSet, and what is found about it as a whole before its nodes are judged.

use std::cell::{OnceCell, RefCell};
use std::ops::Deref;
use std::rc::Rc;

use super::create_events::Creations;
use super::daemon_set_findings;
use super::finding::Finding;
use super::former_pods::{self, Rejections};
use crate::facts::Facts;
use crate::model::pod::Pod;
use crate::scheduling::daemon_pods::claim;
use crate::scheduling::pod_affinity::InterPodAffinity;
use crate::scheduling::rolling_update::allows_surge;

/// The facts of a DaemonSet, with what is found about it as a whole.
pub struct Subject<'f, 'a> {
    facts: &'f Facts<'a>,
    /// What concerns it as a whole.
    pub concerns: Vec<Finding>,
    creations: OnceCell<Creations>,
    rejections: OnceCell<Rejections>,
    ready_pods: OnceCell<Vec<&'a Pod>>,
    /// Of the last pod: those of a revision have the same.
    pod_affinity: RefCell<Option<Rc<InterPodAffinity<'a>>>>,
}

impl<'f, 'a> Subject<'f, 'a> {
    /// Finds what concerns a DaemonSet as a whole.
    pub fn new(facts: &'f Facts<'a>) -> Self {
        let concerns = daemon_set_findings::concerns(facts);
        Subject {
            facts,
            concerns,
            creations: OnceCell::new(),
            rejections: OnceCell::new(),
            ready_pods: OnceCell::new(),
            pod_affinity: RefCell::default(),
        }
    }

    /// Returns what events tell about former pods that kubelets have rejected.
    pub fn rejections(&self) -> &Rejections {
        self.rejections.get_or_init(|| former_pods::rejections(self.facts))
    }

    /// Returns in which domains there are pods that count for the affinity of a pod.
    pub fn pod_affinity(&self, pod: &Pod) -> Rc<InterPodAffinity<'a>> {
        let mut last = self.pod_affinity.borrow_mut();
        match &*last {
            Some(last) if last.is_of(pod) => last.clone(),
            _ => last.insert(Rc::new(InterPodAffinity::new(pod, self.facts.index, |_| false))).clone(),
        }
    }

    /// Returns its ready pods, as far as pods were read.
    pub fn ready_pods(&self) -> &[&'a Pod] {
        self.ready_pods.get_or_init(|| {
            let is_own = |pod: &&Pod| claim(self.daemon_set, pod).is_claimed();
            let peers = self.index.snapshot.peers.iter().filter(is_own);
            self.pods().chain(peers).filter(|pod| pod.is_ready()).collect()
        })
    }

    /// Returns the pods on a node that a surge pod is to replace: they stay until it is available.
    pub fn old_pods_on(&self, node: &str, pod: &Pod) -> impl Iterator<Item = &'a Pod> {
        let pods = allows_surge(self.daemon_set).then(|| self.index.bound_to(node));
        pods.into_iter().flatten().filter(|other| {
            other.metadata.uid != pod.metadata.uid
                && !other.metadata.is_terminating()
                && !other.is_terminal()
                && claim(self.daemon_set, other).is_claimed()
        })
    }

    /// Returns what events tell about creating its pods.
    pub fn creations(&self) -> &Creations {
        self.creations.get_or_init(|| Creations::new(self.facts))
    }
}

impl<'a> Deref for Subject<'_, 'a> {
    type Target = Facts<'a>;

    fn deref(&self) -> &Facts<'a> {
        self.facts
    }
}
