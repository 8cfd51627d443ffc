//! Numbers formatted for people.

/// Formats a rounded number with thousands separators: `14,200`.
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

/// Formats a share as a percentage, with one decimal below ten: `82 %`, `3.1 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent.abs() < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// Formats a duration in a suitable unit: `310 ns`, `4.2 µs`, `73 ms`.
pub fn duration(nanoseconds: f64) -> String {
    let (number, unit) = match nanoseconds {
        ..1e3 => (nanoseconds, "ns"),
        ..1e6 => (nanoseconds / 1e3, "µs"),
        ..1e9 => (nanoseconds / 1e6, "ms"),
        _ => (nanoseconds / 1e9, "s"),
    };
    if number < 9.95 { format!("{number:.1} {unit}") } else { format!("{number:.0} {unit}") }
}

/// Formats the minimum and maximum: `1.2 × to 3.4 ×`, or one figure if both look the same.
pub fn range(figures: &[f64], format: impl Fn(f64) -> String) -> String {
    let min = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let max = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (min, max) = (format(min), format(max));
    if min == max { min } else { format!("{min} to {max}") }
}

/// Wraps a text into lines of at most `width` characters.
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

/// Returns the short name of a set: `trees` for `generated/trees`, `sst` for `sst/test`.
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
    fn numbers_are_formatted_for_people() {
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
