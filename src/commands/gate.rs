//! `--exit-code`: whether an answer is yes, no, or unknown.

use super::session::Session;
use crate::encode::sanitize::sanitize;
use crate::error::{CommandError, Exit};
use crate::report::coverage::{Counts, Incomplete};

/// Returns the exit code that tells whether every eligible node has an available pod. Fails if there is no DaemonSet,
/// or if nodes or pods could not be counted, so that the gate cannot pass.
pub(super) fn all_available<'a>(
    counts: impl IntoIterator<Item = &'a Counts>,
    incomplete: &[Incomplete],
    session: &Session,
) -> Result<Exit, CommandError> {
    let answers: Vec<Option<bool>> = counts.into_iter().map(Counts::all_available).collect();
    if answers.is_empty() {
        return Err(session.none_found());
    }
    if answers.contains(&Some(false)) {
        return Ok(Exit::No);
    }
    let gaps: Vec<&Incomplete> = incomplete.iter().filter(|gap| gap.affects_counts).collect();
    if answers.contains(&None) || !gaps.is_empty() { Err(partial(gaps)) } else { Ok(Exit::Success) }
}

/// Returns the exit code that tells whether a preview passes. Fails if it seems to, but something relevant could not be read.
pub(super) fn preview(passes: bool, incomplete: &[Incomplete]) -> Result<Exit, CommandError> {
    match (passes, incomplete) {
        (false, _) => Ok(Exit::No),
        (true, []) => Ok(Exit::Success),
        (true, gaps) => Err(partial(gaps)),
    }
}

fn partial<'a>(gaps: impl IntoIterator<Item = &'a Incomplete>) -> CommandError {
    unknown("cannot evaluate --exit-code: something that matters is not known", gaps)
}

/// Builds the error for an answer that is unknown because something could not be read.
pub(super) fn unknown<'a>(message: &str, gaps: impl IntoIterator<Item = &'a Incomplete>) -> CommandError {
    let hints = Incomplete::sentences(gaps).into_iter().map(|gap| sanitize(&gap));
    CommandError::new(message).exit(Exit::Partial).hints(hints)
}
