//! Follows one list: lists it, watches it from there, and lists again if the server has forgotten the version.
//!
//! Intervals and decisions are those of client-go's reflector, k8s.io/client-go/tools/cache/reflector.go, release 1.37. Unlike
//! there, a broken watch resumes from its version after any failure that is unrelated to the version, and if a list works but the
//! watch is forbidden or keeps breaking (such as in a proxy), the list is read at intervals. A restore of the cluster from a backup
//! is detected, too: its versions start again at an older one, and until they have caught up, a watch from the old version shows
//! nothing.

use std::time::Duration;

use futures::stream::{self, Stream};
use jiff::Timestamp;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::list::{self, List, Listed};
use super::request::Transport;
use super::watch_event::{Event, Events};
use crate::cluster::error::ClusterError;
use crate::cluster::object::Object;
use crate::connection::error::{ConnectionError, FailureKind};
use crate::model::metadata::ObjectMeta;
use crate::model::snapshot::Kind;

/// The timeout in seconds that the server is asked to use for a watch.
const WATCH_SECONDS: u32 = 290;

/// The same in seconds for a trial watch, while its objects are listed. A bookmark arrives two seconds before the end.
const TRIAL_SECONDS: u32 = 5;

/// How long after its timeout a watch may stay open.
const GRACE: Duration = Duration::from_secs(5);

/// How long a watch may be silent: the API server sends a bookmark every minute, except to watches of events, which it
/// does not cache.
const MAX_SILENCE: Duration = Duration::from_secs(90);

/// How long the watch of a lease may be silent before it is listed: its holder renews it every two seconds, and without news of it would
/// seem to be down. Both this and the wait for the answer pass before it does.
const SILENCE_OF_LEASES: Duration = Duration::from_secs(20);

/// How long the answer to that may take.
const ANSWER: Duration = Duration::from_secs(10);

/// How often a watch looks whether this machine was asleep.
const TICK: Duration = Duration::from_secs(1);

/// How much more time has passed by the clock than for the process if it was.
const SLEPT: Duration = Duration::from_secs(10);

/// A watch that ends sooner without an event counts as a failure.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);

/// How often to list objects that cannot be watched.
const LIST_INTERVAL: Duration = Duration::from_secs(5);

/// The inverse of the largest share of time that is spent on such lists.
const LOAD: u32 = 4;

/// How long to list before a watch is tried again. It doubles each time.
const FIRST_LISTING: Duration = Duration::from_secs(30);

/// The maximum of that time.
const MAX_LISTING: Duration = Duration::from_secs(600);

/// The pause after the first failure. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(800);

/// The longest pause after a failure.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// How often a list older than the known version is requested again before that counts as a failure.
const STALE_LISTS: u32 = 3;

/// After every list has been older than the known version for this long, it is accepted: etcd was restored from a
/// backup. A replica of the API server that lags behind that much fails its health checks.
const RESTORED: Duration = Duration::from_secs(30);

/// The outcome of reading the objects of a list.
#[derive(Debug)]
pub(super) enum ListChange<T> {
    /// The list was read: these are all of its objects.
    Listed(Vec<T>),
    /// An object was added or modified.
    Applied(Box<T>),
    /// An object was deleted, or is no longer kept.
    Deleted { namespace: String, name: String },
    /// Watching is forbidden or not supported, or keeps failing: the objects are listed periodically instead.
    Unwatched(ClusterError),
    /// Listing is forbidden.
    Forbidden,
    /// A request failed, and is repeated.
    Failed(ClusterError),
    /// The watch was resumed after a failure.
    Resumed,
}

/// Follows a list forever; `keep` returns the part of an object that is kept.
pub(super) fn follow<'a, T: Object + 'a>(
    transport: &'a Transport,
    list: List,
    keep: impl Fn(T) -> Option<T> + 'a,
) -> impl Stream<Item = ListChange<T>> + 'a {
    let follower = Follower {
        transport,
        list,
        keep,
        state: State::Unlisted,
        listed_until: None,
        listing: FIRST_LISTING,
        has_failed: false,
        pause: FIRST_PAUSE,
        newest: 0,
        stale_since: None,
        awake: now(transport),
        silence: SILENCE_OF_LEASES,
    };
    stream::unfold(follower, async |mut follower| Some((follower.change().await, follower)))
}

