//! Optimizers and learning rates as text, for command lines.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use edbatch_runtime::UpdateRule;

use crate::{Optimizer, Rate};

/// Parses `sgd`, `adagrad`, `rmsprop`, `adam` or `adam_w`, with options by the names of PyTorch:
/// `sgd:momentum=0.9,nesterov=true`. The learning rate and the decay are PyTorch's defaults.
impl FromStr for Optimizer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, options) = text.split_once(':').unwrap_or((text, ""));
        let mut optimizer = match name {
            "sgd" => Self::sgd(1e-3),
            "adagrad" => Self::ada_grad(1e-2),
            "rmsprop" => Self::rms_prop(1e-2),
            "adam" => Self::adam(1e-3),
            "adam_w" => Self::adam_w(1e-3),
            _ => return Err("expected sgd, adagrad, rmsprop, adam or adam_w".into()),
        };
        let mut given = HashSet::new();
        for option in options.split(',').filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            if !given.insert(key) {
                return Err(format!("{key} is given twice"));
            }
            let (numbers, switches) = options_of(&mut optimizer.rule);
            let known = numbers.iter().map(|(name, _)| *name);
            let known: Vec<&str> = known.chain(switches.iter().map(|(name, _)| *name)).collect();
            let known = known.join(", ");
            if let Some((_, number)) = numbers.into_iter().find(|(name, _)| *name == key) {
                let expected = || format!("{key}: expected a number, got `{value}`");
                *number = value.parse().map_err(|_| expected())?;
            } else if let Some((_, switch)) = switches.into_iter().find(|(name, _)| *name == key) {
                let expected = || format!("{key}: expected true or false, got `{value}`");
                *switch = value.to_lowercase().parse().map_err(|_| expected())?;
            } else {
                let instead = match key {
                    "lr" => ": use --rate, or the field `rate`",
                    "weight_decay" => ": use --decay, or the field `decay`",
                    "betas" => ": use beta1 and beta2",
                    _ => "",
                };
                return Err(format!("{name} has the options {known}, got `{key}`{instead}"));
            }
        }
        Ok(optimizer)
    }
}

/// Writes the name and the options that differ from PyTorch's defaults, without rate and decay.
impl fmt::Display for Optimizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.rule {
            UpdateRule::Sgd { .. } => "sgd",
            UpdateRule::AdaGrad { .. } => "adagrad",
            UpdateRule::RmsProp { .. } => "rmsprop",
            UpdateRule::Adam { decoupled: false, .. } => "adam",
            UpdateRule::Adam { decoupled: true, .. } => "adam_w",
        };
        let (mut rule, mut default) = (self.rule, name.parse::<Self>().expect("a known name").rule);
        let ((numbers, switches), (by_default, off)) =
            (options_of(&mut rule), options_of(&mut default));
        let numbers = numbers.iter().zip(by_default).filter(|((_, a), (_, b))| a != b);
        let switches = switches.iter().zip(off).filter(|((_, a), (_, b))| a != b);
        let options = numbers.map(|((name, value), _)| format!("{name}={value}"));
        let options = options.chain(switches.map(|((name, value), _)| format!("{name}={value}")));
        let options = options.collect::<Vec<_>>().join(",");
        let colon = if options.is_empty() { "" } else { ":" };
        write!(f, "{name}{colon}{options}")
    }
}

type Named<'a, T> = Vec<(&'static str, &'a mut T)>;

/// Returns the options of a rule by PyTorch's names.
fn options_of(rule: &mut UpdateRule) -> (Named<'_, f64>, Named<'_, bool>) {
    match rule {
        UpdateRule::Sgd { momentum, dampening, nesterov } => {
            (vec![("momentum", momentum), ("dampening", dampening)], vec![("nesterov", nesterov)])
        }
        UpdateRule::AdaGrad { rate_decay, initial, epsilon } => (
            vec![
                ("lr_decay", rate_decay),
                ("initial_accumulator_value", initial),
                ("eps", epsilon),
            ],
            vec![],
        ),
        UpdateRule::RmsProp { alpha, epsilon, momentum, centered } => (
            vec![("alpha", alpha), ("eps", epsilon), ("momentum", momentum)],
            vec![("centered", centered)],
        ),
        UpdateRule::Adam { betas: [beta1, beta2], epsilon, decoupled: _ } => {
            (vec![("beta1", beta1), ("beta2", beta2), ("eps", epsilon)], vec![])
        }
    }
}

