//! The measurement "From a dump" of docs/performance.md: dumps of growing size, each read and evaluated by a separate
//! process.
//!
//! `cargo bench --bench from_dump`. `KUBECTL_DS_NODES` sets the size of the biggest; there are six pods per node.

#![expect(clippy::print_stdout, reason = "what a measurement prints is its result")]

mod support;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use flate2::{Compression, write::GzEncoder};
use kubectl_ds::cluster::Query;
use kubectl_ds::cluster::file::Dump;
use kubectl_ds::coverage::options::{Detail, Options};
use kubectl_ds::coverage::walk::coverage;
use kubectl_ds::facts::index::nodes_needing_all_pods;

/// How often each dump is read; the fastest counts, since anything else on the machine only slows.
const ROUNDS: usize = 3;

/// The argument by which this program asks itself to read one dump.
const READ: &str = "--read-dump";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().position(|argument| argument == READ) {
        Some(at) => read(&arguments[at + 1]),
        None => measure(),
    }
}

fn measure() {
    let nodes: usize = std::env::var("KUBECTL_DS_NODES").ok().and_then(|text| text.parse().ok()).unwrap_or(15_000);
    let folder = tempfile::tempdir().unwrap();
    println!("Seconds are those of the processor, so that other work on the machine counts little.");
    println!("   nodes     pods       MB    read s  evaluate s  read MB/s  peak MB    wall s");
    for part in [10, 4, 2, 1] {
        measure_file(&folder.path().join("dump.json"), nodes / part, false);
    }
    measure_file(&folder.path().join("dump.json.gz"), nodes, true);
}

fn measure_file(path: &Path, nodes: usize, gzip: bool) {
    let out = BufWriter::with_capacity(1 << 20, File::create(path).unwrap());
    if gzip {
        let mut out = GzEncoder::new(out, Compression::fast());
        support::write_dump(&mut out, nodes).unwrap();
        out.finish().unwrap().flush().unwrap();
    } else {
        let mut out = out;
        support::write_dump(&mut out, nodes).unwrap();
        out.flush().unwrap();
    }
    let megabytes = fs::metadata(path).unwrap().len() as f64 / 1e6;
    let program = std::env::current_exe().unwrap();
    let rounds = (0..ROUNDS).map(|_| {
        let output = Command::new(&program).args([READ, path.to_str().unwrap()]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let figures = String::from_utf8(output.stdout).unwrap();
        figures.split_whitespace().map(|figure| figure.parse().unwrap()).collect::<Vec<f64>>()
    });
    let best = rounds.min_by(|one, other| one[0].total_cmp(&other[0])).unwrap();
    let [read, evaluate, peak, wall] = best[..] else { panic!("four figures") };
    let pods = nodes * support::PODS_PER_NODE;
    let rate = megabytes / read;
    let what = if gzip { "  gzipped" } else { "" };
    println!(
        "{nodes:>8} {pods:>8} {megabytes:>8.0} {read:>9.2} {evaluate:>11.2} {rate:>10.0} {peak:>8.0} {wall:>9.2}{what}"
    );
    fs::remove_file(path).unwrap();
}

/// Reads and evaluates one dump, and prints the seconds of each, the most memory held in MB, and the
/// seconds on the clock.
fn read(path: &str) {
    let (started, begun) = (Instant::now(), processor_seconds());
    let dump = Dump::new(path, None);
    let snapshot = dump.read(&Query::default(), &mut std::io::stdin(), nodes_needing_all_pods).unwrap().snapshot;
    let read = processor_seconds();
    let options = Options { detail: Detail::Groups, ..Options::default() };
    let report = coverage(&snapshot, &options);
    let evaluated = processor_seconds();
    assert_eq!(report.daemon_sets.len(), support::DAEMON_SETS.len());
    println!("{} {} {} {}", read - begun, evaluated - read, high_water_mark(), started.elapsed().as_secs_f64());
    // What is left is not taken apart, as in the program itself.
    std::process::exit(0);
}

/// Returns the seconds that this process has had of the processor, its own and the system's for it.
fn processor_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit_once(')').unwrap().1;
    let ticks = after_name.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>();
    // Linux counts in hundredths of a second, whatever its own clock does.
    ticks / 100.0
}

fn high_water_mark() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1_000.0
}
