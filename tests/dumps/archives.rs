//! Archives, which are read like the directory from which they were packed.

use std::fs;
use std::io::{self, Cursor, Read, Write};

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use super::folders::typed_list;
use super::{complaint, daemon_set, node, open, pod, read};
use crate::support::shown;

type Files = Vec<(&'static str, Vec<u8>)>;

/// The files of a must-gather, with some that have no Kubernetes objects.
fn must_gather() -> Files {
    let list = |items: &[Value]| json!({"kind": "List", "apiVersion": "v1", "items": items}).to_string();
    let pods = list(&[pod("x", "agent-1", "DaemonSet"), pod("x", "web-1", "ReplicaSet")]);
    vec![
        ("gather/cluster-scoped/nodes/a.yaml", serde_saphyr::to_string(&node("a")).unwrap().into_bytes()),
        ("gather/namespaces/x/apps/daemonsets.json", list(&[daemon_set("x", "agent")]).into_bytes()),
        ("gather/namespaces/x/core/pods.json.gz", gzip(pods.as_bytes())),
        (
            "gather/namespaces/kube-public/pods.json",
            br#"{"kind": "PodList", "apiVersion": "v1", "items": []}"#.to_vec(),
        ),
        ("gather/version.yaml", b"- 1\n".to_vec()),
        ("gather/empty.json", Vec::new()),
        ("gather/._nodes.json", b"\0\x05\x16\x07\0\xff".to_vec()),
        ("gather/namespaces/x/agent-1.log", b"{ kind".to_vec()),
    ]
}

/// The files of `kubectl cluster-info dump`.
fn cluster_info_dump() -> Files {
    let list = |kind: &str, api_version: &str, items: &[Value]| typed_list(kind, api_version, items).into_bytes();
    vec![
        ("nodes.json", list("NodeList", "v1", &[node("a")])),
        ("x/daemonsets.json", list("DaemonSetList", "apps/v1", &[daemon_set("x", "agent")])),
        ("x/pods.json", list("PodList", "v1", &[pod("x", "agent-1", "DaemonSet"), pod("x", "web-1", "ReplicaSet")])),
        ("x/agent-1/logs.txt", b"{ no json".to_vec()),
        ("kube-node-lease/pods.json", list("PodList", "v1", &[])),
    ]
}

/// The files of a support bundle of Troubleshoot.
fn support_bundle() -> Files {
    let list = |kind: &str, api_version: &str, items: &[Value]| typed_list(kind, api_version, items).into_bytes();
    vec![
        ("bundle/version.yaml", b"apiVersion: troubleshoot.sh/v1beta2\nkind: SupportBundle\n".to_vec()),
        ("bundle/analysis.json", br#"[{"name": "k8s.version", "severity": "info"}]"#.to_vec()),
        ("bundle/cluster-resources/nodes.json", list("NodeList", "v1", &[node("a")])),
        ("bundle/cluster-resources/daemonsets/x.json", list("DaemonSetList", "apps/v1", &[daemon_set("x", "agent")])),
        (
            "bundle/cluster-resources/pods/x.json",
            list("PodList", "v1", &[pod("x", "agent-1", "DaemonSet"), pod("x", "web-1", "ReplicaSet")]),
        ),
        ("bundle/cluster-resources/pods/kube-node-lease.json", list("PodList", "v1", &[])),
        ("bundle/cluster-resources/pods-errors.json", br#"["pods is forbidden"]"#.to_vec()),
        ("bundle/cluster-resources/pods/logs/x/agent-1/agent.log", b"{ kind".to_vec()),
    ]
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn tar(files: &Files) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, path, bytes.as_slice()).unwrap();
    }
    archive.into_inner().unwrap()
}

#[test]
fn an_archive_gives_the_snapshot_of_the_directory_that_was_packed() {
    for files in [must_gather(), cluster_info_dump(), support_bundle()] {
        let directory = tempfile::tempdir().unwrap();
        for (path, bytes) in &files {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        let expected = open(directory.path().to_str().unwrap(), &mut std::io::empty(), None).unwrap();
        let snapshot = &expected.snapshot;
        let counts = (snapshot.daemon_sets.len(), snapshot.nodes.len(), snapshot.pods.len());
        assert_eq!(counts, (1, 1, 2), "{:?}", files[0].0);
        for (name, bytes) in [("a.tar", tar(&files)), ("a.tgz", gzip(&tar(&files)))] {
            let path = directory.path().join(name);
            fs::write(&path, bytes).unwrap();
            let reading = open(path.to_str().unwrap(), &mut std::io::empty(), None).unwrap();
            assert_eq!(reading.snapshot, expected.snapshot, "{:?} {name}", files[0].0);
            assert_eq!(reading.warnings, Vec::<String>::new(), "{name}: files without objects are skipped silently");
        }
        assert_eq!(read(gzip(&tar(&files))).unwrap().snapshot, expected.snapshot);
    }
}

/// Appends an entry that describes the next one, full of a letter.
fn description(kind: tar::EntryType, length: u64, size: u64) -> impl Read {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_path("x").unwrap();
    header.set_cksum();
    let padding = size.next_multiple_of(512) - size;
    Cursor::new(*header.as_bytes())
        .chain(io::repeat(b'a').take(length.min(size)))
        .chain(io::repeat(0).take(if length < size { 0 } else { padding }))
}

#[test]
fn an_archive_does_not_choose_how_much_memory_its_names_take() {
    let files = tar(&must_gather());
    for kind in [
        tar::EntryType::GNULongName,
        tar::EntryType::GNULongLink,
        tar::EntryType::XHeader,
        tar::EntryType::XGlobalHeader,
    ] {
        let archive = |size| description(kind, size, size).chain(files.as_slice());
        let error = match kind {
            // It is an entry of its own, which nobody reads.
            tar::EntryType::XGlobalHeader => None,
            _ => Some(
                "standard input: the tar archive is truncated or broken: a file has a name or attributes of more than 1 MiB\n\
                hint: copy the file again, or make the archive again",
            ),
        };
        let found = open("-", &mut archive(64 << 20), None).map_err(shown);
        assert_eq!(found.err().as_deref(), error, "{kind:?}");
        assert!(open("-", &mut archive(9_000), None).is_ok(), "{kind:?}");
    }
    // Its size is one thing, and its data another.
    let error = open("-", &mut description(tar::EntryType::GNULongName, 100, u64::MAX / 2), None).unwrap_err();
    assert!(error.to_string().starts_with("standard input: the tar archive is truncated or broken: "), "{error}");
    let mut compressed = GzEncoder::new(Vec::new(), Compression::best());
    io::copy(&mut description(tar::EntryType::XHeader, 64 << 20, 64 << 20), &mut compressed).unwrap();
    let compressed = compressed.finish().unwrap();
    assert!(compressed.len() < 1 << 20);
    assert!(complaint(&compressed).contains(" more than 1 MiB"));
}

#[test]
fn a_gzip_bomb_is_refused_wherever_it_is() {
    let bomb = |before: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::new(3));
        encoder.write_all(before.as_bytes()).unwrap();
        (0..120).for_each(|_| encoder.write_all(&[b' '; 1 << 20]).unwrap());
        encoder.finish().unwrap()
    };
    let problem = "unpacks to more than 200 times its size: it looks like a gzip bomb";
    let hint = "hint: unpack it, and give its parts in a directory";
    let bomb = bomb("{\"kind\": \"List\", \"apiVersion\": \"v1\", \"items\": [");
    assert_eq!(complaint(&bomb), format!("standard input: {problem}\n{hint}"));
    let files = vec![("dump.json.gz", bomb), ("nodes.json", typed_list("NodeList", "v1", &[node("a")]).into_bytes())];
    let reading = read(tar(&files)).unwrap();
    assert_eq!(reading.warnings[0], format!("standard input: dump.json.gz: {problem}"));
    assert_eq!(reading.snapshot.nodes.len(), 1);
    let mut archive = GzEncoder::new(Vec::new(), Compression::new(3));
    archive.write_all(&tar(&files)[..1024]).unwrap();
    (0..120).for_each(|_| archive.write_all(&[0; 1 << 20]).unwrap());
    assert_eq!(complaint(archive.finish().unwrap()), format!("standard input: {problem}"));
}

