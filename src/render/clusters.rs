//! One screen for one report, or for the reports of several clusters.

use std::cmp::Reverse;

use jiff::Timestamp;

use super::coverage::partial;
use super::incident::{incidents, sentence};
use super::page::Page;
use super::table::{self, Column, Heading};
use super::text::count;
use super::view::View;
use crate::encode::sanitize::sanitize;
use crate::report::Report;
use crate::report::clusters::ClusterReports;
use crate::report::coverage::Incomplete;
use crate::report::fix::{Fix, Origin};
use crate::report::incident::Incident;

/// The reports on a screen: one, or those of several clusters.
pub(crate) struct Reports<'a, R> {
    /// The clusters that have a report.
    pub(super) of: Vec<Cluster<'a, R>>,
    /// The contexts of the others, and why they have none.
    failures: Vec<(&'a str, &'a str)>,
    are_several: bool,
}

/// A cluster and its report.
pub(super) struct Cluster<'a, R> {
    /// Empty for a single cluster.
    pub(super) context: &'a str,
    /// `None` for a single cluster, whose origin is in the view.
    pub(super) origin: Option<&'static Origin>,
    pub(super) report: &'a R,
}

impl<R> Clone for Cluster<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Cluster<'_, R> {}

/// A row of a table, with its cluster.
pub(super) type InCluster<'a, Row> = (&'a str, Row);

impl<R> Cluster<'_, R> {
    /// Returns a sentence, prefixed with its cluster.
    pub(super) fn sentence(&self, sentence: &str) -> String {
        if self.context.is_empty() { sentence.to_owned() } else { format!("{}: {sentence}", self.context) }
    }
}

/// Returns a name, with its cluster.
pub(super) fn name_in(context: &str, name: String) -> String {
    if context.is_empty() { name } else { format!("{name} ({context})") }
}

impl<'a, R> From<&'a R> for Reports<'a, R> {
    fn from(report: &'a R) -> Self {
        let of = vec![Cluster { context: "", origin: None, report }];
        Reports { of, failures: Vec::new(), are_several: false }
    }
}

impl<'a, R: Report> From<&'a ClusterReports<R>> for Reports<'a, R> {
    fn from(reports: &'a ClusterReports<R>) -> Self {
        let (mut of, mut failures) = (Vec::new(), Vec::new());
        for cluster in &reports.items {
            let context = cluster.context.as_str();
            match cluster.report() {
                Some(report) => of.push(Cluster { context, origin: Some(cluster.origin), report }),
                None => failures.push((context, cluster.error.as_deref().unwrap_or_default())),
            }
        }
        Reports { of, failures, are_several: true }
    }
}

impl<'a, R> Reports<'a, R> {
    /// Returns the rows of all clusters, one cluster after the other.
    pub(super) fn rows<Row, Rows: IntoIterator<Item = Row>>(
        &self,
        of: impl Fn(&'a R) -> Rows,
    ) -> Vec<InCluster<'a, Row>> {
        let of = |cluster: &Cluster<'a, R>| {
            let context = cluster.context;
            of(cluster.report).into_iter().map(move |row| (context, row))
        };
        self.of.iter().flat_map(of).collect()
    }

    /// Adds the cluster to a suggestion.
    pub(super) fn fix(&self, context: &str, mut fix: Fix) -> Fix {
        let origin = self.of.iter().find(|cluster| cluster.context == context).and_then(|cluster| cluster.origin);
        origin.iter().for_each(|origin| origin.complete(&mut fix));
        fix
    }

    /// Returns the headline, unless no cluster has a report.
    pub(super) fn headline(&self, headline: impl FnOnce(&str) -> String) -> String {
        match self.of.as_slice() {
            [] => format!("no report from {}", count(self.failures.len(), "cluster")),
            _ => headline(&self.place()),
        }
    }

    /// Returns ` in 2 of 3 clusters`, or nothing for a single cluster.
    fn place(&self) -> String {
        let all = self.of.len() + self.failures.len();
        match self.of.len() {
            _ if !self.are_several => String::new(),
            found if found == all => format!(" in {}", count(all, "cluster")),
            found => format!(" in {found} of {all} clusters"),
        }
    }

    /// Returns whether several clusters were requested.
    pub(super) fn are_several(&self) -> bool {
        self.are_several
    }

    /// Writes the causes that explain problems of several DaemonSets in a cluster.
    pub(super) fn incidents(&self, of: impl Fn(&'a R) -> (&'a [Incident], Timestamp), page: &mut Page<'_>) {
        let mut told: Vec<(usize, (String, &Fix))> = Vec::new();
        for cluster in &self.of {
            let (incidents, now) = of(cluster.report);
            told.extend(incidents.iter().map(|incident| {
                (incident.daemon_sets.len(), (cluster.sentence(&sentence(incident, now)), &incident.fix))
            }));
        }
        if self.are_several {
            told.sort_by_key(|(daemon_sets, _)| Reverse(*daemon_sets));
        }
        incidents(&told.into_iter().map(|(_, one)| one).collect::<Vec<_>>(), page);
    }

    /// Writes what could not be read.
    pub(super) fn incomplete(&self, of: impl Fn(&'a R) -> &'a [Incomplete], page: &mut Page<'_>) {
        let told = self.of.iter().flat_map(|cluster| {
            Incomplete::sentences(of(cluster.report)).into_iter().map(|gap| cluster.sentence(&gap))
        });
        partial(&told.collect::<Vec<_>>(), page);
    }

    /// Writes a table of rows, for several clusters with the context first, and a row for each cluster without a
    /// report. The result of `beneath` is written below its row, unless it is empty.
    pub(super) fn table<Row>(
        &self,
        heading: Heading,
        columns: Vec<Column<'_, Row>>,
        rows: Vec<InCluster<'_, Row>>,
        beneath: impl Fn(&Row, usize) -> String,
        page: &mut Page<'_>,
    ) {
        if rows.is_empty() && self.failures.is_empty() {
            return;
        }
        if !self.are_several {
            let rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
            return table::write_rows(heading, &columns, &rows, beneath, page);
        }
        let view = page.view;
        let failed =
            self.failures.iter().map(|(context, error)| (*context, Err(view.show(&error.replace('\n', "; ")))));
        let rows: Vec<_> = failed.chain(rows.into_iter().map(|(context, row)| (context, Ok(row)))).collect();
        let context = Column::text("CONTEXT", |row: &InCluster<'_, Result<Row, String>>| view.show(row.0)).shrinkable();
        let has_error = columns.last().is_some_and(Column::is_fitted);
        let columns: Vec<_> = [context].into_iter().chain(columns.into_iter().map(Column::or_error)).collect();
        let beneath = |row: &InCluster<'_, Result<Row, String>>, width| match &row.1 {
            Ok(row) => beneath(row, width),
            Err(_) if has_error => String::new(),
            Err(error) => error.clone(),
        };
        table::write_rows(heading, &columns, &rows, beneath, page);
    }
}

/// Returns the namespace shared by all rows, for which a table on a terminal needs no column.
pub(super) fn only_namespace<'a>(
    mut namespaces: impl Iterator<Item = &'a str>,
    heading: Heading,
    view: &View,
) -> Option<&'a str> {
    let first = namespaces.next().filter(|_| view.limit.is_some() && heading == Heading::Shown)?;
    namespaces.all(|other| other == first).then_some(first)
}

/// Adds the namespace shared by all rows to the place in a headline.
pub(super) fn in_namespace(namespace: Option<&str>, place: &str) -> String {
    namespace.map(|namespace| format!(" in namespace {}", sanitize(namespace))).unwrap_or_default() + place
}
