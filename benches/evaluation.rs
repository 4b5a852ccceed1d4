//! The speed of coverage and decoding, on one core, without a cluster; `decisions` measures the rules.
//!
//! `cargo bench --bench evaluation`.

mod support;

use std::hint::black_box;
use std::io::{self, Write};
use std::time::Instant;

use kubectl_ds::cluster::file::Dump;
use kubectl_ds::cluster::{Query, Wanted};
use kubectl_ds::coverage::options::{Detail, Options};
use kubectl_ds::coverage::walk::coverage;
use kubectl_ds::facts::index::nodes_needing_all_pods;
use kubectl_ds::model::node::Node;
use kubectl_ds::model::snapshot::Snapshot;
use prost::Message;

fn nodes(count: usize) -> Vec<Node> {
    (0..count).map(|number| serde_json::from_value(support::node(number)).unwrap()).collect()
}

fn snapshot(nodes: usize) -> Snapshot {
    read(&dump(nodes), Wanted::Everything)
}

fn dump(nodes: usize) -> Vec<u8> {
    let mut dump = Vec::new();
    support::write_dump(&mut dump, nodes).unwrap();
    dump
}

/// Writes the median of ten runs, after one that is not counted, and how many MiB a second that is.
fn measure<T>(name: &str, bytes: usize, mut run: impl FnMut() -> T) -> io::Result<()> {
    let mut times: Vec<f64> = (0..11)
        .map(|_| {
            let started = Instant::now();
            drop(black_box(run()));
            started.elapsed().as_secs_f64()
        })
        .skip(1)
        .collect();
    times.sort_by(f64::total_cmp);
    let rate = if bytes == 0 {
        String::new()
    } else {
        format!("   {:.0} MiB/s", bytes as f64 / times[5] / f64::from(1 << 20))
    };
    writeln!(io::stdout(), "{name:<28} {:>9.2} ms{rate}", times[5] * 1e3)
}

fn main() -> io::Result<()> {
    reports()?;
    dumps()?;
    protobuf()
}

/// A whole report: reasons, groups and counts of three DaemonSets, beside three other pods to a node.
fn reports() -> io::Result<()> {
    for nodes in [1_500, 15_000] {
        let snapshot = snapshot(nodes);
        for (name, detail) in [("groups", Detail::Groups), ("nodes", Detail::Nodes)] {
            let options = Options { detail, ..Options::default() };
            measure(&format!("coverage/{name}/{nodes}"), 0, || coverage(&snapshot, &options))?;
        }
    }
    Ok(())
}

fn read(mut dump: &[u8], wanted: Wanted) -> Snapshot {
    let query = Query { wanted, ..Query::default() };
    Dump::new("-", None).read(&query, &mut dump, nodes_needing_all_pods).unwrap().snapshot
}

/// Dumps of two sizes: where time is linear, both have the same throughput.
fn dumps() -> io::Result<()> {
    for nodes in [1_500, 15_000] {
        let dump = dump(nodes);
        measure(&format!("dump/read JSON/{nodes}"), dump.len(), || read(&dump, Wanted::default()))?;
    }
    Ok(())
}

/// The bodies of nodes as protobuf, padded with a field that is not kept to the size of real ones.
fn protobuf() -> io::Result<()> {
    let pad: Vec<u8> = [0xfa, 0x01, 0x80, 0x40].into_iter().chain(std::iter::repeat_n(b'x', 0x2000)).collect();
    let bodies: Vec<Vec<u8>> = nodes(5_000).iter().map(|node| [node.encode_to_vec(), pad.clone()].concat()).collect();
    let bytes = bodies.iter().map(Vec::len).sum();
    measure("protobuf/5000 nodes", bytes, || {
        bodies.iter().map(|body| Node::decode(body.as_slice()).unwrap().spec.taints.len()).sum::<usize>()
    })
}
