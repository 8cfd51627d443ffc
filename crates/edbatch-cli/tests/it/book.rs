//! The book in `docs`: every page is in its summary, every link has a target, Rust code is tested,
//! and commands print the quoted output.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns all Markdown files under a folder.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let (mut folders, mut pages) = (vec![folder.to_path_buf()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// Returns the blocks between fences: the word after the opening fence, and the lines.
fn blocks(text: &str) -> Vec<(&str, String)> {
    let mut blocks: Vec<(&str, String)> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(word) if !open => blocks.push((word, String::new())),
            Some(_) => {}
            None => {
                if let (true, Some((_, block))) = (open, blocks.last_mut()) {
                    block.push_str(line);
                    block.push('\n');
                }
                continue;
            }
        }
        open = !open;
    }
    blocks
}

/// Returns the targets of relative links, without the anchors of sections.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let relative = targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
    relative.map(|target| target.split('#').next().expect("split gives a part")).collect()
}

#[test]
fn every_page_is_in_the_summary() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: BTreeSet<PathBuf> = links(&summary).iter().map(|link| docs.join(link)).collect();
    let mut written: BTreeSet<PathBuf> = pages(&docs).into_iter().collect();
    written.remove(&docs.join("SUMMARY.md"));
    assert!(written.len() > 10, "the scan found only {}", written.len());
    assert_eq!(listed, written);
}

#[test]
fn every_link_leads_somewhere() {
    let docs = root().join("docs");
    let mut documents = pages(&docs);
    for folder in fs::read_dir(root().join("crates")).unwrap() {
        documents.push(folder.unwrap().path().join("README.md"));
    }
    let others = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];
    documents.extend(others.map(|name| root().join(name)));
    documents.push(root().join("datasets/README.md"));
    let mut seen = 0;
    for document in documents.iter().filter(|document| document.exists()) {
        let text = fs::read_to_string(document).unwrap();
        for link in links(&text) {
            let target = document.parent().expect("a file lies in a folder").join(link);
            let shown = document.display();
            assert!(target.exists(), "{shown}: {link} does not exist");
            // The book is also read without the rest of the repository.
            let (book, inside) = (document.starts_with(&docs), lies_in(&target, &docs));
            assert!(!book || inside, "{shown}: {link} leads out of the book");
            seen += 1;
        }
    }
    assert!(seen > 30, "the scan found only {seen} links");
}

fn lies_in(path: &Path, folder: &Path) -> bool {
    path.canonicalize().unwrap().starts_with(folder.canonicalize().unwrap())
}

#[test]
fn the_front_page_is_short() {
    let lines = fs::read_to_string(root().join("README.md")).unwrap().lines().count();
    assert!(lines <= 180, "README.md has {lines} lines");
}

#[test]
fn every_page_with_rust_is_tested() {
    let compiled = include_str!("../../../edbatch/src/book.rs");
    let quoted = include_str!("../../../edbatch/tests/it/showcases.rs");
    let docs = root().join("docs");
    for page in pages(&docs) {
        let text = fs::read_to_string(&page).unwrap();
        let rust = blocks(&text).iter().any(|(word, _)| word.starts_with("rust"));
        let name = page.strip_prefix(&docs).expect("a page of the book").to_string_lossy();
        let tested = compiled.contains(&format!("\"{name}\""))
            || quoted.contains(&format!("assert_quotes(\"docs/{name}\""));
        assert_eq!(rust, tested, "{name} in src/book.rs, or its program in showcases.rs");
    }
}

/// Each `sh` block must succeed, and print the `text` block that follows it.
#[cfg(unix)]
#[test]
fn commands_print_what_the_book_says() {
    let (mut compared, mut pages) = (0, pages(&root().join("docs")));
    pages.push(root().join("README.md"));
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        let blocks = blocks(&text);
        if !blocks.iter().any(|&(word, _)| word == "sh") {
            continue;
        }
        let name = page.file_stem().expect("a file has a name").to_string_lossy();
        let folder = unix::Folder::new(&name);
        // The front page shows a result within twenty seconds of a built command.
        let limit = if name == "README" { "20" } else { "600" };
        for (index, (_, commands)) in
            blocks.iter().enumerate().filter(|(_, (word, _))| *word == "sh")
        {
            let printed = folder.run(commands, limit);
            if let Some(("text", expected)) = blocks.get(index + 1).map(|(w, text)| (*w, text)) {
                assert!(unix::fits(expected, &printed), "{name}: {commands}printed\n{printed}");
                compared += 1;
            }
        }
    }
    assert!(compared > 3, "only {compared} commands were compared");
}

#[cfg(unix)]
mod unix {
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::{env, fs, process};

    /// A folder for a page's commands, with the repository's `datasets` in it.
    pub(crate) struct Folder(PathBuf);

    impl Folder {
        pub(crate) fn new(page: &str) -> Self {
            let folder = env::temp_dir().join(format!("edbatch-book-{page}-{}", process::id()));
            fs::create_dir_all(&folder).unwrap();
            let datasets = super::root().join("datasets").canonicalize().unwrap();
            std::os::unix::fs::symlink(datasets, folder.join("datasets")).unwrap();
            Self(folder)
        }

        /// Runs commands for at most some seconds, and returns their output.
        pub(crate) fn run(&self, commands: &str, limit: &str) -> String {
            let binary = Path::new(env!("CARGO_BIN_EXE_edbatch")).parent().unwrap();
            let path = format!("{}:{}", binary.display(), env::var("PATH").unwrap_or_default());
            let mut shell = Command::new("timeout");
            shell.args([limit, "sh", "-e", "-c", commands]).env("PATH", path).current_dir(&self.0);
            let output = shell.output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{commands}failed: {errors}");
            String::from_utf8(output.stdout).unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// Returns true if each printed line is the expected one, in which `…` matches anything.
    pub(crate) fn fits(expected: &str, printed: &str) -> bool {
        expected.lines().count() == printed.lines().count()
            && expected.lines().zip(printed.lines()).all(|(expected, printed)| {
                match expected.split_once('…') {
                    None => expected.trim_end() == printed.trim_end(),
                    Some((before, after)) => {
                        printed.len() >= before.len() + after.len()
                            && printed.starts_with(before)
                            && printed.ends_with(after)
                    }
                }
            })
    }
}
