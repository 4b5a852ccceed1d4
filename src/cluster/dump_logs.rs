//! Reads logs of containers in a dump, where the tools that write dumps put them.

use std::io::Read;
use std::path::Path;
use std::{fs, io};

use super::archive;
use super::error::ClusterError;
use super::file::{DEMO, DEMO_BYTES, Dump, files_of};
use super::log::{Log, LogLimits, LogOf, LogTail};
use super::text::{Input, STANDARD_INPUT, io_error};

/// The most bytes of a line; longer ones lose their ends.
const MAX_LINE: usize = 1 << 16;

/// How many bytes are read at a time.
const CHUNK: usize = 1 << 16;

/// The logs that are looked for, and what was found of each: of the current run, and of the one before.
struct Wanted<'a> {
    of: &'a [LogOf],
    limits: LogLimits,
    found: Vec<[Option<LogTail>; 2]>,
}

impl Dump {
    /// Returns the logs that the dump has of some containers. If it lacks that of the wanted run, the other one counts.
    ///
    /// # Errors
    ///
    /// Fails if the dump cannot be read, or comes from standard input, which is at its end.
    pub(crate) fn logs(&self, of: &[LogOf], limits: LogLimits) -> Result<Vec<Option<Log>>, ClusterError> {
        let mut wanted = Wanted { of, limits, found: of.iter().map(|_| [None, None]).collect() };
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
        let choose = |(of, [current, before]): (&LogOf, [Option<LogTail>; 2])| {
            let (current, before) = (current.map(|tail| (tail, false)), before.map(|tail| (tail, true)));
            let found = if of.previous { before.or(current) } else { current.or(before) };
            found.map(|(tail, previous)| tail.finish(previous))
        };
        Ok(of.iter().zip(wanted.found).map(choose).collect())
    }
}

/// Where logs may be in a file.
#[derive(Debug, Clone, Copy)]
enum LogPlace {
    /// The file is the log with this index, of the current run or of the one before.
    Whole(usize, usize),
    /// In sections.
    Sections,
}

impl Wanted<'_> {
    fn add_input(&mut self, name: &str, input: Input<'_>) -> Result<(), ClusterError> {
        match input {
            Input::Text(mut text) => {
                // What `kubectl cluster-info dump` writes between the lists of objects.
                let mut sections = Sections::default();
                while let Some(chunk) = text.next_chunk()? {
                    sections.push(chunk, self);
                }
                Ok(())
            }
            Input::Tar(reader) => archive::each_file(name, reader, |path, file| self.add_file(path, file)),
        }
    }

    fn add_file(&mut self, path: &Path, mut file: impl Read) -> Result<(), ClusterError> {
        let Some(place) = self.place(path) else { return Ok(()) };
        let mut sections = Sections::default();
        let mut chunk = vec![0; CHUNK];
        loop {
            let read = match file.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read.map_err(|error| io_error(&path.display().to_string(), &error))?,
            };
            match place {
                _ if read == 0 => return Ok(()),
                LogPlace::Whole(index, run) => self.push(index, run, &chunk[..read]),
                LogPlace::Sections => sections.push(&chunk[..read], self),
            }
        }
    }

    fn push(&mut self, index: usize, run: usize, bytes: &[u8]) {
        self.found[index][run].get_or_insert_with(|| LogTail::new(self.limits)).push(bytes);
    }

    /// Returns what a file has of the logs, by its path: `NAMESPACE/POD/logs.txt` of `kubectl cluster-info dump
    /// --output-directory`; `namespaces/NAMESPACE/pods/POD/CONTAINER/CONTAINER/logs/current.log` of `oc adm inspect`, which makes
    /// must-gathers; or `POD/CONTAINER.log` and `POD/CONTAINER-previous.log` of Troubleshoot's support bundles, below
    /// `logs/NAMESPACE` if all pods were collected.
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
        let is_meant = |of: &LogOf| {
            (of.pod.as_str(), of.container.as_str()) == (pod, container)
                && namespace.is_none_or(|namespace| namespace == of.namespace)
        };
        self.of.iter().position(is_meant)
    }
}

/// The sections of logs in a text, as `super::log_section` skips them.
#[derive(Default)]
struct Sections {
    line: Vec<u8>,
    /// The index of the log that the open section is, if it is wanted, and the line that ends it.
    open: Option<(Option<usize>, Vec<u8>)>,
}

impl Sections {
    fn push(&mut self, mut bytes: &[u8], wanted: &mut Wanted<'_>) {
        while !bytes.is_empty() {
            let end = memchr::memchr(b'\n', bytes);
            let (piece, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            let room = MAX_LINE.saturating_sub(self.line.len());
            self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            bytes = rest;
            if end.is_some() {
                let mut line = std::mem::take(&mut self.line);
                if !line.ends_with(b"\n") {
                    line.push(b'\n');
                }
                self.end_line(&line, wanted);
                line.clear();
                self.line = line;
            }
        }
    }

    fn end_line(&mut self, line: &[u8], wanted: &mut Wanted<'_>) {
        let Some((index, end)) = &self.open else {
            self.open = line.strip_prefix(b"==== START logs for ").map(|heading| {
                let text = String::from_utf8_lossy(heading);
                let index = key_of(&text).and_then(|(namespace, pod, name)| wanted.index(Some(namespace), pod, name));
                (index, [b"==== END logs for ", heading].concat())
            });
            return;
        };
        // The last line of a log may not end.
        let ends_at = memchr::memmem::find(line, end);
        if let Some(index) = index {
            wanted.push(*index, 0, &line[..ends_at.unwrap_or(line.len())]);
        }
        if ends_at.is_some() {
            self.open = None;
        }
    }
}

/// Reads `container agent of pod team/agent-x7v2p ====`.
fn key_of(heading: &str) -> Option<(&str, &str, &str)> {
    let (container, pod) =
        heading.trim_end().strip_prefix("container ")?.strip_suffix(" ====")?.split_once(" of pod ")?;
    let (namespace, pod) = pod.split_once('/')?;
    Some((namespace, pod, container))
}
