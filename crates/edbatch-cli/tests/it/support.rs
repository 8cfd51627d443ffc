//! Runs the command in a temporary folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use edbatch_datasets::fixtures::text;
use edbatch_testing::names;
use serde_json::Value;
use tempfile::TempDir;

/// The models, each with the name and the text of the file that `init` uses.
pub(crate) const MODELS: [(&str, &str, &str); 9] = [
    ("tree_lstm", "trees.txt", text::BINARY_TREES),
    ("tree_lstm_2type", "trees.txt", text::BINARY_TREES),
    ("tree_gru", "trees.txt", text::BINARY_TREES),
    ("mv_rnn", "trees.txt", text::BINARY_TREES),
    ("bilstm_tagger", "tagged.txt", text::SENTENCES),
    ("bilstm_tagger_char", "tagged.txt", text::SENTENCES),
    ("lstm_nmt", "source.txt", text::SOURCES),
    ("lattice_lstm", "lattices.jsonl", text::NEWSWIRE),
    ("lattice_gru", "lattices.jsonl", text::NEWSWIRE),
];

/// The policies that need no learning.
pub(crate) const POLICIES: [&str; 8] = [
    "depth",
    "agenda",
    "sufficient",
    "critical",
    "critical:pair",
    "critical:soft",
    "beam:4",
    "exact:0.01",
];

/// Returns a folder with small models: weights, vocabularies and inputs.
pub(crate) fn goldens_small() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../edbatch/tests/goldens-small")
}

/// A temporary folder, removed when it is dropped.
pub(crate) struct Scratch(pub(crate) TempDir);

impl Scratch {
    pub(crate) fn new(test: &str) -> Self {
        Self(TempDir::with_prefix(format!("edbatch-{test}-")).unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), contents).unwrap();
        self.path(name)
    }

    pub(crate) fn bytes(&self, name: impl AsRef<Path>) -> Vec<u8> {
        fs::read(self.0.path().join(name)).unwrap()
    }

    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).unwrap()
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&self.bytes(name)).unwrap()
    }

    /// Returns the names of all files, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        names(self.0.path())
    }

    /// Returns the command with these arguments. `@name` stands for a path in this folder.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let words = words.iter().map(|word| match word.strip_prefix('@') {
            Some(name) => self.path(name).into_os_string(),
            None => word.into(),
        });
        let mut command = Command::new(env!("CARGO_BIN_EXE_edbatch"));
        command.args(words).current_dir(&self.0);
        command
    }

    /// Runs the command with these arguments.
    pub(crate) fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Runs a command that must succeed. Returns its standard output.
    pub(crate) fn ok(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command that must succeed. Returns its standard error.
    pub(crate) fn notice(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{words:?}: {message}");
        message
    }

    /// Runs a command that must fail with a single line on standard error. Returns the line.
    pub(crate) fn error(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {message}");
        assert_eq!(message.lines().count(), 1, "{words:?}: {message}");
        message
    }

    /// Runs a command with wrong usage. Returns its standard error.
    pub(crate) fn error_of_usage(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {message}");
        message
    }

    /// Changes the elements of all tensors in `model/weights.safetensors`, each by the name of its
    /// tensor and its index there.
    pub(crate) fn change_weights(&self, mut change: impl FnMut(&str, usize, &mut f32)) {
        let path = self.path("model/weights.safetensors");
        let mut bytes = fs::read(&path).unwrap();
        let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let tensors: Value = serde_json::from_slice(&bytes[8..header]).unwrap();
        for (name, tensor) in tensors.as_object().unwrap() {
            let offset = |index| tensor["data_offsets"][index].as_u64().map(|at| at as usize);
            let (Some(start), Some(end)) = (offset(0), offset(1)) else { continue };
            let elements = bytes[header + start..header + end].chunks_exact_mut(4).enumerate();
            for (index, element) in elements {
                let mut value = f32::from_le_bytes((*element).try_into().unwrap());
                change(name, index, &mut value);
                element.copy_from_slice(&value.to_le_bytes());
            }
        }
        fs::write(path, bytes).unwrap();
    }

    /// Creates a model folder `model` and inputs from a fixture.
    pub(crate) fn init(&self, model: &str) {
        let (_, file, text) = MODELS.into_iter().find(|(name, ..)| *name == model).unwrap();
        self.write(file, text);
        let embed = if model == "tree_gru" { "8" } else { "6" };
        let input = format!("@{file}");
        let words = ["init", model, "@model", "--hidden", "8", "--embed", embed, "--input", &input];
        if model == "lstm_nmt" {
            self.write("target.txt", text::TARGETS);
            self.ok(&[&words[..], &["@target.txt"]].concat());
        } else {
            self.ok(&words);
        }
    }
}

/// A line of results.
pub(crate) struct Line {
    pub(crate) id: usize,
    pub(crate) logits: Vec<Vec<f64>>,
    /// `tags` or `tokens`.
    pub(crate) names: Option<Vec<String>>,
}

pub(crate) fn lines(text: &str) -> Vec<Line> {
    let read = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        let names = value.get("tags").or(value.get("tokens"));
        Line {
            id: value["id"].as_u64().unwrap() as usize,
            logits: serde_json::from_value(value["logits"].clone()).unwrap(),
            names: names.map(|names| serde_json::from_value(names.clone()).unwrap()),
        }
    };
    text.lines().map(read).collect()
}

/// Returns the largest difference between two results of the same shape with the same names.
pub(crate) fn difference(a: &str, b: &str) -> f64 {
    let (a, b) = (lines(a), lines(b));
    assert_eq!(a.len(), b.len(), "number of lines");
    let mut max = 0.0_f64;
    for (a, b) in a.iter().zip(&b) {
        assert_eq!((a.id, &a.names), (b.id, &b.names));
        assert_eq!(a.logits.len(), b.logits.len(), "rows of line {}", a.id);
        for (a, b) in a.logits.iter().zip(&b.logits) {
            assert_eq!(a.len(), b.len());
            max = a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(max, f64::max);
        }
    }
    max
}

pub(crate) fn gz(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

/// Runs `init` for small sizes, and returns its line on standard error.
pub(crate) fn init(scratch: &Scratch, model: &str, dir: &str, inputs: &[&str]) -> String {
    let words = ["init", model, dir, "--hidden", "4", "--input"];
    let message = scratch.run(&[&words[..], inputs].concat()).stderr;
    let message = String::from_utf8(message).unwrap();
    assert_eq!(message.lines().count(), 1, "{message}");
    message
}
