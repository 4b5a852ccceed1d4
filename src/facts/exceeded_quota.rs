//! What the API server says if a quota has no room for a pod.

use crate::model::quantity::Quantity;
use crate::model::resource_quota::ResourceQuota;

/// How it begins.
pub(crate) const EXCEEDED_QUOTA: &str = "exceeded quota: ";

/// The parts of `exceeded quota: NAME, requested: …, used: …, limited: …`: `CheckRequest`,
/// k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go, release 1.37.2.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExceededQuota<'m> {
    pub(crate) name: &'m str,
    pub(crate) requested: &'m str,
    pub(crate) used: &'m str,
    pub(crate) limited: &'m str,
}

impl<'m> ExceededQuota<'m> {
    /// Reads a message.
    pub(crate) fn of(message: &'m str) -> Option<Self> {
        let (name, rest) = message.split_once(EXCEEDED_QUOTA)?.1.split_once(", requested: ")?;
        let (requested, rest) = rest.split_once(", used: ")?;
        let (used, limited) = rest.split_once(", limited: ")?;
        Some(ExceededQuota { name, requested, used, limited })
    }

    /// Returns whether the quota, as it was read, has room for what it has refused.
    pub(crate) fn has_room(&self, quota: &ResourceQuota) -> bool {
        let fits = |(resource, requested): &(String, Quantity)| {
            let amount = |of: &Quantity| of.nanos();
            let used = quota.status.used.get(resource).and_then(amount)?;
            Some(used + amount(requested)? <= quota.status.hard.get(resource).and_then(amount)?)
        };
        let requested = amounts(self.requested);
        !requested.is_empty() && requested.iter().all(|it| fits(it) == Some(true))
    }
}

/// Reads a list such as `pods=1,requests.cpu=3`.
pub(crate) fn amounts(text: &str) -> Vec<(String, Quantity)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(resource, amount)| (resource.to_owned(), Quantity::new(amount))).collect()
}
