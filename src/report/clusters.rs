//! Reports on several clusters.

use serde::Serialize;

use super::fix::{Fix, Origin};
use super::{Envelope, Report, VERSION};

/// The reports on several clusters, each as if it were alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schemas", schemars(bound = "T: Report + schemars::JsonSchema"))]
pub struct ClusterReports<T> {
    /// The clusters, by context; also those that could not be read.
    pub items: Vec<ClusterReport<T>>,
}

/// The report on one of several clusters.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schemas", schemars(bound = "T: Report + schemars::JsonSchema"))]
#[serde(rename_all = "camelCase")]
pub struct ClusterReport<T> {
    /// The context of the kubeconfig; of a dump, what `--from` names.
    pub context: String,
    /// The exit code that is due to this cluster; that of the command is the worst one: 1, then 3, then 5, then 0.
    pub exit_code: u32,
    /// Why there is no report, or what the report leaves open; absent if nothing is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The report; absent if the cluster could not be read, or lacks what was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<Envelope<T>>,
    /// Where commands that are suggested for it have to lead.
    #[serde(skip)]
    pub origin: &'static Origin,
}

impl<T: Report> ClusterReport<T> {
    /// Makes the report on one of several clusters; what it suggests leads back to that cluster.
    pub fn new(
        context: String,
        origin: &'static Origin,
        exit_code: u32,
        error: Option<String>,
        report: Option<T>,
    ) -> Self {
        let report = report.map(|mut report| {
            report.suggestions(&mut |fix| origin.complete(fix));
            Envelope { api_version: VERSION, kind: report.kind(), report }
        });
        ClusterReport { context, exit_code, error, report, origin }
    }

    /// Returns the report without its envelope.
    pub fn report(&self) -> Option<&T> {
        self.report.as_ref().map(|envelope| &envelope.report)
    }
}

impl<T: Report> Report for ClusterReports<T> {
    const KINDS: &'static [&'static str] = &[T::LIST];

    fn suggestions(&mut self, visit: &mut dyn FnMut(&mut Fix)) {
        let reports = self.items.iter_mut().filter_map(|item| item.report.as_mut());
        reports.for_each(|envelope| envelope.report.suggestions(visit));
    }
}
