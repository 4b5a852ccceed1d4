//! Tells how far the reading has come.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::snapshot::Kind;

/// How much of a kind has been read so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindRead {
    /// The kind of object.
    pub kind: Kind,
    /// The objects.
    pub objects: usize,
    /// The bytes that they came in.
    pub bytes: u64,
}

/// A function that is told of progress, some hundred times for each kind of a big cluster.
pub type OnProgress = Arc<dyn Fn(KindRead) + Send + Sync>;

/// Adds up what is read of each kind.
pub(super) struct Tally {
    totals: RefCell<BTreeMap<Kind, (usize, u64)>>,
    on_progress: OnProgress,
}

impl std::fmt::Debug for Tally {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Tally").field("totals", &self.totals).finish_non_exhaustive()
    }
}

impl Tally {
    pub(super) fn new(on_progress: OnProgress) -> Self {
        Tally { totals: RefCell::default(), on_progress }
    }

    /// Adds objects and bytes, and tells of it.
    pub(super) fn add(&self, kind: Kind, objects: usize, bytes: usize) {
        let mut totals = self.totals.borrow_mut();
        let total = totals.entry(kind).or_default();
        total.0 += objects;
        total.1 += bytes as u64;
        let progress = KindRead { kind, objects: total.0, bytes: total.1 };
        drop(totals);
        (self.on_progress)(progress);
    }
}
