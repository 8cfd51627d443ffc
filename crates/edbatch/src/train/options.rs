//! Options of trainers.

use edbatch_graph::Network;
use edbatch_policy::AnyPolicy;
use edbatch_runtime::{Clipping, ThreadPool};

use super::dropout::Dropout;
use super::optimizer::check_clipping;
use crate::{EngineOptions, Group, Optimizer, Rate, TrainError};

/// Options of a [`Trainer`](crate::Trainer), fixed when it is built.
///
/// Gradients have the same bits under all options.
///
/// ```
/// use edbatch::{Group, Optimizer, Rate, TrainerOptions};
///
/// let options = TrainerOptions::new()
///     .optimizer(Optimizer::adam(1e-3).decay(1e-4))
///     .group("embed", Group { factor: 0.1, ..Group::default() })
///     .rate(Rate::Step { every: 10, factor: 0.5 })
///     .warm_up(100)
///     .clip_norm(5.0);
/// ```
#[derive(Default)]
pub struct TrainerOptions {
    pub(super) engine: EngineOptions,
    pub(super) given_gradients: bool,
    pub(super) groups: Vec<(String, Group)>,
    pub(super) optimizer: Optimizer,
    pub(super) rate: Rate,
    pub(super) warm_up: u64,
    pub(super) clip: Clipping,
    pub(super) seed: u64,
    without_dropout: bool,
}

impl TrainerOptions {
    /// The defaults: one thread, the default scheduler, no memory limit, all parameters trained by
    /// [Adam](Optimizer::adam) at a constant rate of 0.001.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of threads, as for [engines](EngineOptions::threads).
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.engine = self.engine.threads(threads);
        self
    }

    /// Runs on all threads of an existing pool, instead of starting threads.
    #[must_use]
    pub fn pool(mut self, pool: ThreadPool) -> Self {
        self.engine = self.engine.pool(pool);
        self
    }

    /// Sets the policy that picks batches, such as a learned one.
    #[must_use]
    pub fn policy(mut self, policy: AnyPolicy) -> Self {
        self.engine = self.engine.policy(policy);
        self
    }

    /// Limits the bytes for weights and for the values and gradients of a part of a mini-batch.
    /// [`accumulate`](crate::Trainer::accumulate) halves parts until they fit. Not available with
    /// several threads.
    #[must_use]
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.engine = self.engine.memory_limit(bytes);
        self
    }

    /// Also counts batches of each kind and lower bounds, as for [engines](EngineOptions::counts).
    /// Batches of the backward pass are not counted: they are the batches of the forward pass.
    #[must_use]
    pub fn counts(mut self) -> Self {
        self.engine = self.engine.counts();
        self
    }

    /// Also computes the gradients of given rows, which
    /// [`backward`](crate::Trainer::backward) returns.
    #[must_use]
    pub fn given_gradients(mut self) -> Self {
        self.given_gradients = true;
        self
    }

    /// Does not train the parameters whose names begin with `prefix`. Their gradients are not
    /// computed.
    #[must_use]
    pub fn frozen(self, prefix: impl Into<String>) -> Self {
        self.group(prefix, Group { frozen: true, ..Group::default() })
    }

    /// Sets the rate and the decay of the parameters whose names begin with `prefix`, or freezes
    /// them. If several prefixes match a name, the longest one applies; of equal ones the last.
    #[must_use]
    pub fn group(mut self, prefix: impl Into<String>, group: Group) -> Self {
        self.groups.push((prefix.into(), group));
        self
    }

    /// Sets the optimizer.
    #[must_use]
    pub fn optimizer(mut self, optimizer: Optimizer) -> Self {
        self.optimizer = optimizer;
        self
    }

    /// Sets how the learning rate changes from epoch to epoch.
    #[must_use]
    pub fn rate(mut self, rate: Rate) -> Self {
        self.rate = rate;
        self
    }

    /// Multiplies the learning rate of the first updates by n / `updates`, where n counts them
    /// from 1.
    #[must_use]
    pub fn warm_up(mut self, updates: u64) -> Self {
        self.warm_up = updates;
        self
    }

    /// Scales gradients whose norm, over all parameters, is larger than this, as
    /// `torch.nn.utils.clip_grad_norm_`. Replaces [`clip_value`](Self::clip_value).
    #[must_use]
    pub fn clip_norm(mut self, norm: f64) -> Self {
        self.clip = Clipping::Norm(norm);
        self
    }

    /// Limits the magnitude of each element of the gradients. Replaces
    /// [`clip_norm`](Self::clip_norm).
    #[must_use]
    pub fn clip_value(mut self, value: f64) -> Self {
        self.clip = Clipping::Value(value);
        self
    }

    /// Sets the seed of [dropout](edbatch_graph::Tensor::dropout).
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Computes [dropout](edbatch_graph::Tensor::dropout) as engines do: the vector itself.
    #[must_use]
    pub fn without_dropout(mut self) -> Self {
        self.without_dropout = true;
        self
    }

    /// Draws the masks of a network.
    pub(super) fn dropout(&self, network: &Network) -> Dropout {
        Dropout::new(network, self.seed, !self.without_dropout)
    }

    /// Returns the settings of a parameter, from the group with the longest prefix of its name.
    #[must_use]
    pub fn group_of(&self, name: &str) -> Group {
        let groups = self.groups.iter().filter(|(prefix, _)| name.starts_with(prefix.as_str()));
        let longest = groups.max_by_key(|(prefix, _)| prefix.len());
        longest.map_or(Group::default(), |&(_, group)| group)
    }

    /// Rejects incompatible options, numbers that are out of range, and groups without parameters.
    pub(super) fn check(&self, network: &Network) -> Result<(), TrainError> {
        self.engine.check()?;
        self.optimizer.check()?;
        self.rate.check()?;
        check_clipping(self.clip)?;
        for (prefix, group) in &self.groups {
            group.check()?;
            let is_of_group = |name: &String| name.starts_with(prefix.as_str());
            if !network.parameters().iter().any(|parameter| is_of_group(&parameter.name)) {
                return Err(TrainError::Group { prefix: prefix.clone() });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_of_a_name_applies_and_of_equal_ones_the_last() {
        let group = |factor| Group { factor, ..Group::default() };
        let groups = [("embed", 0.5), ("embed.weight", 0.25), ("e", 0.125)];
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]] {
            let options = order.into_iter().fold(TrainerOptions::new(), |options, index| {
                options.group(groups[index].0, group(groups[index].1))
            });
            let factors = ["embed.weight", "embed.bias", "e", "w"];
            let factors = factors.map(|name| options.group_of(name).factor);
            assert_eq!(factors, [0.25, 0.5, 0.125, 1.0], "{order:?}");
        }
        let twice = TrainerOptions::new().group("w", group(0.5)).group("w", group(0.25));
        assert_eq!(twice.group_of("w").factor, 0.25);
    }
}
