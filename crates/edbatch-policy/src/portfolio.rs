//! Several policies on one graph; the best one's schedule counts.
//!
//! It stops at the first schedule that meets the lower bound: trees, taggers and single lattices
//! cost one run of `Critical`.
//!
//! *Cost*: a run per member; [`Portfolio::tried`] says what each gave and took. The quick one is
//! meant for mini-batches that are run more than once, the thorough one for plans that are kept.

use std::time::{Duration, Instant};

use edbatch_graph::Kind;

use crate::search::{PlannedRun, kinds_of};
use crate::{AnyPolicy, Backwards, Beam, Chains, Critical, Frontier, LookAhead, PairRule, Policy};

/// Plans the whole run by each of its members, at the start, and follows the best: never worse
/// than any member. Ties go to the first.
pub struct Portfolio {
    members: Vec<(String, AnyPolicy)>,
    /// How much time there is, if it is limited.
    within: Option<Duration>,
    tried: Vec<Tried>,
    costs: Vec<u32>,
    rehearsal: Frontier,
    plan: PlannedRun,
    proved: bool,
}

#[derive(Clone, Copy)]
struct Tried {
    member: usize,
    cost: u64,
    time: Duration,
}

impl Portfolio {
    /// A portfolio without members, to which some must be [added](Self::with).
    #[must_use]
    pub fn empty() -> Self {
        Self {
            members: Vec::new(),
            within: None,
            tried: Vec::new(),
            costs: Vec::new(),
            rehearsal: Frontier::default(),
            plan: PlannedRun::default(),
            proved: false,
        }
    }

    /// Without search: `critical`, `critical:pair` and `critical:soft`, and each of them
    /// [`Backwards`].
    #[must_use]
    pub fn quick() -> Self {
        let [pair, soft] = [PairRule::pair(), PairRule::soft()].map(LookAhead::new);
        Self::empty()
            .with("critical", Critical::new())
            .with("critical:soft", soft.clone())
            .with("critical:soft, backwards", Backwards::new(soft))
            .with("critical:pair", pair.clone())
            .with("critical:pair, backwards", Backwards::new(pair))
            .with("critical, backwards", Backwards::new(Critical::new()))
    }

    /// For plans that are used again: the quick one, and a beam of 64.
    #[must_use]
    pub fn thorough() -> Self {
        Self::quick().with("beam:64", Beam::new(64))
    }

    /// The quick one, and a beam search for as long as there is time. The first member is always
    /// asked.
    #[must_use]
    pub fn within(time: Duration) -> Self {
        Self { within: Some(time), ..Self::quick() }
    }

    /// With another member, such as a learned [`Fsm`](crate::Fsm) or [`LookAhead`]. It must run all
    /// ready nodes of the kind that it picks, as all policies but [`Depth`](crate::Depth) do.
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

    /// The members asked on the last graph, what each one's schedule cost, and how long it took:
    /// without [costs](Self::with_costs), a schedule costs as much as it has batches.
    pub fn tried(&self) -> impl Iterator<Item = (&str, u64, Duration)> {
        self.tried.iter().map(|&Tried { member, cost, time }| {
            let name = self.members.get(member).map_or("beam", |(name, _)| name);
            (name, cost, time)
        })
    }

    /// Asks a member, and follows it if it is better than all before.
    fn rehearse(&mut self, member: usize, policy: &mut AnyPolicy) {
        let started = Instant::now();
        self.rehearsal.rewind();
        let kinds = kinds_of(&mut self.rehearsal, policy);
        let cost = kinds.iter().map(|&kind| self.price(kind)).sum();
        let is_best = self.tried.iter().all(|tried| cost < tried.cost);
        self.tried.push(Tried { member, cost, time: started.elapsed() });
        self.proved |= policy.proved();
        if is_best {
            self.plan = PlannedRun::new(kinds);
        }
    }

    /// Asks the members in turn, as long as there is time and something to gain.
    fn rehearse_all(&mut self, bound: u64) {
        let started = Instant::now();
        let mut members = std::mem::take(&mut self.members);
        for (index, (_, member)) in members.iter_mut().enumerate() {
            let is_over = self.within.is_some_and(|time| started.elapsed() >= time);
            if self.proved || (is_over && index > 0) {
                break;
            }
            self.rehearse(index, member);
            self.proved |= self.tried.last().is_some_and(|tried| tried.cost == bound);
        }
        let rest = self.within.and_then(|time| time.checked_sub(started.elapsed()));
        if let (Some(rest), false) = (rest, self.proved) {
            let mut beam = Beam::exact().within(rest);
            if !self.costs.is_empty() {
                beam = beam.with_costs(self.costs.clone());
            }
            self.rehearse(members.len(), &mut (Box::new(beam) as AnyPolicy));
        }
        self.members = members;
    }
}

impl Policy for Portfolio {
    fn start(&mut self, frontier: &Frontier) {
        self.rehearsal.clone_from(frontier);
        let chains = Chains::new(frontier);
        let kinds = (0..frontier.kinds()).map(Kind::new);
        let bound = kinds.map(|kind| self.price(kind) * u64::from(chains.longest(kind))).sum();
        self.tried.clear();
        self.proved = false;
        self.rehearse_all(bound);
    }

    fn next(&mut self, _: &Frontier) -> Kind {
        self.plan.next()
    }

    fn proved(&self) -> bool {
        self.proved
    }

    fn another(&self) -> AnyPolicy {
        let members = self.members.iter().map(|(name, member)| (name.clone(), member.another()));
        let (members, costs) = (members.collect(), self.costs.clone());
        Box::new(Self { members, within: self.within, costs, ..Self::empty() })
    }
}
