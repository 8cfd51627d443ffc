//! Schedules of the operations inside cells, by the same policies that schedule graphs.
//!
//! *Source*: section 3 of the paper, which searches for the batches inside a cell. *Cost*: about a
//! millisecond per cell, once.

use edbatch_graph::{Cell, Dag, Network, Schedule};
use edbatch_policy::{
    Agenda, Beam, Critical, Depth, Policy, Sufficient, exhaustive_within, lower_bound, schedule,
};

/// Maximum number of operations for the exhaustive search.
const MAX_OPERATIONS: usize = 128;
/// Maximum number of sets of operations that the exhaustive search visits.
const MAX_SETS: usize = 1 << 14;
/// Width of the beam search, which replaces the exhaustive search beyond its limits.
const BEAM_WIDTH: usize = 16;

/// Schedules the operations of each cell of a network, for
/// [`Program::scheduled`](edbatch_layout::Program::scheduled).
///
/// Each schedule is the shortest that several policies and a search find. The search is exhaustive,
/// or a beam search for large cells.
///
/// ```
/// use edbatch::cell_schedules;
/// use edbatch::layout::{CellStyle, Program, paper_cell};
///
/// let network = paper_cell("LSTMCell", 64).unwrap()?;
/// let schedules = cell_schedules(&network);
/// assert_eq!(schedules[0].len(), 9);
/// let program = Program::scheduled(network.into(), CellStyle::Paper, &schedules)?;
/// assert_eq!(program.cells()[0].moved(8).bytes, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn cell_schedules(network: &Network) -> Vec<Schedule> {
    network.cells().iter().map(cell_schedule).collect()
}

/// Like [`cell_schedules`], with the given policy only.
#[must_use]
pub fn cell_schedules_by(network: &Network, policy: &mut impl Policy) -> Vec<Schedule> {
    network.cells().iter().map(|cell| schedule(&cell.dag().0, policy)).collect()
}

/// Schedules the operations of one cell, see [`cell_schedules`].
#[must_use]
pub fn cell_schedule(cell: &Cell) -> Schedule {
    let (dag, _) = cell.dag();
    let mut policies: [Box<dyn Policy>; 4] = [
        Box::new(Critical::new()),
        Box::new(Sufficient::new()),
        Box::new(Agenda::new()),
        Box::new(Depth::new()),
    ];
    let found = policies.iter_mut().map(|policy| schedule(&dag, policy));
    // The first of the shortest ones.
    let best = found.min_by_key(Schedule::len).expect("there are policies");
    if best.len() == lower_bound(&dag) {
        return best;
    }
    let small = dag.nodes() <= MAX_OPERATIONS;
    let searched = small.then(|| exhaustive_within(&dag, MAX_SETS)).flatten();
    let searched = searched.unwrap_or_else(|| schedule(&dag, &mut Beam::new(BEAM_WIDTH)));
    if searched.len() < best.len() { searched } else { best }
}
