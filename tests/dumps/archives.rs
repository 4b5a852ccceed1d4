//! Archives, which are read like the directory that was packed.

use std::fs;
use std::io::{Cursor, Write};

use flate2::{Compression, write::GzEncoder};
use kubectl_ds::model::snapshot::PodsComplete;
use serde_json::json;

use super::{complaint, daemon_set, node, open, pod, read};

/// The files of a must-gather, with some that have no Kubernetes objects.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    let list = |items: &[serde_json::Value]| json!({"kind": "List", "apiVersion": "v1", "items": items}).to_string();
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

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn tar() -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, bytes) in files() {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, path, bytes.as_slice()).unwrap();
    }
    archive.into_inner().unwrap()
}

fn zip() -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (path, bytes) in files() {
        archive.start_file(path, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(&bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

#[test]
fn an_archive_gives_the_snapshot_of_the_directory_that_was_packed() {
    let directory = tempfile::tempdir().unwrap();
    for (path, bytes) in files() {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let expected = open(directory.path().to_str().unwrap(), &mut std::io::empty(), None).unwrap();
    assert_eq!((expected.snapshot.nodes.len(), expected.snapshot.pods.len()), (1, 2));
    assert_eq!(expected.snapshot.pods_complete, PodsComplete::Everywhere);
    for (name, bytes) in [("a.tar", tar()), ("a.tgz", gzip(&tar())), ("a.zip", zip())] {
        let path = directory.path().join(name);
        fs::write(&path, bytes).unwrap();
        let reading = open(path.to_str().unwrap(), &mut std::io::empty(), None).unwrap();
        assert_eq!(reading.snapshot, expected.snapshot, "{name}");
        assert_eq!(reading.warnings, Vec::<String>::new(), "{name}: files without objects are skipped silently");
    }
    assert_eq!(read(gzip(&tar())).unwrap().snapshot, expected.snapshot);
}

#[test]
fn broken_archives_are_refused() {
    let whole = tar();
    let first = 512 + files()[0].1.len();
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
        complaint(zip()),
        "standard input: is a zip archive, which cannot be read from standard input\nhint: pass its path"
    );
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.zip");
    fs::write(&path, &zip()[..300]).unwrap();
    let error = open(path.to_str().unwrap(), &mut std::io::empty(), None).unwrap_err().to_string();
    assert!(error.contains("a.zip: the zip archive is truncated or broken: "), "{error}");
}