struct Follower<'a, K> {
    transport: &'a Transport,
    list: List,
    keep: K,
    state: State<'a>,
    /// When to try to watch again while listing instead; `None` while watching.
    listed_until: Option<Instant>,
    /// How long to list the next time.
    listing: Duration,
    /// Whether a failure of the watch was reported.
    has_failed: bool,
    /// How long to wait after the next failure.
    pause: Duration,
    /// The newest version that the server has sent.
    newest: u64,
    /// Since when every list has been older than that.
    stale_since: Option<Instant>,
    /// When this machine was last known to be awake, by its clock and for the process.
    awake: (Timestamp, Instant),
    /// How long the watch of a lease may be silent before it is listed.
    silence: Duration,
}

enum State<'a> {
    Unlisted,
    /// Listed up to a version.
    At(String),
    /// Watched up to a version, until the watch ended.
    Ended(String),
    Watching {
        version: String,
        events: Box<Events<'a>>,
        opened: Instant,
    },
    /// Waiting, to continue from the version if one is known.
    Pausing(Option<String>, Duration),
}

impl<'a, K> Follower<'a, K> {
    async fn change<T: Object>(&mut self) -> ListChange<T>
    where
        K: Fn(T) -> Option<T>,
    {
        loop {
            let change = match std::mem::replace(&mut self.state, State::Unlisted) {
                State::Pausing(version, pause) => {
                    sleep(pause).await;
                    self.state = version.map_or(State::Unlisted, State::Ended);
                    None
                }
                State::Unlisted if self.list.kind == Kind::Leases && self.newest > 0 => Some(self.list_in_time().await),
                State::Unlisted => Some(self.list().await),
                State::Ended(version) => self.resume(version).await,
                State::At(version) => self.open(version).await,
                State::Watching { version, mut events, opened } => {
                    let event = tokio::select! {
                        biased;
                        event = events.next::<T>(&self.list) => Some(event),
                        () = sleep_of_the_machine(self.transport, &mut self.awake) => {
                            Some(Err(ConnectionError::lost("this machine was asleep").into()))
                        }
                        () = sleep(self.silence), if self.list.kind == Kind::Leases => None,
                    };
                    match event {
                        Some(event) => {
                            self.silence = SILENCE_OF_LEASES;
                            self.event(version, events, opened, event)
                        }
                        None => {
                            // It may be renewed less often, or not exist.
                            self.silence = (self.silence * 2).min(MAX_SILENCE);
                            Some(self.list_in_time().await)
                        }
                    }
                }
            };
            if let Some(change) = change {
                return change;
            }
        }
    }

    /// Lists what has said nothing: whether nothing was said, or nothing came through.
    async fn list_in_time<T: Object>(&mut self) -> ListChange<T>
    where
        K: Fn(T) -> Option<T>,
    {
        let Ok(change) = timeout(ANSWER, self.list()).await else {
            self.back_off(None);
            let why = format!("no answer came within {} s", ANSWER.as_secs());
            return ListChange::Failed(ConnectionError::lost(why).into());
        };
        change
    }

