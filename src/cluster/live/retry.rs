//! Decides whether and when a request is repeated.

use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderMap, RETRY_AFTER};
use tokio::time::Instant;

/// How often a request is repeated after the time that the server asks for; as often as client-go does.
const MAX_RETRIES: u32 = 10;

/// For how long a request is repeated if the server does not say when.
const PATIENCE: Duration = Duration::from_secs(3);

/// The first pause if the server does not say when.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The shortest pause, whatever the server says.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// How a request may still be repeated.
///
/// Ported from `IsNextRetry`, k8s.io/client-go/rest/with_retry.go, release 1.36. Unlike there, a change is repeated only
/// after 429, reads are repeated for [`PATIENCE`] if there is no `Retry-After`, and no pause ends after the last time.
#[derive(Debug)]
pub(super) struct Retries {
    last: Instant,
    left: u32,
    patience: Duration,
    pause: Duration,
}

impl Retries {
    /// Allows repetitions that begin by then.
    pub(super) fn until(last: Instant) -> Self {
        Retries { last, left: MAX_RETRIES, patience: PATIENCE, pause: FIRST_PAUSE }
    }

    /// Returns whether a pause ends in time.
    pub(super) fn allow(&self, wait: Duration) -> bool {
        wait <= self.last.saturating_duration_since(Instant::now())
    }

    /// Returns how long to wait after the connection of a read was lost, or `None` if it is not repeated.
    pub(super) fn after_reset(&mut self) -> Option<Duration> {
        self.next_pause().filter(|wait| self.allow(*wait))
    }

    /// Returns how long to wait after the server has refused a request, or `None` if it is not repeated.
    pub(super) fn after_refusal(
        &mut self,
        status: StatusCode,
        retry_after: Option<Duration>,
        is_read: bool,
    ) -> Option<Duration> {
        let is_busy = match status {
            StatusCode::TOO_MANY_REQUESTS => true,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => is_read,
            status => is_read && status.is_server_error() && retry_after.is_some(),
        };
        match retry_after.filter(|_| is_busy) {
            Some(wait) => {
                self.left = self.left.checked_sub(1)?;
                Some(wait.max(SHORTEST_PAUSE))
            }
            None if is_busy => self.next_pause(),
            None => None,
        }
    }

    fn next_pause(&mut self) -> Option<Duration> {
        let wait = self.pause.min(self.patience);
        self.patience -= wait;
        self.pause *= 2;
        (!wait.is_zero()).then_some(wait)
    }
}

/// Returns how long the server asks to wait, in the form of seconds that client-go knows.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::StatusCode;
    use tokio::time::Instant;

    use super::Retries;

    #[test]
    fn only_what_was_not_looked_at_is_repeated() {
        let retries = || Retries::until(Instant::now() + Duration::from_secs(60));
        let second = Some(Duration::from_secs(1));
        for (status, retry_after, read, change) in [
            (StatusCode::TOO_MANY_REQUESTS, second, second, second),
            (StatusCode::TOO_MANY_REQUESTS, None, Some(super::FIRST_PAUSE), Some(super::FIRST_PAUSE)),
            (StatusCode::SERVICE_UNAVAILABLE, second, second, None),
            (StatusCode::SERVICE_UNAVAILABLE, None, Some(super::FIRST_PAUSE), None),
            (StatusCode::INTERNAL_SERVER_ERROR, second, second, None),
            (StatusCode::INTERNAL_SERVER_ERROR, None, None, None),
            (StatusCode::FORBIDDEN, second, None, None),
        ] {
            assert_eq!(retries().after_refusal(status, retry_after, true), read, "{status}");
            assert_eq!(retries().after_refusal(status, retry_after, false), change, "{status}");
        }
    }

    #[test]
    fn patience_ends() {
        let mut retries = Retries::until(Instant::now() + Duration::from_secs(3600));
        let pauses: Vec<Duration> = std::iter::from_fn(|| retries.after_reset()).collect();
        assert_eq!(pauses.iter().sum::<Duration>(), super::PATIENCE);
        let busy = (StatusCode::TOO_MANY_REQUESTS, Some(Duration::ZERO));
        let waits = std::iter::from_fn(|| retries.after_refusal(busy.0, busy.1, false));
        assert_eq!(waits.collect::<Vec<_>>(), vec![super::SHORTEST_PAUSE; 10]);
        assert!(!Retries::until(Instant::now()).allow(Duration::from_secs(1)));
    }
}
