//! The gradients of parameters, as totals of sums in the order of the CPU.

use edbatch_runtime::{BackendError, NamedRows};

use super::list::Added;
use super::table::{GradientPlace, SumTable};
use crate::CudaError;

/// The totals that a launch of `kernels/totals.cu` computes.
#[derive(Debug, Default)]
pub(crate) struct TotalList {
    /// The gradients, six words each, and their sources, four words each.
    pub(crate) totals: Vec<u32>,
    pub(crate) sources: Vec<u32>,
    /// Pairs of a gradient and the first element of a block.
    pub(crate) chunks: Vec<u32>,
    pub(crate) list: Vec<u32>,
    /// By parameter: its gradient, if it has one.
    pub(crate) completed: Vec<Option<Completed>>,
    /// The floats of all sums and gradients.
    pub(crate) floats: u32,
}

/// A complete gradient: its place, its elements, and the rows that it has with their width, unless
/// it has all.
#[derive(Debug)]
pub(crate) struct Completed {
    pub(crate) place: u32,
    pub(crate) elements: u32,
    pub(crate) rows: Option<(Vec<u32>, u32)>,
}

/// The elements of a block of the kernel.
const CHUNK: u32 = 1024;

/// The kinds of sources: all elements, rows that are added, and rows of a gradient that has only
/// these.
const WHOLE: u32 = 0;
const NAMED: u32 = 1;
const OF_ROWS: u32 = 2;

/// A source of a gradient.
enum Source<'a> {
    /// The place of a sum of all elements.
    Whole(u32),
    /// Rows of a table, and the places of their gradients.
    Rows(&'a [u32], Vec<u32>),
}

impl TotalList {
    /// Lists the totals of what has been added. The rows of the adjoints of tables' rows begin at
    /// `starts`; gradients of rows get places from `floats` on.
    ///
    /// # Errors
    /// If memory cannot be allocated, or 32 bits cannot hold the places of all gradients.
    pub(crate) fn list(
        &mut self,
        table: &SumTable,
        added: &Added,
        starts: &[u32],
        floats: u32,
    ) -> Result<(), BackendError> {
        let Self { totals, sources, chunks, list, completed, floats: end } = self;
        [&mut *totals, sources, chunks, list].into_iter().for_each(Vec::clear);
        completed.clear();
        *end = floats;
        for (parameter, own) in (0..).zip(contributions(table, added, starts)) {
            let first = (sources.len() / 4) as u32;
            let (place, elements, rows) = match table.gradients[parameter as usize] {
                GradientPlace::None => {
                    completed.push(None);
                    continue;
                }
                GradientPlace::Whole { place, elements, width } => {
                    for source in own {
                        match source {
                            Source::Whole(from) => sources.extend([WHOLE, from, 0, 0]),
                            Source::Rows(rows, places) => {
                                let (count, at) = (rows.len() as u32, list.len() as u32);
                                sources.extend([NAMED, at, count, width]);
                                let mut pairs: Vec<_> = rows.iter().copied().zip(places).collect();
                                pairs.sort_unstable();
                                list.extend(pairs.iter().flat_map(|&(row, place)| [row, place]));
                            }
                        }
                    }
                    (place, elements, None)
                }
                GradientPlace::Rows(width) => {
                    let (rows, at) = list_rows(&own, list)?;
                    let elements = rows.len() as u64 * u64::from(width);
                    let place = *end;
                    let after = u64::from(place) + elements.next_multiple_of(16);
                    *end = u32::try_from(after).map_err(|_| CudaError::TooLarge {
                        what: "the gradients of tables' rows",
                        elements: after,
                    })?;
                    if !rows.is_empty() {
                        sources.extend([OF_ROWS, at, rows.len() as u32, width]);
                    }
                    (place, elements as u32, Some((rows, width)))
                }
            };
            let (number, last) = ((totals.len() / 6) as u32, (sources.len() / 4) as u32);
            totals.extend([place, elements, first, last, parameter, 0]);
            chunks.extend((0..elements).step_by(CHUNK as usize).flat_map(|first| [number, first]));
            completed.push(Some(Completed { place, elements, rows }));
        }
        Ok(())
    }
}

/// Returns the sources of each parameter's gradient, in the order in which the CPU adds them.
fn contributions<'a>(table: &SumTable, added: &'a Added, starts: &[u32]) -> Vec<Vec<Source<'a>>> {
    let mut all: Vec<Vec<Source<'_>>> = table.gradients.iter().map(|_| Vec::new()).collect();
    for cell in table.cells.iter().flatten() {
        let sums = cell.sums.clone().filter(|&sum| added.sums[sum]);
        for sum in sums.map(|sum| &table.sums[sum]) {
            all[sum.parameter.0 as usize].push(Source::Whole(sum.to));
        }
        for &number in cell.tables.iter().flatten() {
            let (of, named) = (&table.tables[number], &added.tables[number]);
            let rows = named.rows.rows();
            if rows.is_empty() {
                continue;
            }
            let places = match &of.adjoint {
                None => Some(named.places.clone()),
                Some(cell) => cell.row.map(|offset| {
                    let place = |call| starts[number] + call * cell.stride + offset;
                    (0..rows.len() as u32).map(place).collect()
                }),
            };
            if let (Some(parameter), Some(places)) = (of.parameter, places) {
                all[parameter.0 as usize].push(Source::Rows(rows, places));
            }
            for sum in of.adjoint.iter().flat_map(|cell| &table.sums[cell.sums.clone()]) {
                all[sum.parameter.0 as usize].push(Source::Whole(sum.to));
            }
        }
    }
    for (sum, _) in table.initial.iter().zip(&added.initial).filter(|(_, added)| **added) {
        all[sum.parameter.0 as usize].push(Source::Whole(sum.to));
    }
    all
}

/// Lists the distinct rows of sources: the end of the places of each row, then the places. Returns
/// the rows and the place of the list.
fn list_rows(sources: &[Source<'_>], list: &mut Vec<u32>) -> Result<(Vec<u32>, u32), BackendError> {
    let (mut named, mut places) = (NamedRows::default(), Vec::<Vec<u32>>::new());
    for source in sources {
        let Source::Rows(rows, own) = source else { unreachable!("it has gradients of rows only") };
        for (&row, &place) in rows.iter().zip(own) {
            let index = named.add(row)?;
            places.resize_with(places.len().max(index + 1), Vec::new);
            places[index].push(place);
        }
    }
    let (at, mut end) = (list.len() as u32, 0);
    for places in &places {
        end += places.len() as u32;
        list.push(end);
    }
    list.extend(places.into_iter().flatten());
    Ok((named.into_rows(), at))
}
