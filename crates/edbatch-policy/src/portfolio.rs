//! Several policies on one graph; the best one's schedule counts.
//!
//! It stops at the first schedule that meets the lower bound: trees, taggers and single lattices
//! cost one run of `Critical`.
//!
//! *Cost*: a run per member; [`Portfolio::tried`] says what each gave. The
//! quick one is meant for every mini-batch, the thorough one for plans that are used again.

use edbatch_graph::Kind;

use crate::search::{PlannedRun, kinds_of};
use crate::{AnyPolicy, Beam, Chains, Critical, Frontier, Policy, Preference, Sufficient};

/// Plans the whole run by each of its members, at the start, and follows the best: never worse
/// than any member. Ties go to the first.
pub struct Portfolio {
    members: Vec<(String, AnyPolicy)>,
    tried: Vec<(usize, u64)>,
    costs: Vec<u32>,
    rehearsal: Frontier,
    plan: PlannedRun,
}

impl Portfolio {
    /// A portfolio without members, to which some must be [added](Self::with).
    #[must_use]
    pub fn empty() -> Self {
        Self {
            members: Vec::new(),
            tried: Vec::new(),
            costs: Vec::new(),
            rehearsal: Frontier::default(),
            plan: PlannedRun::default(),
        }
    }

    /// Cheap enough for every mini-batch: `Critical` with both preferences, and `Sufficient`.
    #[must_use]
    pub fn quick() -> Self {
        Self::empty()
            .with("critical", Critical::new())
            .with("critical by ratio", Critical::preferring(Preference::Ratio))
            .with("sufficient", Sufficient::new())
    }

    /// For plans that are used again: the quick one, and a beam of 64.
    #[must_use]
    pub fn thorough() -> Self {
        Self::quick().with("beam:64", Beam::new(64))
    }

    /// With another member, such as a learned [`Fsm`](crate::Fsm). It must run all ready nodes of
    /// the kind that it picks, as all policies but [`Depth`](crate::Depth) do.
    #[must_use]
    pub fn with(mut self, name: &str, member: impl Policy + Send + 'static) -> Self {
        self.members.push((name.into(), Box::new(member)));
        self
    }

    /// With other costs of a batch than 1 a kind: the cheapest schedule counts.
    #[must_use]
    pub fn with_costs(mut self, costs: Vec<u32>) -> Self {
        self.costs = costs;
        self
    }

    fn price(&self, kind: Kind) -> u64 {
        self.costs.get(kind.index()).map_or(1, |&cost| cost.into())
    }

    /// The members asked on the last graph, and what each one's schedule cost: without
    /// [costs](Self::with_costs), how many batches it had.
    pub fn tried(&self) -> impl Iterator<Item = (&str, u64)> {
        let named = |&(member, cost): &(usize, u64)| (self.members[member].0.as_str(), cost);
        self.tried.iter().map(named)
    }
}

impl Policy for Portfolio {
    fn start(&mut self, frontier: &Frontier) {
        self.rehearsal.clone_from(frontier);
        let chains = Chains::new(frontier);
        let kinds = (0..frontier.kinds()).map(Kind::new);
        let bound: u64 = kinds.map(|kind| self.price(kind) * u64::from(chains.longest(kind))).sum();
        self.tried.clear();
        let (mut least, mut best) = (u64::MAX, Vec::new());
        for index in 0..self.members.len() {
            self.rehearsal.rewind();
            let kinds = kinds_of(&mut self.rehearsal, &mut self.members[index].1);
            let cost = kinds.iter().map(|&kind| self.price(kind)).sum();
            self.tried.push((index, cost));
            if cost < least {
                (least, best) = (cost, kinds);
            }
            if least == bound {
                break;
            }
        }
        self.plan = PlannedRun::new(best);
    }

    fn next(&mut self, _: &Frontier) -> Kind {
        self.plan.next()
    }

    fn another(&self) -> AnyPolicy {
        let members = self.members.iter().map(|(name, member)| (name.clone(), member.another()));
        let (members, costs) = (members.collect(), self.costs.clone());
        Box::new(Self { members, costs, ..Self::empty() })
    }
}
