//! The kernels of totals and updates: they have the CPU's bits.

use super::*;

const TOTALS: &str = include_str!("../../kernels/totals.cu");
/// Floats of shared memory of its blocks: 1,024 elements or sums, and 16 or 256 partial sums.
const TOTALS_FLOATS: usize = 1024 + 2 * 256;

/// The sources of a gradient.
enum Source {
    Whole(Vec<f32>),
    /// Rows of a table, of a width.
    Named(usize, Vec<(u32, Vec<f32>)>),
    /// For each row of the gradient, its sources.
    OfRows(usize, Vec<Vec<Vec<f32>>>),
}

#[test]
fn totals_and_their_norm_have_the_bits_of_the_cpu() {
    let Some((emulated, _)) = grids(TOTALS) else { return };
    let mut random = Random(5);
    let mut floats = |len: usize| {
        let mut floats = random.floats(len, false);
        floats.iter_mut().step_by(7).for_each(|x| *x = -0.0);
        floats
    };
    let of_rows = [2, 1, 3].map(|count| (0..count).map(|_| floats(5)).collect()).into();
    let many = (0..300).map(|_| vec![floats(40)]).collect();
    let totals = [
        (13, vec![Source::Whole(floats(13))]),
        (2500, [0; 3].map(|_| Source::Whole(floats(2500))).into()),
        (21, vec![]),
        (15, vec![Source::OfRows(5, of_rows)]),
        (
            40,
            vec![Source::Named(8, vec![(1, floats(8)), (3, floats(8))]), Source::Whole(floats(40))],
        ),
        (
            40,
            vec![
                Source::Whole(floats(40)),
                Source::Named(8, vec![(0, floats(8)), (4, floats(8))]),
                Source::Named(8, vec![(4, floats(8))]),
            ],
        ),
        (12_000, vec![Source::OfRows(40, many)]),
        (2_200_000, vec![Source::Whole(floats(2_200_000))]),
    ];
    for bad in [None, Some(4)] {
        let (mut of_totals, mut sources, mut chunks) = (vec![], vec![], vec![]);
        let (mut list, mut sums, mut rows) = (vec![], vec![], vec![]);
        let (mut expected, mut at): (Vec<Vec<f32>>, u32) = (vec![], 0);
        for (number, (elements, own)) in totals.iter().enumerate() {
            let first = sources.len() as u32 / 4;
            let mut all: Option<Vec<f32>> = None;
            let place = |rows: &mut Vec<f32>, row: &[f32]| {
                rows.extend(row);
                (rows.len() - row.len()) as u32
            };
            for source in own {
                let add = |to: &mut [f32], x: &[f32]| {
                    to.iter_mut().zip(x).for_each(|(to, x)| *to += x);
                };
                match source {
                    Source::Whole(x) => {
                        sources.extend([0, place(&mut sums, x), 0, 0]);
                        match &mut all {
                            Some(all) => add(all, x),
                            None => all = Some(x.clone()),
                        }
                    }
                    Source::Named(width, named) => {
                        sources.extend([1, list.len() as u32, named.len() as u32, *width as u32]);
                        let all = all.get_or_insert(vec![0.0; *elements]);
                        for (row, x) in named {
                            list.extend([*row, place(&mut rows, x)]);
                            add(&mut all[*row as usize * width..][..*width], x);
                        }
                    }
                    Source::OfRows(width, own) => {
                        sources.extend([2, list.len() as u32, own.len() as u32, *width as u32]);
                        let mut end = 0;
                        for x in own {
                            end += x.len() as u32;
                            list.push(end);
                        }
                        let mut got = vec![];
                        for x in own {
                            list.extend(x.iter().map(|x| place(&mut rows, x)));
                            let mut sum = x[0].clone();
                            x[1..].iter().for_each(|x| add(&mut sum, x));
                            got.extend(sum);
                        }
                        all = Some(got);
                    }
                }
            }
            let last = sources.len() as u32 / 4;
            let mut all = all.unwrap_or_else(|| vec![0.0; *elements]);
            if bad == Some(number) {
                let Source::Whole(_) = own[1] else { panic!("it has elements") };
                let at = sums.len() - 1;
                (sums[at], all[39]) = (f32::INFINITY, f32::INFINITY);
            }
            of_totals.extend([at, *elements as u32, first, last, number as u32, 0]);
            let first = (0..*elements as u32).step_by(1024);
            chunks.extend(first.flat_map(|first| [number as u32, first]));
            at += *elements as u32;
            expected.push(all);
        }
        let count = chunks.len() / 2;
        let words = [&of_totals, &sources, &chunks, &list].map(|words| emulated.memory(words));
        let floats = [&sums, &rows].map(|floats| emulated.floats(floats));
        let gradients = emulated.floats(&vec![f32::NAN; at as usize]);
        let squares = emulated.memory(&vec![0; 2 * count]);
        let of = |memory| emulated.at(memory);
        let mut arguments: Vec<u64> = words[..3].iter().map(of).collect();
        arguments.extend([count as u64, of(&words[3])]);
        arguments.extend(floats.iter().chain([&gradients, &squares]).map(of));
        emulated.set_stage(5, 0.0);
        emulated.run(6, count, TOTALS_FLOATS, &arguments);
        let got = emulated.read(&gradients, at as usize);
        assert_same_bits(&got, &expected.concat(), || "gradients".to_owned());
        let expected =
            Gradients { parameters: expected.into_iter().map(Gradient::Whole).collect() };
        let (stage, norm) = emulated.stage();
        assert_eq!(norm.to_bits(), expected.squared_norm().to_bits());
        match bad {
            None => assert_eq!(stage, [6, 0, FINE, FINE]),
            // The launch does not end well.
            Some(bad) => assert_eq!(stage, [5, 0, FINE, bad as u32]),
        }
    }
}

