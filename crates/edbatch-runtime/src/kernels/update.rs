//! Updates of weights, given their gradients.
//!
//! Each element is updated on its own, by the same operations at every level, none of them fused.
//! So its bits do not depend on the level.

use super::{
    isa::Level,
    simd::{self, Kernel, Simd},
};

/// The change of weights in one update, given their gradients.
///
/// The gradient g of a weight w is scaled, clipped to ± `clip`, and becomes `g + decay · w`. Then w
/// becomes `keep · w` less what the rule computes from g.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// The rule.
    pub rule: Rule,
    /// The factor of gradients.
    pub scale: f32,
    /// The maximum magnitude of a scaled gradient.
    pub clip: f32,
    /// The factor by which the weight is multiplied before it is added to its gradient.
    pub decay: f32,
    /// The factor of the weight.
    pub keep: f32,
}

/// A rule, with the numbers of one update. Moments are m, v, …, in this order.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// `w -= rate · g`
    Descent {
        /// The learning rate.
        rate: f32,
    },
    /// `m = momentum · m + gradient · g; w -= rate · (nesterov ? g + momentum · m : m)`
    Momentum {
        /// The learning rate.
        rate: f32,
        /// The factor of the momentum.
        momentum: f32,
        /// The factor of the gradient.
        gradient: f32,
        /// Adds the momentum to the gradient once more.
        nesterov: bool,
    },
    /// `m += g²; w -= rate · g / (√m + epsilon)`
    AdaGrad {
        /// The learning rate.
        rate: f32,
        /// Added to the divisor.
        epsilon: f32,
    },
    /// `m += new · (g² - m); d = g / (√m + epsilon)`; if centered, `v += new · (g - v)`, and the
    /// root is of `m - v²`. With a momentum, the last moment is `b = momentum · b + d`. Without
    /// one, b is d. `w -= rate · b`
    RmsProp {
        /// The learning rate.
        rate: f32,
        /// The factor of the new square.
        new: f32,
        /// Added to the divisor.
        epsilon: f32,
        /// The factor of the momentum, or 0.
        momentum: f32,
        /// Divides by the standard deviation.
        centered: bool,
    },
    /// `m += new[0] · (g - m); v += new[1] · (g² - v); w -= rate · m / (root · √v + epsilon)`
    Adam {
        /// The learning rate, divided by the correction of the mean.
        rate: f32,
        /// The factors of the new gradient and its square.
        new: [f32; 2],
        /// The factor of the root.
        root: f32,
        /// Added to the divisor.
        epsilon: f32,
    },
}

/// Updates weights and their moments, given the gradients. All slices have the same length; moments
/// that the rule does not have are not read.
///
/// # Panics
/// If a slice is shorter than `weights`.
pub fn update(
    level: Level,
    change: &Change,
    weights: &mut [f32],
    gradients: &[f32],
    moments: [&mut [f32]; 3],
) {
    simd::run(level, Elements { change, weights, gradients, moments });
}

struct Elements<'a> {
    change: &'a Change,
    weights: &'a mut [f32],
    gradients: &'a [f32],
    moments: [&'a mut [f32]; 3],
}

impl Kernel for Elements<'_> {
    type Output = ();

    /// Plain loops, which the compiler vectorizes; the bits are the same as without vectors.
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Elements { change, weights, gradients, moments: [first, second, third] } = self;
        let Change { rule, scale, clip, decay, keep } = *change;
        let gradients = &gradients[..weights.len()];
        let clipped = |g: f32, w: f32| (g * scale).max(-clip).min(clip) + decay * w;
        let pairs = weights.iter_mut().zip(gradients).map(|(w, &g)| {
            let g = clipped(g, *w);
            *w *= keep;
            (w, g)
        });
        match rule {
            Rule::Descent { rate } => pairs.for_each(|(w, g)| *w -= rate * g),
            Rule::Momentum { rate, momentum, gradient, nesterov } => {
                let (again, of_g) = if nesterov { (momentum, 1.0) } else { (1.0, 0.0) };
                pairs.zip(&mut first[..gradients.len()]).for_each(|((w, g), m)| {
                    *m = momentum * *m + gradient * g;
                    *w -= rate * (of_g * g + again * *m);
                });
            }
            Rule::AdaGrad { rate, epsilon } => {
                pairs.zip(&mut first[..gradients.len()]).for_each(|((w, g), m)| {
                    *m += g * g;
                    *w -= rate * (g / (m.sqrt() + epsilon));
                });
            }
            Rule::RmsProp { rate, new, epsilon, momentum, centered } => {
                let squares = pairs.zip(&mut first[..gradients.len()]).map(|((w, g), m)| {
                    *m += new * (g * g - *m);
                    (w, g, *m)
                });
                let step = |b: &mut f32, d: f32| {
                    *b = momentum * *b + d;
                    *b
                };
                let divided = |g: f32, square: f32| g / (square.sqrt() + epsilon);
                let centre = |v: &mut f32, g: f32, square: f32| {
                    *v += new * (g - *v);
                    // Rounding may leave less than zero.
                    divided(g, (square - *v * *v).max(0.0))
                };
                let n = gradients.len();
                match (centered, momentum == 0.0) {
                    (false, true) => squares.for_each(|(w, g, m)| *w -= rate * divided(g, m)),
                    (false, false) => squares
                        .zip(&mut second[..n])
                        .for_each(|((w, g, m), b)| *w -= rate * step(b, divided(g, m))),
                    (true, true) => squares
                        .zip(&mut second[..n])
                        .for_each(|((w, g, m), v)| *w -= rate * centre(v, g, m)),
                    (true, false) => squares
                        .zip(&mut second[..n])
                        .zip(&mut third[..n])
                        .for_each(|(((w, g, m), v), b)| *w -= rate * step(b, centre(v, g, m))),
                }
            }
            Rule::Adam { rate, new, root, epsilon } => {
                let n = gradients.len();
                pairs.zip(&mut first[..n]).zip(&mut second[..n]).for_each(|(((w, g), m), v)| {
                    *m += new[0] * (g - *m);
                    *v += new[1] * (g * g - *v);
                    *w -= rate * *m / (root * v.sqrt() + epsilon);
                });
            }
        }
    }
}