    async fn list<T: Object>(&mut self) -> ListChange<T>
    where
        K: Fn(T) -> Option<T>,
    {
        let began = Instant::now();
        let listed = async || list::open::<T>(self.transport, self.list.clone()).await?.collect(&self.keep).await;
        let mut answer = listed().await;
        for retry in 1..=STALE_LISTS {
            // The replica lags behind: its list would show an outdated state.
            if !answer.as_ref().is_ok_and(|listed| self.is_stale(&listed.resource_version)) {
                break;
            }
            sleep(FIRST_PAUSE * retry).await;
            answer = listed().await;
        }
        match answer {
            Ok(listed) if self.is_stale(&listed.resource_version) && !self.is_restored() => {
                self.state = State::Pausing(None, LIST_INTERVAL);
                let problem = "it is older than what the server has sent before".to_owned();
                ListChange::Failed(ClusterError::Answer { request: self.list.request(), problem })
            }
            Ok(Listed { items, resource_version }) => {
                (self.newest, self.stale_since) = (resource_version.parse().unwrap_or(0), None);
                self.state = match self.listed_until {
                    Some(until) if Instant::now() < until => {
                        self.pause = FIRST_PAUSE;
                        State::Pausing(None, LIST_INTERVAL.max(began.elapsed() * LOAD))
                    }
                    _ => State::At(resource_version),
                };
                ListChange::Listed(items)
            }
            Err(error) if error.is_forbidden() => {
                self.state = State::Pausing(None, MAX_PAUSE);
                ListChange::Forbidden
            }
            Err(error) => {
                self.back_off(None);
                ListChange::Failed(error)
            }
        }
    }

    /// Checks that a watch can continue from a version: it would show nothing until the server has reached that version.
    async fn resume<T: Object>(&mut self, version: String) -> Option<ListChange<T>> {
        match list::version::<T>(self.transport, &self.list).await {
            Ok(now) if self.is_stale(&now) => None,
            // If watching is allowed but listing no longer is, watch.
            Err(error) if !error.is_forbidden() => self.retry(version, error),
            _ => {
                self.state = State::At(version);
                None
            }
        }
    }

    async fn open<T: Object>(&mut self, version: String) -> Option<ListChange<T>> {
        let request = format!("watch {}", self.list.kind.resource());
        let seconds = if self.listed_until.is_some() { TRIAL_SECONDS } else { WATCH_SECONDS };
        let longest = Duration::from_secs(seconds.into()) + GRACE;
        let max_silence = if self.list.kind == Kind::Events { longest } else { longest.min(MAX_SILENCE) };
        let began = Instant::now();
        self.awake = now(self.transport);
        let opened = async {
            let path = self.list.watch(&version, seconds)?;
            Events::new(self.transport.watch(&request, &path, T::accept(), max_silence).await?)
        };
        match opened.await {
            Ok(events) => {
                self.state = State::Watching { version, events: Box::new(events), opened: Instant::now() };
                std::mem::take(&mut self.has_failed).then_some(ListChange::Resumed)
            }
            Err(error) => {
                // The request has been retried for this long.
                if began.elapsed() > LIST_INTERVAL {
                    self.pause = MAX_PAUSE;
                }
                self.fail(version, error)
            }
        }
    }

    fn event<T: Object>(
        &mut self,
        version: String,
        events: Box<Events<'a>>,
        opened: Instant,
        event: Result<Option<Event<T>>, ClusterError>,
    ) -> Option<ListChange<T>>
    where
        K: Fn(T) -> Option<T>,
    {
        let (object, is_deleted) = match event {
            Ok(Some(Event::Applied(object))) => (object, false),
            Ok(Some(Event::Deleted(object))) => (object, true),
            Ok(Some(Event::Bookmark(newer))) => {
                self.note_version(&newer);
                let version = if newer.is_empty() { version } else { newer };
                self.state = State::Watching { version, events, opened };
                return self.works();
            }
            // A trial must receive something: a proxy may keep a watch open without forwarding its events.
            Ok(None) if opened.elapsed() >= SHORTEST_WATCH && !self.is_trial() => {
                self.state = State::Ended(version);
                return self.works();
            }
            // A proxy that ends each watch immediately hides all events.
            Ok(None) if self.pause > FIRST_PAUSE || self.is_trial() => {
                let problem = "the watch ended without a bookmark".to_owned();
                return self.fail(version, ConnectionError::lost(problem).into());
            }
            Ok(None) => {
                self.back_off(Some(version));
                return None;
            }
            Ok(Some(Event::Error(error))) | Err(error) => return self.fail(version, error),
        };
        self.pause = FIRST_PAUSE;
        let ObjectMeta { namespace, name, resource_version, .. } = object.metadata();
        let (namespace, name) = (namespace.clone(), name.clone());
        let version = resource_version.clone();
        self.note_version(&version);
        self.state = State::Watching { version, events, opened };
        let kept = if is_deleted { None } else { (self.keep)(object) };
        Some(kept.map_or(ListChange::Deleted { namespace, name }, |object| ListChange::Applied(Box::new(object))))
    }

