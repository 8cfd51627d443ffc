//! Finds the items below `#[cfg(test)]` in a source file.
//!
//! An unbalanced bracket or an open string is an error, so that no line escapes the count
//! unnoticed.

const TEST: &str = "#[cfg(test)]";

/// The items below `#[cfg(test)]` in a file.
#[derive(Debug, PartialEq)]
pub(super) struct TestItems {
    /// Number of lines, from the attribute to the end of its item.
    pub(super) lines: usize,
    /// Modules that are files of their own.
    pub(super) modules: Vec<String>,
}

pub(super) fn test_items(source: &str) -> Result<TestItems, String> {
    let code = code(source)?;
    check_brackets(&code)?;
    let mut items = TestItems { lines: 0, modules: Vec::new() };
    let mut start = 0;
    while let Some(found) = code[start..].find(TEST) {
        let attribute = start + found;
        let item = skip_attributes(&code, attribute);
        if code[attribute..item].contains("#[path") {
            return Err("a test module with a path is not supported".into());
        }
        let end = item + item_length(&code[item..]);
        let words: Vec<&str> = code[item..end].split_whitespace().collect();
        if let [.., "mod", name] = words[..]
            && let Some(name) = name.strip_suffix(';')
        {
            items.modules.push(name.into());
        }
        items.lines += code[attribute..end].lines().count();
        start = end;
    }
    Ok(items)
}

/// Skips white space and attributes.
fn skip_attributes(code: &str, mut start: usize) -> usize {
    loop {
        let rest = &code[start..];
        start += rest.len() - rest.trim_start().len();
        if !code[start..].starts_with("#[") {
            return start;
        }
        start += 1 + closing(&code[start + 1..]);
    }
}

/// Returns the length of the item, field or statement at the start of `code`.
///
/// Errs on the short side, so that unclear lines are counted.
fn item_length(code: &str) -> usize {
    const WITH_COMMAS: [&str; 13] = [
        "fn", "mod", "struct", "enum", "impl", "const", "static", "trait", "type", "unsafe",
        "async", "extern", "union",
    ];
    let item = code.strip_prefix("pub").unwrap_or(code).trim_start();
    let item = if item.starts_with('(') { item[closing(item)..].trim_start() } else { item };
    let first = item.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let mut at = 0;
    while let Some(c) = code[at..].chars().next() {
        match c {
            ';' => return at + 1,
            ',' if !WITH_COMMAS.contains(&first) => return at + 1,
            '{' => return at + closing(&code[at..]),
            '(' | '[' => at += closing(&code[at..]),
            ')' | ']' | '}' => return at,
            _ => at += c.len_utf8(),
        }
    }
    at
}

/// Returns the place after the bracket that closes the one at the start.
fn closing(code: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    unreachable!("brackets were checked")
}

/// Fails if a bracket of any kind has no partner.
fn check_brackets(code: &str) -> Result<(), String> {
    let mut open = Vec::new();
    for (line, text) in (1..).zip(code.lines()) {
        for c in text.chars() {
            let expected = match c {
                '(' => {
                    open.push((')', line));
                    continue;
                }
                '[' => {
                    open.push((']', line));
                    continue;
                }
                '{' => {
                    open.push(('}', line));
                    continue;
                }
                ')' | ']' | '}' => open.pop(),
                _ => continue,
            };
            if expected.map(|(closing, _)| closing) != Some(c) {
                return Err(format!("line {line}: `{c}` closes nothing"));
            }
        }
    }
    match open.pop() {
        None => Ok(()),
        Some((closing, line)) => Err(format!("line {line}: no `{closing}` for the bracket here")),
    }
}

/// Replaces comments, strings and characters by blanks, and keeps line breaks.
fn code(source: &str) -> Result<String, String> {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            Some(rest.find('\n').unwrap_or(rest.len()))
        } else if rest.starts_with("/*") {
            comment_length(rest)
        } else if let Some(hashes) = raw_string(rest, &code) {
            let end = format!("\"{}", "#".repeat(hashes));
            let open = rest.find('"').expect("a raw string has a quote") + 1;
            rest[open..].find(&end).map(|at| open + at + end.len())
        } else if c == '"' {
            string_length(rest)
        } else if c == '\'' {
            Some(character_length(rest))
        } else {
            code.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        let length = length.ok_or_else(|| {
            let line = 1 + code.matches('\n').count();
            format!("line {line}: a comment or string has no end")
        })?;
        code.extend(rest[..length].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = &rest[length..];
    }
    Ok(code)
}

