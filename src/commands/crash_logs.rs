//! `coverage --logs`: the last log lines of pods that crash, if the kubelet has no message of theirs.

use super::Failure;
use super::logs::read_each;
use super::session::{Session, show_progress};
use crate::cluster::error::ClusterError;
use crate::cluster::log::{Log, LogLimits, LogOf};
use crate::coverage::crash_logs::{SilentCrash, add_crash_log, silent_crashes};
use crate::io::Io;
use crate::model::snapshot::Snapshot;
use crate::render::logs::without_colors;
use crate::report::coverage::{CoverageReport, Incomplete};

/// How much is read of each log: the last line may be blank, or longer than is shown.
const LIMITS: LogLimits = LogLimits { lines: 20, bytes: 1 << 16, since: None };

/// Adds to a report what pods have logged before they crashed. What cannot be read makes it partial.
pub(super) async fn add_crash_logs(
    report: &mut CoverageReport,
    snapshot: &Snapshot,
    session: &Session,
    io: &mut Io<'_>,
) -> Result<(), Failure> {
    let crashes = silent_crashes(report, snapshot);
    let of = |crash: &SilentCrash| {
        let SilentCrash { namespace, pod, container, previous, .. } = crash.clone();
        LogOf { namespace, pod, container, previous }
    };
    let wanted: Vec<LogOf> = crashes.iter().map(of).collect();
    let mut unread = Vec::new();
    let read = read_each(session, &wanted, LIMITS, |index, read| match read {
        Ok(Log { text, previous, .. }) => {
            let lines: Vec<String> = text.lines().map(without_colors).collect();
            add_crash_log(report, &crashes[index], previous, &lines.join("\n"));
        }
        Err(error) => unread.push((index, error)),
    });
    show_progress(read, &session.progress, io).await;
    session.print_warnings(io)?;
    unread.sort_by_key(|(index, _)| *index);
    report.incomplete.extend(unread.into_iter().map(|(index, error)| incomplete(&crashes[index], &error)));
    Ok(())
}

fn incomplete(crash: &SilentCrash, error: &ClusterError) -> Incomplete {
    Incomplete {
        resource: "pods/log".to_owned(),
        namespace: Some(crash.namespace.clone()),
        permission: error.is_forbidden().then(|| "get pods/log".to_owned()),
        message: format!("the log of pod {} could not be read ({error}): why it crashes is not known", crash.pod),
        affects_counts: false,
    }
}
