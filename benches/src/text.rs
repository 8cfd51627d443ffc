//! Numbers as people read them.

/// A whole number, its thousands apart: `14,200`.
#[must_use]
pub fn whole(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        let after = digits.len() - index;
        if index > 0 && after.is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share in per cent, with a decimal below ten: `82 %`, `3.1 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent.abs() < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// A duration in the unit that suits it: `310 ns`, `4.2 µs`, `73 ms`.
#[must_use]
pub fn duration(nanoseconds: f64) -> String {
    let (number, unit) = match nanoseconds {
        ..1e3 => (nanoseconds, "ns"),
        ..1e6 => (nanoseconds / 1e3, "µs"),
        ..1e9 => (nanoseconds / 1e6, "ms"),
        _ => (nanoseconds / 1e9, "s"),
    };
    if number < 9.95 { format!("{number:.1} {unit}") } else { format!("{number:.0} {unit}") }
}

/// The least and the greatest of some figures: `1.2 × to 3.4 ×`, or the one that they all are.
#[must_use]
pub fn range(figures: &[f64], format: impl Fn(f64) -> String) -> String {
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (least, greatest) = (format(least), format(greatest));
    if least == greatest { least } else { format!("{least} to {greatest}") }
}

/// Lines of at most some characters.
#[must_use]
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.into());
        }
    }
    lines
}

/// The short name of a set: without its folder, or, where several are tested, as the folder:
/// `wikigold`, `trees` of `generated/trees`, `newswire` of `newswire/test`.
#[must_use]
pub fn set(input: &str) -> &str {
    match input.rsplit_once('/') {
        Some((folder, "test")) => folder,
        Some((_, name)) => name,
        None => input,
    }
}

#[cfg(test)]
mod tests {
    use super::{duration, percent, range, set, whole, wrapped};

    #[test]
    fn numbers_are_readable() {
        assert_eq!([0.4, 999.0, 1e3, 1_234_567.0].map(whole), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0.0314, 0.0996, 0.8251].map(percent), ["3.1 %", "10 %", "83 %"]);
        assert_eq!(
            [310.0, 4_200.0, 73e6, 2e9].map(duration),
            ["310 ns", "4.2 µs", "73 ms", "2.0 s"]
        );
        assert_eq!(range(&[2.0, 1.0, 3.0], whole), "1 to 3");
        assert_eq!(range(&[2.0, 2.1], whole), "2");
        assert_eq!(
            ["wikigold", "generated/trees", "sst/test"].map(set),
            ["wikigold", "trees", "sst"]
        );
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
    }
}
