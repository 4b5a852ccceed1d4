# The tasks of this repository: `just` lists them. Times are those of two idle cores.

_list:
    @just --list --unsorted

# Run the tests that need only Rust: no cluster, no network (1 min after the build)
test *FILTER:
    cargo test -- {{FILTER}}

# Run the unit tests of the rules: the quick loop after a change (18 s, and 1 min to compile)
quick *FILTER:
    cargo test --lib {{FILTER}}

# Write all expected output again, or that of some tests: screens, docs, schemas, completions. Review the diff (2 min)
accept *FILTER='screens the_scripts':
    # `explain` has docs/reason-codes.md compiled in.
    SNAPSHOTS=overwrite KUBECTL_DS_UPDATE=1 cargo test --test main -- docs
    SNAPSHOTS=overwrite KUBECTL_DS_UPDATE=1 cargo test --test main -- {{FILTER}}

# Run the tests on a real control plane; the first time it is built from source (10 min, needs Go)
e2e *FILTER:
    cargo test --test e2e -- --test-threads 6 {{FILTER}}

# Format, and run the lints as CI does (1 min)
lint:
    cargo fmt
    cargo clippy --locked --profile test --lib --bins --benches --test main --test e2e -- -D warnings

# Print the processor time of each test (3 min); see .ci/times
times *TESTS:
    .ci/times {{TESTS}}

# Build the archives of a release, try each, and install the packages (20 min; see .ci/release for what it needs)
release *TARGETS:
    .ci/release {{TARGETS}}
    .ci/smoke target/dist/*.tar.gz target/dist/*.zip
    .ci/package
    .ci/install

# Run everything that has to hold before a change lands (30 min; 45 the first time)
ci:
    .ci/run