const UPDATE: &str = include_str!("../../kernels/update.cu");

#[test]
fn updates_have_the_bits_of_the_cpu() {
    let Some((emulated, _)) = grids(UPDATE) else { return };
    let mut random = Random(3);
    let rate = 0.01;
    let mut rules = vec![Rule::Descent { rate }, Rule::AdaGrad { rate, epsilon: 1e-8 }];
    for flag in [false, true] {
        rules.push(Rule::Momentum { rate, momentum: 0.9, gradient: 0.8, nesterov: flag });
        for momentum in [0.0, 0.7] {
            let (new, epsilon) = (0.1, 1e-8);
            rules.push(Rule::RmsProp { rate, new, epsilon, momentum, centered: flag });
        }
    }
    rules.push(Rule::Adam { rate, new: [0.1, 0.001], root: 3.0, epsilon: 1e-8 });
    let sizes = [5, 1024, 1500, 0, 60];
    let size: usize = sizes.iter().sum();
    // Of the last parameter, a table of rows of six elements, three rows change.
    let named = [7_u32, 0, 4];
    for (number, rule) in (0..).zip(rules) {
        for clip in [Clipping::None, Clipping::Norm(0.5), Clipping::Value(0.25)] {
            let mut values = random.floats(size, false);
            let mut moments: Vec<Vec<f32>> = (0..3)
                .map(|_| random.floats(size, false).iter().map(|x| x.abs()).collect())
                .collect();
            let gradients = random.floats(size - 60 + 18, false);
            // Every other element has two places in the packed weights, and some have none.
            let packed: Vec<u32> = (0..2 * size as u32)
                .map(|i| match i % 3 {
                    0 if i as usize >= size => u32::MAX,
                    _ => 2 * size as u32 - 1 - i,
                })
                .collect();
            let change =
                |decay, keep, [scale, clip]: [f32; 2]| Change { rule, scale, clip, decay, keep };
            let (mut changes, mut at, mut from) = (Changes::default(), 0, 0);
            for &len in &sizes {
                let (rows, elements) =
                    if len == 60 { (Some((&named[..], 6)), 18) } else { (None, len as u32) };
                let changed = Changed { at, from, elements, rows };
                changes.add(&changed, Some(&change(0.03, 0.99, [1.0, 1.0])));
                (at, from) = (at + len as u32, from + elements);
            }
            let Changes { changes, chunks, rows, .. } = changes;
            let count = chunks.len() / 2;
            let norm = f64::from(number) + 0.3;
            let words = [&changes, &chunks, &rows, &packed];
            let [changes, chunks, list, places] = words.map(|words| emulated.memory(words));
            let [gradient, value, moment, weights] =
                [&gradients, &values, &moments.concat(), &vec![f32::NAN; 2 * size]]
                    .map(|floats| emulated.floats(floats));
            let [limit_norm, limit] = match clip {
                Clipping::None => [f64::INFINITY; 2],
                Clipping::Norm(limit) => [limit, f64::INFINITY],
                Clipping::Value(limit) => [f64::INFINITY, limit],
            };
            let of = |memory| emulated.at(memory);
            let arguments = [
                of(&changes),
                of(&chunks),
                count as u64,
                of(&list),
                of(&gradient),
                of(&value),
                of(&moment),
                size as u64,
                of(&places),
                2,
                of(&weights),
                limit_norm.to_bits(),
                limit.to_bits(),
            ];
            let told = || emulated.device.host(&emulated.result)[..4].to_vec();
            // The launch before did not end well: nothing changes, and the host is told.
            emulated.set_stage(4, norm);
            emulated.run(6, count, 0, &arguments);
            assert_eq!(told(), [6, 4, FINE, FINE]);
            assert_same_bits(&emulated.read(&value, size), &values, || "values".to_owned());
            // If a block of a launch never ends, the next launch does not run.
            emulated.set_stage(4, norm);
            emulated.device.set_absent(Some(0));
            emulated.run(5, count, 0, &[&arguments[..2], &[0], &arguments[3..]].concat());
            emulated.device.set_absent(None);
            emulated.run(6, count, 0, &arguments);
            assert_eq!(told(), [6, 4, FINE, FINE]);
            assert_same_bits(&emulated.read(&value, size), &values, || "values".to_owned());
            emulated.set_stage(5, norm);
            emulated.run(6, count, 0, &arguments);
            assert_eq!((told(), emulated.stage().0[0]), (vec![6, 6, FINE, FINE], 6));
            let limits = clip.scale_and_limit(|| norm);
            let level = Level::detect();
            let (mut at, mut from) = (0, 0);
            for &len in &sizes {
                let rows =
                    if len == 60 { named.map(|row| row as usize * 6).to_vec() } else { vec![0] };
                let width = if len == 60 { 6 } else { len };
                for row in rows {
                    let own = at + row..at + row + width;
                    let [a, b, c] = &mut moments[..] else { panic!("three moments") };
                    let moments = [a, b, c].map(|moment| &mut moment[own.clone()]);
                    let (change, gradient) =
                        (change(0.03, 0.99, limits), &gradients[from..][..width]);
                    update(level, &change, &mut values[own], gradient, moments);
                    from += width;
                }
                at += len;
            }
            let what = || format!("{rule:?}, {clip:?}");
            assert_same_bits(&emulated.read(&value, size), &values, what);
            assert_same_bits(&emulated.read(&moment, 3 * size), &moments.concat(), what);
            let got = emulated.read(&weights, 2 * size);
            for (i, &to) in packed.iter().enumerate().filter(|(_, to)| **to != u32::MAX) {
                let element = i % size;
                let table = size - 60;
                let changed = element < table || named.contains(&((element - table) as u32 / 6));
                let expected = if changed { values[element] } else { f32::NAN };
                assert_same_bits(&[got[to as usize]], &[expected], what);
            }
        }
    }
}