/// Parses `constant`, `step:EVERY:FACTOR`, `exponential:FACTOR`, `cosine:EPOCHS` or
/// `plateau:FACTOR:PATIENCE`.
impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let expected = "expected constant, step:EVERY:FACTOR, exponential:FACTOR, cosine or \
                        plateau:FACTOR:PATIENCE";
        let factor = |text: &str| text.parse::<f64>().map_err(|_| expected.to_string());
        let count = |text: &str| text.parse::<u64>().map_err(|_| expected.to_string());
        Ok(match parts.as_slice() {
            ["constant"] => Self::Constant,
            ["step", every, by] => Self::Step { every: count(every)?, factor: factor(by)? },
            ["exponential", by] => Self::Exponential { factor: factor(by)? },
            ["cosine", epochs] => Self::Cosine { epochs: count(epochs)? },
            ["plateau", by, patience] => {
                Self::Plateau { factor: factor(by)?, patience: count(patience)? }
            }
            _ => return Err(expected.into()),
        })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant => f.write_str("constant"),
            Self::Step { every, factor } => write!(f, "step:{every}:{factor}"),
            Self::Exponential { factor } => write!(f, "exponential:{factor}"),
            Self::Cosine { epochs } => write!(f, "cosine:{epochs}"),
            Self::Plateau { factor, patience } => write!(f, "plateau:{factor}:{patience}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optimizers_are_parsed() {
        let rule = |rule, base: Optimizer| Optimizer { rule, ..base };
        let nesterov = UpdateRule::Sgd { momentum: 0.9, dampening: 0.0, nesterov: true };
        let centered =
            UpdateRule::RmsProp { alpha: 0.9, epsilon: 1e-6, momentum: 0.0, centered: true };
        let adam_w = UpdateRule::Adam { betas: [0.8, 0.9], epsilon: 1e-9, decoupled: true };
        let ada_grad = UpdateRule::AdaGrad { rate_decay: 0.1, initial: 0.2, epsilon: 1e-10 };
        for (text, expected) in [
            ("sgd", Optimizer::sgd(1e-3)),
            ("adam", Optimizer::adam(1e-3)),
            ("sgd:momentum=0.9,nesterov=True", rule(nesterov, Optimizer::sgd(1e-3))),
            ("rmsprop:alpha=0.9,eps=1e-6,centered=true", rule(centered, Optimizer::rms_prop(1e-2))),
            ("adam_w:beta1=0.8,beta2=0.9,eps=1e-9", rule(adam_w, Optimizer::adam_w(1e-3))),
            (
                "adagrad:lr_decay=0.1,initial_accumulator_value=0.2",
                rule(ada_grad, Optimizer::ada_grad(1e-2)),
            ),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
            assert_eq!(expected.to_string().parse::<Optimizer>().unwrap().rule, expected.rule);
        }
        for (text, expected) in [
            ("Adam", "expected sgd, adagrad, rmsprop, adam or adam_w"),
            ("sgd:momentum", "momentum: expected a number, got ``"),
            ("sgd:nesterov=1", "nesterov: expected true or false, got `1`"),
            (
                "adam:betas=0.9",
                "adam has the options beta1, beta2, eps, got `betas`: use beta1 and beta2",
            ),
        ] {
            assert_eq!(text.parse::<Optimizer>(), Err(expected.into()), "{text}");
        }
    }

    #[test]
    fn rates_are_parsed() {
        for (text, expected) in [
            ("constant", Rate::Constant),
            ("step:3:0.5", Rate::Step { every: 3, factor: 0.5 }),
            ("exponential:0.9", Rate::Exponential { factor: 0.9 }),
            ("cosine:7", Rate::Cosine { epochs: 7 }),
            ("plateau:0.5:2", Rate::Plateau { factor: 0.5, patience: 2 }),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
            assert_eq!(expected.to_string(), text);
        }
        for text in ["", "step", "step:x:1", "step:3:y", "cosine:-1", "plateau:1:2:3"] {
            assert!(text.parse::<Rate>().unwrap_err().starts_with("expected constant"), "{text}");
        }
    }
}
