//! The page in a browser: complete, not too wide, and legible in both colour schemes.

use std::fs;
use std::process::Command;

use edbatch_benches::render::page::page;
use edbatch_testing::skip;

use crate::sample;

/// Browsers to try. `EDBATCH_BROWSER` names another one.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

fn browser() -> Option<String> {
    let chosen = std::env::var("EDBATCH_BROWSER").ok();
    let mut names = chosen.into_iter().chain(BROWSERS.map(String::from));
    let runs = |name: &String| Command::new(name).arg("--version").output().is_ok();
    names.find(runs)
}

/// Shows a page in frames of two widths, and writes a line of measurements for each frame.
fn harness(page: &str) -> String {
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    let frame = |width| {
        format!(
            "<iframe style=\"width:{width}px;height:900px;border:0\" srcdoc=\"{page}\"></iframe>"
        )
    };
    let frames = [400, 1280].map(frame).concat();
    format!(
        "<!doctype html><meta charset=utf-8><meta name=color-scheme content=\"light dark\">{frames}\
         <pre></pre><script>onload = () => {{\
         for (const {{contentWindow: frame}} of document.querySelectorAll('iframe')) {{\
         const page = frame.document, style = frame.getComputedStyle(page.body);\
         const svgs = [...page.querySelectorAll('svg')];\
         const marks = svg => svg.querySelectorAll('circle, rect').length;\
         const inks = new Set(svgs.flatMap(svg => [...svg.querySelectorAll('text')])\
         .map(text => frame.getComputedStyle(text).fill));\
         const wide = [...page.querySelectorAll('svg, table, p, h2, dl')].filter(one =>\
         !one.closest('.wide') && one.getBoundingClientRect().right > frame.innerWidth + 1);\
         document.querySelector('pre').textContent += 'FRA' + 'ME ' + [frame.innerWidth,\
         page.documentElement.scrollWidth, svgs.length, Math.min(...svgs.map(marks)), wide.length,\
         style.backgroundColor, style.color, ...inks].join('; ') + '\\n'\
         }} }}</script>"
    )
}

/// Returns the relative luminance of a colour such as `rgb(1, 2, 3)`.
///
/// *Source*: Web Content Accessibility Guidelines 2.2, "relative luminance".
fn luminance(colour: &str) -> f64 {
    let numbers = colour.trim_start_matches("rgb(").trim_end_matches(')').split(", ");
    let linear = |number: &str| {
        let share = number.parse::<f64>().unwrap() / 255.0;
        if share <= 0.040_45 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
    };
    numbers.map(linear).zip([0.2126, 0.7152, 0.0722]).map(|(share, weight)| share * weight).sum()
}

/// Returns the contrast, from 1 to 21; small text needs 4.5.
fn contrast(a: &str, b: &str) -> f64 {
    let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
    if a > b { a / b } else { b / a }
}

#[test]
fn the_page_is_complete_and_legible_on_narrow_and_wide_screens() {
    let Some(browser) = browser() else {
        return skip("there is no Chromium (EDBATCH_BROWSER names one)");
    };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let file = folder.join("harness.html");
    fs::write(&file, harness(&page(&sample::records()))).unwrap();
    let mut grounds = Vec::new();
    for scheme in [None, Some("--force-dark-mode")] {
        let profile = format!("--user-data-dir={}", folder.join("profile").display());
        let output = Command::new(&browser)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
            .args([
                "--enable-logging=stderr",
                "--virtual-time-budget=20000",
                "--dump-dom",
                &profile,
            ])
            .args(scheme)
            .arg(format!("file://{}", file.display()))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let complaint = said.lines().find(|line| line.contains("CONSOLE"));
        assert_eq!(complaint, None);
        let dom = String::from_utf8_lossy(&output.stdout);
        let frames: Vec<&str> =
            dom.lines().filter_map(|line| line.split("FRAME ").nth(1)).collect();
        assert_eq!(frames.len(), 2, "{said}");
        for frame in frames {
            let seen: Vec<&str> = frame.split("; ").collect();
            let number = |index: usize| seen[index].parse::<f64>().unwrap();
            assert!(number(1) <= number(0), "wider than the screen: {frame}");
            assert!(number(2) >= 40.0 && number(3) >= 1.0, "a plot without marks: {frame}");
            assert_eq!(number(4), 0.0, "something is cut off: {frame}");
            let ground = seen[5];
            assert!(contrast(seen[6], ground) > 7.0, "{frame}");
            for ink in &seen[7..] {
                assert!(contrast(ink, ground) > 2.5, "{ink} on {ground}");
            }
            grounds.push(ground.to_string());
        }
    }
    assert!(luminance(&grounds[0]) > 0.9 && luminance(&grounds[2]) < 0.1, "{grounds:?}");
}
