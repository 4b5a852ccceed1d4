//! Reads container logs from a dump, where the tools that write dumps put them.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::{fs, io};

use super::archive;
use super::error::ClusterError;
use super::file::{DEMO, DEMO_BYTES, Dump, files_of};
use super::log::{Log, LogLimits, LogTail};
use super::log_section::LogSections;
use super::text::{Input, STANDARD_INPUT, io_error};
use crate::report::logs::PodLog;

/// How many bytes are read at a time.
const CHUNK: usize = 1 << 16;

/// The requested logs, and what was found of each: of the current run, and of the one before.
struct Wanted<'a> {
    /// The index of each log by the names of its pod, container and namespace.
    indexes: BTreeMap<[&'a str; 3], usize>,
    limits: LogLimits,
    found: Vec<[Option<LogTail>; 2]>,
}

impl Dump {
    /// Returns the logs of some containers from the dump. If the log of the requested run is missing, the other one is
    /// returned; so is the current one if the previous one is empty, because must-gathers contain an empty file if
    /// there was none. Fails if the dump cannot be read, or comes from standard input, which has already been consumed.
    pub(crate) fn logs<'a>(&self, of: &'a [PodLog], limits: LogLimits) -> Result<Vec<Option<Log>>, ClusterError> {
        let index = |(index, of): (usize, &'a PodLog)| ([of.pod.as_str(), &of.container, &of.namespace], index);
        let indexes = of.iter().enumerate().map(index).collect();
        let mut wanted = Wanted { indexes, limits, found: of.iter().map(|_| [None, None]).collect() };
        match (self.path(), Path::new(self.path())) {
            ("-", _) => {
                let problem = "cannot be read a second time, for logs";
                return Err(ClusterError::file(STANDARD_INPUT, problem).hint("give the dump as a file"));
            }
            (DEMO, _) => wanted.add_input(DEMO, Input::new(DEMO, DEMO_BYTES)?)?,
            (_, path) if path.is_dir() => {
                for file in files_of(path, &|file| wanted.place(file).is_some())? {
                    let opened =
                        fs::File::open(&file).map_err(|error| io_error(&file.display().to_string(), &error))?;
                    wanted.add_file(&file, opened)?;
                }
            }
            (name, path) => wanted.add_input(name, Input::open(path)?)?,
        }
        let choose = |(of, [current, before]): (&PodLog, [Option<LogTail>; 2])| {
            let is_current = match (&current, &before) {
                (Some(_), Some(before)) => !of.previous || before.is_empty(),
                (current, _) => current.is_some(),
            };
            Some(if is_current { current? } else { before? }.finish(!is_current))
        };
        Ok(of.iter().zip(wanted.found).map(choose).collect())
    }
}

/// Where logs may be in a file.
#[derive(Debug, Clone, Copy)]
enum LogPlace {
    /// The file is the log with this index, of the current run or of the one before.
    Whole(usize, usize),
    Sections,
}

impl Wanted<'_> {
    fn add_input(&mut self, name: &str, input: Input<'_>) -> Result<(), ClusterError> {
        match input {
            Input::Text(mut text) => {
                // The logs that `kubectl cluster-info dump` writes between the lists of objects.
                let mut sections = LogSections::default();
                while let Some(chunk) = text.next_chunk()? {
                    sections.push(chunk, &mut |heading, bytes| self.push_section(heading, bytes));
                }
                sections.finish(&mut |heading, bytes| self.push_section(heading, bytes));
                Ok(())
            }
            Input::Tar(reader) => archive::each_file(name, reader, |path, file| self.add_file(path, file)),
        }
    }

    fn add_file(&mut self, path: &Path, mut file: impl Read) -> Result<(), ClusterError> {
        let Some(place) = self.place(path) else { return Ok(()) };
        let mut sections = LogSections::default();
        let mut chunk = vec![0; CHUNK];
        loop {
            let read = match file.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read.map_err(|error| io_error(&path.display().to_string(), &error))?,
            };
            match place {
                // Push empty logs, too: then it is known that they are empty.
                LogPlace::Whole(index, run) => self.push(index, run, &chunk[..read]),
                LogPlace::Sections => {
                    sections.push(&chunk[..read], &mut |heading, bytes| self.push_section(heading, bytes));
                }
            }
            if read == 0 {
                sections.finish(&mut |heading, bytes| self.push_section(heading, bytes));
                return Ok(());
            }
        }
    }

    fn push(&mut self, index: usize, run: usize, bytes: &[u8]) {
        self.found[index][run].get_or_insert_with(|| LogTail::new(self.limits)).push(bytes);
    }

    /// Adds bytes of a log in a section, which is that of the current run.
    fn push_section(&mut self, heading: &[u8], bytes: &[u8]) {
        let heading = String::from_utf8_lossy(heading);
        let key = key_of(&heading);
        if let Some(index) = key.and_then(|(namespace, pod, container)| self.index(Some(namespace), pod, container)) {
            self.push(index, 0, bytes);
        }
    }

    /// Returns which logs a file contains, by its path: `NAMESPACE/POD/logs.txt` of `kubectl cluster-info dump --output-directory`;
    /// `namespaces/NAMESPACE/pods/POD/CONTAINER/CONTAINER/logs/current.log` of `oc adm inspect`, which makes must-gathers; or
    /// `POD/CONTAINER.log` and `POD/CONTAINER-previous.log` of Troubleshoot's support bundles, below `logs/NAMESPACE` if all pods
    /// were collected.
    fn place(&self, path: &Path) -> Option<LogPlace> {
        let names: Vec<&str> = path.iter().rev().map(|name| name.to_str().unwrap_or_default()).collect();
        let (file, above) = names.split_first()?;
        if *file == "logs.txt" {
            return Some(LogPlace::Sections);
        }
        let stem = file.strip_suffix(".log")?;
        if let (run @ ("current" | "previous"), ["logs", container, _, pod, "pods", namespace, ..]) = (stem, above) {
            let index = self.index(Some(namespace), pod, container)?;
            return Some(LogPlace::Whole(index, usize::from(run == "previous")));
        }
        let (pod, namespace) = match above {
            [pod, namespace, "logs", ..] => (pod, Some(*namespace)),
            [pod, ..] => (pod, None),
            [] => return None,
        };
        let current = self.index(namespace, pod, stem).map(|index| LogPlace::Whole(index, 0));
        let before = || Some(LogPlace::Whole(self.index(namespace, pod, stem.strip_suffix("-previous")?)?, 1));
        current.or_else(before)
    }

    fn index(&self, namespace: Option<&str>, pod: &str, container: &str) -> Option<usize> {
        match namespace {
            Some(namespace) => self.indexes.get(&[pod, container, namespace]).copied(),
            None => {
                let (found, index) = self.indexes.range([pod, container, ""]..).next()?;
                (found[..2] == [pod, container]).then_some(*index)
            }
        }
    }
}

/// Parses `==== START logs for container agent of pod team/agent-x7v2p ====`.
fn key_of(heading: &str) -> Option<(&str, &str, &str)> {
    let of = heading.trim_end().strip_prefix("==== START logs for container ")?.strip_suffix(" ====")?;
    let (container, pod) = of.split_once(" of pod ")?;
    let (namespace, pod) = pod.split_once('/')?;
    Some((namespace, pod, container))
}
