//! Schedules of the operations inside cells: the policies that schedule graphs, used once more.
//!
//! *Source*: section 3 of the paper, which searches for the batches inside a cell. *Cost*: a
//! millisecond or so, once for a cell.

use edbatch_graph::{Cell, Dag, Network, Schedule};
use edbatch_policy::{
    Agenda, Beam, Critical, Depth, Policy, Sufficient, exhaustive_within, lower_bound, schedule,
};

/// The most operations that the exhaustive search takes.
const LARGEST: usize = 128;
/// The most sets of operations that the exhaustive search may look at.
const SETS: usize = 1 << 14;
/// The width of the beam where that is not enough.
const WIDTH: usize = 16;

/// A schedule of the operations of each cell of a network, for
/// [`Program::scheduled`](edbatch_layout::Program::scheduled): the shortest that the policies find,
/// or the exhaustive search where it is feasible.
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

/// The same by a single policy.
#[must_use]
pub fn cell_schedules_by(network: &Network, policy: &mut impl Policy) -> Vec<Schedule> {
    network.cells().iter().map(|cell| schedule(&cell.dag().0, policy)).collect()
}

/// That of a single cell.
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
    // Of equal ones the first.
    let best = found.min_by_key(Schedule::len).expect("there are policies");
    if best.len() == lower_bound(&dag) {
        return best;
    }
    let small = dag.nodes() <= LARGEST;
    let searched = small.then(|| exhaustive_within(&dag, SETS)).flatten();
    let searched = searched.unwrap_or_else(|| schedule(&dag, &mut Beam::new(WIDTH)));
    if searched.len() < best.len() { searched } else { best }
}
