//! Reads container logs, which the API server proxies from the kubelets.

use std::time::Duration;

use super::Live;
use super::list::{escape, object};
use super::request::Response;
use crate::cluster::error::ClusterError;
use crate::cluster::log::{Log, LogLimits, LogTail};
use crate::report::logs::PodLog;

/// The request, for errors.
const REQUEST: &str = "get pods/log";

/// kubectl's media types for a log: errors are JSON.
const ACCEPT: &str = "application/json, */*";

/// How long a followed log may be silent: a year.
const SILENCE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The most bytes in a line of a followed log; a longer one is shown in pieces.
const MAX_LINE: usize = 1 << 16;

/// Returns how many of the first bytes to show as a line: up to the newline or, if it is too long, as many as fit, cut
/// between characters. `None` if more have to arrive.
fn piece(bytes: &[u8]) -> Option<usize> {
    let most = bytes.len().min(MAX_LINE + 1);
    let is_first_of_character = |at: &usize| bytes[*at] & 0b1100_0000 != 0b1000_0000;
    let cut = || (MAX_LINE - 3..=MAX_LINE).rev().find(is_first_of_character).unwrap_or(MAX_LINE);
    memchr::memchr(b'\n', &bytes[..most]).map(|end| end + 1).or_else(|| (bytes.len() > MAX_LINE).then(cut))
}

impl Live {
    /// Reads the end of a log, or whatever arrived before the response broke off. Reads the log of the current run if the container
    /// was not restarted. Fails if the pod no longer exists, its log cannot be read, or the server refuses.
    pub(crate) async fn log(&self, of: &PodLog, limits: LogLimits) -> Result<Log, ClusterError> {
        let (mut answer, previous) = match self.open_log(of, of.previous, limits, false).await {
            Err(ClusterError::Api { code: 400, .. }) if of.previous => {
                (self.open_log(of, false, limits, false).await?, false)
            }
            answer => (answer?, of.previous),
        };
        let mut tail = LogTail::new(limits);
        loop {
            match answer.next().await {
                Ok(Some(bytes)) => tail.push(&bytes),
                Ok(None) => return Ok(tail.finish(previous)),
                Err(error) if tail.is_empty() => return Err(error),
                Err(error) => return Ok(Log { broken_off: Some(error), ..tail.finish(previous) }),
            }
        }
    }

    /// Follows the log of the current run, and calls a function with each line, until the container ends or the
    /// function fails. Fails like [`Live::log`], or if the function fails.
    pub(crate) async fn follow_log<E: From<ClusterError>>(
        &self,
        of: &PodLog,
        limits: LogLimits,
        mut line: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut answer = self.open_log(of, false, limits, true).await?;
        let mut rest = Vec::new();
        while let Some(bytes) = answer.next().await? {
            rest.extend_from_slice(&bytes);
            let mut begin = 0;
            while let Some(length) = piece(&rest[begin..]) {
                let bytes = &rest[begin..begin + length];
                line(&String::from_utf8_lossy(bytes.strip_suffix(b"\n").unwrap_or(bytes)))?;
                begin += length;
            }
            rest.drain(..begin);
        }
        if rest.is_empty() { Ok(()) } else { line(&String::from_utf8_lossy(&rest)) }
    }

    async fn open_log(
        &self,
        of: &PodLog,
        previous: bool,
        limits: LogLimits,
        follow: bool,
    ) -> Result<Response<'_>, ClusterError> {
        let PodLog { namespace, pod, container, .. } = of;
        let path = object("v1", Some(namespace), "pods", pod);
        let mut path = format!("{path}/log?container={}&previous={previous}&follow={follow}", escape(container));
        if limits.lines < usize::MAX {
            // One more line tells whether there are more.
            path += &format!("&tailLines={}", limits.lines + usize::from(!follow));
        }
        if let Some(since) = limits.since {
            path += &format!("&sinceSeconds={}", since.as_secs().max(1));
        }
        let answer = match follow {
            true => self.transport.watch(REQUEST, &path, ACCEPT, SILENCE).await?,
            false => self.transport.get(REQUEST, &path, ACCEPT).await?,
        };
        // `Get` of pkg/registry/core/pod/rest/log.go, release 1.37, sends nothing else. A proxy's error page is not a log.
        if answer.content_type != "text/plain" {
            let problem = format!("it is of type {:?}, not text/plain", answer.content_type);
            return Err(ClusterError::Answer { request: REQUEST.to_owned(), problem });
        }
        Ok(answer)
    }
}