/// Returns the number of `#` if a raw string starts here.
fn raw_string(rest: &str, before: &str) -> Option<usize> {
    let after_r = ["r", "br", "cr"].iter().find_map(|prefix| rest.strip_prefix(prefix))?;
    let quote = after_r.trim_start_matches('#');
    let within_word = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    (quote.starts_with('"') && !within_word).then(|| after_r.len() - quote.len())
}

fn string_length(rest: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if c == '"' && !escaped {
            return Some(at + 1);
        }
        escaped = c == '\\' && !escaped;
    }
    None
}

/// Returns the length of a character literal, or 1 for the quote of a lifetime.
fn character_length(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((escaped, c))) => {
            let after = escaped + c.len_utf8();
            rest[after..].find('\'').map_or(1, |quote| after + quote + 1)
        }
        (_, Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

/// Returns the length of a block comment. Such comments nest.
fn comment_length(rest: &str) -> Option<usize> {
    let (mut depth, mut at) = (0, 0);
    loop {
        let next = rest[at..].find(['/', '*'])? + at;
        at = next + 2;
        match rest.get(next..at)? {
            "/*" => depth += 1,
            "*/" => depth -= 1,
            _ => at = next + 1,
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::test_items;

    /// The number of lines below `#[cfg(test)]`.
    fn lines(source: &str) -> usize {
        test_items(source).unwrap().lines
    }

    #[test]
    fn items_below_the_attribute_are_tests() {
        assert_eq!(lines("fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n"), 4);
        assert_eq!(
            lines("#[cfg(test)]\n#[allow(dead_code)]\npub(crate) fn a<A, B>(\n) {\n}\nx\n"),
            5
        );
        assert_eq!(lines("#[cfg(test)]\nuse a::{b, c};\nuse d;\n"), 2);
        assert_eq!(lines("#[cfg(test)]\nconst A: [u8; 2] = [\n1, 2];\nuse d;\n"), 3);
        assert_eq!(lines("fn a() {}\n"), 0);
    }

    #[test]
    fn fields_and_statements_below_the_attribute_are_tests() {
        assert_eq!(lines("struct A {\n    #[cfg(test)]\n    a: u8,\n    b: u8,\n}\n"), 2);
        assert_eq!(lines("f(A {\n    b,\n    #[cfg(test)]\n    a: g(1, 2)\n});\n"), 2);
        assert_eq!(lines("fn f() {\n    #[cfg(test)]\n    g.add();\n    h();\n}\n"), 2);
    }

    #[test]
    fn brackets_and_attributes_in_comments_and_strings_do_not_count() {
        assert_eq!(lines("/* #[cfg(test)] /* } */ */\n// #[cfg(test)] {\nfn a() {}\n"), 0);
        assert_eq!(lines("const A: &str = \"\\\"#[cfg(test)] {\";\nfn a() {}\n"), 0);
        assert_eq!(lines("const A: &str = r##\"}\"#[cfg(test)]\"##;\nfn a() {}\n"), 0);
        let test = "#[cfg(test)]\nfn a<'a>() {\n    '}'; '\\''; '\\u{7d}'; '\"'; r\"\\\";\n}\n";
        assert_eq!(lines(&format!("{test}fn b() {{}}\n")), 4);
    }

    #[test]
    fn unbalanced_sources_are_errors() {
        let missing = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {\n}\nfn c() {}\n";
        assert_eq!(test_items(missing).unwrap_err(), "line 3: no `}` for the bracket here");
        let extra = "#[cfg(test)]\nmod tests {\n}\n}\nfn c() {}\n";
        assert_eq!(test_items(extra).unwrap_err(), "line 4: `}` closes nothing");
        assert_eq!(test_items("fn a(]\n").unwrap_err(), "line 1: `]` closes nothing");
        assert_eq!(
            test_items("x\n\"never closed").unwrap_err(),
            "line 2: a comment or string has no end"
        );
        assert!(test_items("/* /* */").is_err());
        assert!(test_items("r#\"\"").is_err());
    }
}
