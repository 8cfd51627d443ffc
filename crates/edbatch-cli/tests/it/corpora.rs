//! Corpora in 64 shards, run by Ray and by xargs while processes are killed: the lines equal the
//! lines of one process, every mark exists, and no partial file is left.
//!
//! `cargo xtask ci --only corpora` runs these tests. The Ray test needs a Python with Ray;
//! `EDBATCH_PYTHON` names it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use edbatch_testing::{names, shared, skip};
use tempfile::TempDir;

const SHARDS: usize = 64;

const EDBATCH: &str = env!("CARGO_BIN_EXE_edbatch");

/// A model and inputs, and a temporary folder for the shards.
struct Corpus {
    folder: TempDir,
    inputs: Vec<PathBuf>,
}

impl Corpus {
    fn new(test: &str, model: &str, inputs: Vec<PathBuf>) -> Self {
        let folder = TempDir::with_prefix(format!("edbatch-{test}-")).unwrap();
        fs::create_dir(folder.path().join("out")).unwrap();
        let mut command = Command::new(EDBATCH);
        command.args(["init", model]).arg(folder.path().join("model")).args(["--hidden", "128"]);
        succeed(command.arg("--input").arg(&inputs[0]));
        Self { folder, inputs }
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    /// Compares the shards with the results of one process.
    fn check(&self) {
        let names = names(&self.out());
        for shard in 0..SHARDS {
            for end in ["jsonl", "done"] {
                let name = format!("part-{shard:05}.{end}");
                assert!(names.contains(&name), "{name} of {names:?}");
            }
        }
        assert!(!names.iter().any(|name| name.contains("partial")), "{names:?}");
        let mut one = Command::new(EDBATCH);
        one.arg("infer").arg(self.folder.path().join("model")).arg("--input").args(&self.inputs);
        let one = succeed(&mut one).stdout;
        let cat = succeed(Command::new(EDBATCH).args(["shards", "cat"]).arg(self.out())).stdout;
        assert!(one == cat, "{} and {} bytes", one.len(), cat.len());
    }
}

/// Returns the Stanford treebank and the newswire lattices.
fn corpora(test: &str) -> Option<[Corpus; 2]> {
    let files = |set: &str, end: &str| -> Option<Vec<PathBuf>> {
        ["train", "dev", "test"]
            .map(|part| shared(format!("datasets/{set}/{part}.{end}")))
            .into_iter()
            .collect()
    };
    let (sst, newswire) = (files("sst", "txt.gz")?, files("newswire", "arcs.txt.gz")?);
    Some([
        Corpus::new(&format!("{test}-sst"), "tree_lstm", sst),
        Corpus::new(&format!("{test}-newswire"), "lattice_lstm", newswire),
    ])
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    output
}

#[test]
#[ignore = "takes a minute"]
fn a_ray_cluster_may_lose_a_worker_and_a_node() {
    let python = std::env::var_os("EDBATCH_PYTHON").unwrap_or_else(|| "python3".into());
    let probe = Command::new(&python).args(["-c", "import ray.cluster_utils"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        let what = "has no Ray: pip install ray, and set EDBATCH_PYTHON to this Python";
        return skip(&format!("{} {what}", python.display()));
    }
    let Some(corpora) = corpora("ray") else { return };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/deploy/ray/check_cluster.py");
    for corpus in corpora {
        let mut check = Command::new(&python);
        check.arg(script).args(["--shards", &SHARDS.to_string(), "--edbatch", EDBATCH]);
        check.arg("--folder").arg(corpus.out()).arg(corpus.folder.path().join("model"));
        let said = succeed(check.args(&corpus.inputs)).stdout;
        let said = String::from_utf8_lossy(&said);
        let results: Vec<&str> = said.lines().filter(|line| !line.starts_with('[')).collect();
        println!("{}", results.join("\n"));
        corpus.check();
    }
}

/// A script that runs all shards, two at a time. `$1` is the folder, `$2` the command.
const XARGS: &str = r#"
cd "$1" && shift
seq 0 63 | xargs -P 2 -I {} sh -c '
    shard=$1; edbatch=$2; shift 2
    "$edbatch" infer model --input "$@" --shard "$shard/64" --output-dir out --threads 1 &
    echo $! > "pids/$shard"
    wait $!
' sh {} "$@"
"#;

#[test]
#[ignore = "takes a minute"]
#[cfg(unix)]
fn processes_of_xargs_may_be_killed() {
    if !Command::new("xargs").arg("--version").output().is_ok_and(|output| output.status.success())
    {
        return skip("xargs is not installed");
    }
    let Some(corpora) = corpora("xargs") else { return };
    for corpus in corpora {
        let pids = corpus.folder.path().join("pids");
        fs::create_dir(&pids).unwrap();
        let xargs = || {
            let mut command = Command::new("sh");
            command.args(["-c", XARGS, "sh"]).arg(corpus.folder.path()).arg(EDBATCH);
            command.args(&corpus.inputs).output().unwrap()
        };
        let (output, killed) = std::thread::scope(|scope| {
            let running = scope.spawn(xargs);
            let mut killed = 0;
            while !running.is_finished() {
                killed += usize::from(killed < 5 && kill_one(&corpus.out(), &pids));
                std::thread::sleep(Duration::from_millis(1));
            }
            (running.join().unwrap(), killed)
        });
        assert!(killed > 0 && !output.status.success(), "{killed} killed: {output:?}");
        let check = Command::new(EDBATCH).args(["shards", "check"]).arg(corpus.out()).output();
        assert_eq!(check.unwrap().status.code(), Some(1), "shards are missing");
        assert!(xargs().status.success(), "the second run completes the corpus");
        println!("{killed} processes were killed");
        corpus.check();
    }
}

/// Kills the process of a shard that is being written. Returns false if it finds no such process.
#[cfg(unix)]
fn kill_one(out: &Path, pids: &Path) -> bool {
    let partial = names(out).into_iter().find(|name| name.ends_with(".partial"));
    let Some(partial) = partial else { return false };
    let shard: usize = partial[".part-".len()..][..5].parse().unwrap();
    let file = pids.join(shard.to_string());
    let Ok(pid) = fs::read_to_string(&file) else { return false };
    fs::remove_file(&file).unwrap();
    Command::new("kill").args(["-9", pid.trim()]).status().is_ok_and(|status| status.success())
}