    /// Returns whether this is a trial watch that must receive a bookmark; watches of events have none.
    fn is_trial(&self) -> bool {
        self.listed_until.is_some() && self.list.kind != Kind::Events
    }

    /// Records that the watch works: a watch that was merely opened may be that of a proxy, which sends nothing.
    fn works<T>(&mut self) -> Option<ListChange<T>> {
        self.pause = FIRST_PAUSE;
        self.listed_until.take().map(|_| ListChange::Resumed)
    }

    /// Decides how to continue after a watch could not be opened or broke: if the failure persists after a few
    /// attempts, or cannot be fixed by retrying, list instead.
    fn fail<T>(&mut self, version: String, error: ClusterError) -> Option<ListChange<T>> {
        let is_refused = matches!(&error, ClusterError::Api { code: 403 | 405, .. });
        let is_silent = matches!(&error, ClusterError::Connection(error) if error.failure == FailureKind::TimedOut);
        if !is_refused && !is_silent && self.listed_until.is_none() && self.pause <= LIST_INTERVAL {
            return self.retry(version, error);
        }
        let is_first = self.listed_until.replace(Instant::now() + self.listing).is_none();
        self.listing = (self.listing * 2).min(MAX_LISTING);
        self.has_failed = false;
        let is_out_of_date = is_first && !is_refused;
        self.state = State::Pausing(None, if is_out_of_date { Duration::ZERO } else { LIST_INTERVAL });
        is_first.then_some(ListChange::Unwatched(error))
    }

    /// Retries a failed request later, from the version if that is unrelated to the failure.
    fn retry<T>(&mut self, version: String, error: ClusterError) -> Option<ListChange<T>> {
        let version = match &error {
            // The server has forgotten the version; a list shows what was missed.
            ClusterError::Api { code: 410, .. } => {
                self.back_off(None);
                return None;
            }
            // The same version would get the same response.
            ClusterError::Answer { .. } | ClusterError::Api { code: 400 | 404 | 422, .. } => None,
            _ => Some(version),
        };
        self.back_off(version);
        self.has_failed = true;
        Some(ListChange::Failed(error))
    }

    /// Records a version that the server has sent. Versions are increasing numbers; other values are not compared.
    fn note_version(&mut self, version: &str) {
        self.newest = self.newest.max(version.parse().unwrap_or(0));
    }

    /// Returns whether a list is older than the known version.
    fn is_stale(&self, version: &str) -> bool {
        version.parse().is_ok_and(|version: u64| version < self.newest)
    }

    /// Returns whether lists have been older than the known version for so long that etcd must have been restored.
    fn is_restored(&mut self) -> bool {
        self.stale_since.get_or_insert_with(Instant::now).elapsed() >= RESTORED
    }

    fn back_off(&mut self, version: Option<String>) {
        self.state = State::Pausing(version, self.pause);
        self.pause = (self.pause * 2).min(MAX_PAUSE);
    }
}

/// Ends once this machine has been asleep: that the connection of a watch has not outlived that is not noticed for a while.
/// How long it waits survives events: those that had arrived before are read first.
async fn sleep_of_the_machine(transport: &Transport, awake: &mut (Timestamp, Instant)) {
    loop {
        sleep_until(awake.1 + TICK).await;
        let (time, waited) = std::mem::replace(awake, now(transport));
        // The time of an `Instant` stands still meanwhile.
        if awake.0.duration_since(time).unsigned_abs() > awake.1.duration_since(waited) + SLEPT {
            return;
        }
    }
}

/// Returns the time by this machine's clock and for the process.
fn now(transport: &Transport) -> (Timestamp, Instant) {
    (transport.connection.observed.local_time(), Instant::now())
}
