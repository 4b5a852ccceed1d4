//! How fast coverage and decoding are, on one core, without a cluster; `decisions` is the bench of the rules.
//!
//! `cargo bench --bench evaluation`.

mod support;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
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

/// A whole report: reasons, groups and counts of three DaemonSets, beside three other pods to a node.
fn reports(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("coverage");
    group.sample_size(10);
    for nodes in [1_500, 15_000] {
        let snapshot = snapshot(nodes);
        group.throughput(Throughput::Elements((nodes * support::DAEMON_SETS.len()) as u64));
        for (name, detail) in [("groups", Detail::Groups), ("nodes", Detail::Nodes)] {
            let options = Options { detail, ..Options::default() };
            group.bench_with_input(BenchmarkId::new(name, nodes), &snapshot, |bencher, snapshot| {
                bencher.iter(|| coverage(snapshot, &options));
            });
        }
    }
    group.finish();
}

fn read(mut dump: &[u8], wanted: Wanted) -> Snapshot {
    let query = Query { wanted, ..Query::default() };
    Dump::new("-", None).read(&query, &mut dump, nodes_needing_all_pods).unwrap().snapshot
}

/// Dumps of two sizes: where time is linear, both have the same throughput.
fn dumps(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("dump");
    group.sample_size(10);
    for nodes in [1_500, 15_000] {
        let dump = dump(nodes);
        group.throughput(Throughput::Bytes(dump.len() as u64));
        group.bench_with_input(BenchmarkId::new("read JSON", nodes), &dump, |bencher, dump| {
            bencher.iter_batched(|| (), |()| read(dump, Wanted::default()), BatchSize::PerIteration);
        });
    }
    group.finish();
}

/// The bodies of nodes as protobuf, padded with a field that is not kept to the size of real ones.
fn protobuf(criterion: &mut Criterion) {
    let pad: Vec<u8> = [0xfa, 0x01, 0x80, 0x40].into_iter().chain(std::iter::repeat_n(b'x', 0x2000)).collect();
    let bodies: Vec<Vec<u8>> = nodes(5_000).iter().map(|node| [node.encode_to_vec(), pad.clone()].concat()).collect();
    let mut group = criterion.benchmark_group("protobuf");
    group.throughput(Throughput::Bytes(bodies.iter().map(|body| body.len() as u64).sum()));
    group.bench_function("5000 nodes", |bencher| {
        bencher
            .iter(|| bodies.iter().map(|body| Node::decode(body.as_slice()).unwrap().spec.taints.len()).sum::<usize>());
    });
    group.finish();
}

criterion_group!(benches, reports, dumps, protobuf);
criterion_main!(benches);
