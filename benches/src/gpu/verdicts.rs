//! What figures decide, by the design's own rules.

use super::predictions::{FAR, LAUNCH_AND_TICKET, meeting};
use super::record::{Outcome, Part, Record, median};
use super::setting::{Clock, Kernels, MODELS, Setting, Use};

/// A question, and what the records answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The rule.
    pub rule: &'static str,
    /// The figures.
    pub found: String,
    /// What follows.
    pub decision: String,
}

/// Teams are to gain at least so much over a launch a wave.
const TEAMS_GAIN: f64 = 1.3;

/// µs of a meeting of 16 blocks, and of a launch with its ticket, at most.
const MEETING: f64 = 1.2;
const LAUNCH: f64 = 12.0;

/// What can be decided by these records; nothing by those of a rehearsal.
#[must_use]
pub fn verdicts(records: &[Record]) -> Vec<Verdict> {
    if records.iter().any(|record| record.on.rehearsal) {
        return Vec::new();
    }
    let all =
        [failures(records), teams(records), meetings(records), launches(records), far(records)];
    all.into_iter().flatten().collect()
}

/// Nothing counts before it is right.
fn failures(records: &[Record]) -> Option<Verdict> {
    let right = [Part::Verify, Part::Sanitize, Part::Stress];
    let of = |record: &&Record| right.contains(&record.part);
    let failed: Vec<&str> = records
        .iter()
        .filter(|record| of(record) && record.outcome == Outcome::Failed)
        .map(|record| record.what.as_str())
        .collect();
    let any = records.iter().any(|record| of(&record) && record.outcome == Outcome::Passed);
    let (found, decision) = match failed.first() {
        Some(first) => (
            format!("{} failed, the first of them {first}", failed.len()),
            "no other figure counts before that is mended",
        ),
        None if any => ("nothing failed".to_string(), "the other figures count"),
        None => return None,
    };
    let rule = "results have the CPU's bits, sanitizers find nothing, and no bit moves";
    Some(Verdict { rule, found, decision: decision.into() })
}

/// Whether teams earn their keep in either use: the geometric mean over the workloads measured.
fn teams(records: &[Record]) -> Option<Verdict> {
    let gain = |use_: Use| {
        let of = |model: &str, kernels| {
            median(records, &Setting::main(model, kernels, use_).what(Clock::EndToEnd))
        };
        let ratios: Vec<f64> = MODELS
            .into_iter()
            .filter_map(|model| Some(of(model, Kernels::WAVES)? / of(model, Kernels::TEAMS)?))
            .collect();
        let mean = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64;
        (!ratios.is_empty()).then(|| mean.exp())
    };
    let (one, many) = (gain(Use::One)?, gain(Use::Many)?);
    let keep = one.max(many) >= TEAMS_GAIN;
    Some(Verdict {
        rule: "teams gain less than 1.3 × over waves in both uses: delete the team kernel",
        found: format!("{one:.2} × one at a time, {many:.2} × side by side"),
        decision: if keep { "the team kernel stays" } else { "delete the team kernel" }.into(),
    })
}

fn meetings(records: &[Record]) -> Option<Verdict> {
    let micros = median(records, &meeting(1, 16))?;
    Some(Verdict {
        rule: "a meeting of 16 blocks takes more than 1.2 µs: clusters come next",
        found: format!("{micros:.2} µs"),
        decision: match micros > MEETING {
            true => "try clusters first".into(),
            false => "the counter in the device's memory stays".into(),
        },
    })
}

fn launches(records: &[Record]) -> Option<Verdict> {
    let micros = median(records, LAUNCH_AND_TICKET)?;
    Some(Verdict {
        rule: "launch and ticket take more than 12 µs: a resident kernel with mailboxes",
        found: format!("{micros:.1} µs"),
        decision: match micros > LAUNCH {
            true => "try a resident kernel".into(),
            false => "a launch a mini-batch stays".into(),
        },
    })
}

/// What is further from its estimate than the design allows for.
fn far(records: &[Record]) -> Option<Verdict> {
    let ratios = || records.iter().filter_map(|record| Some((&record.what, record.ratio?)));
    let measured = ratios().count();
    let is_far = |ratio: f64| !(1.0 / FAR..=FAR).contains(&ratio);
    let far: Vec<String> = ratios()
        .filter(|(_, ratio)| is_far(*ratio))
        .map(|(what, ratio)| format!("{what} ({ratio:.2} ×)"))
        .collect();
    (measured > 0).then(|| Verdict {
        rule: "a figure more than 40 % from its estimate is explained before the next change",
        found: format!("{} of {measured} are further off", far.len()),
        decision: match far.is_empty() {
            true => "nothing to explain".into(),
            false => format!("explain {}", far.join("; ")),
        },
    })
}