#[test]
fn only_some_unreadable_files_are_named() {
    let mut archive = tar::Builder::new(Vec::new());
    let mut add = |name: &str, text: &str| {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        archive.append_data(&mut header, name, text.as_bytes()).unwrap();
    };
    (0..60).for_each(|number| add(&format!("{number}.json"), "{\"kind\""));
    add("nodes.json", &typed_list("NodeList", "v1", &[node("a")]));
    let warnings = read(archive.into_inner().unwrap()).unwrap().warnings;
    assert!(warnings[49].starts_with("standard input: 49.json: "), "{}", warnings[49]);
    assert_eq!(warnings[50], "standard input: 10 more files cannot be read");
}

#[test]
fn broken_archives_are_refused() {
    let whole = tar(&must_gather());
    let first = 512 + must_gather()[0].1.len();
    assert!(first <= 1024, "it is padded to a block");
    // In a file, in the header of the next one, between two files, and within the zeros at the end.
    for cut in [first - 1, 1024 + 100, 1024, whole.len() - 1024] {
        let error = complaint(&whole[..cut]);
        assert!(error.starts_with("standard input: the tar archive is truncated or broken: "), "{cut}: {error}");
    }
    let gzipped = gzip(&whole);
    for cut in [gzipped.len() / 2, gzipped.len() - 9] {
        let error = complaint(&gzipped[..cut]);
        assert!(error.starts_with("standard input: "), "{cut}: {error}");
    }
    assert_eq!(
        complaint(b"PK\x03\x04 and so on"),
        "standard input: is a zip archive, not JSON or YAML\nhint: unpack it, and pass the directory or the file in it"
    );
}
