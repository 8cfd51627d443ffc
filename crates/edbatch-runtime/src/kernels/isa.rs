//! Instruction levels, and the choice between them at run time.

use std::{env, fmt, str::FromStr, sync::OnceLock};

/// A vector instruction set. Every kernel is compiled for each of them.
///
/// The portable level rounds after every multiplication, unless the target guarantees fused
/// multiply-adds. The other levels always fuse, so their results may differ in the last bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// [`Avx512`](Level::Avx512) with BF16: one instruction multiplies and adds pairs of bf16
    /// (Cooper Lake, Sapphire Rapids, Zen 4 and later). All kernels but products in bf16 are those
    /// of `Avx512`.
    Avx512Bf16,
    /// 16 lanes, 32 registers: AVX-512 F, BW, DQ and VL (Skylake-X, Zen 4 and later).
    Avx512,
    /// 8 lanes, 16 registers: AVX2 and FMA (Haswell, Zen and later).
    Avx2,
    /// 4 lanes, 32 registers: every 64-bit Arm CPU.
    Neon,
    /// Plain Rust, compiled for the target's baseline. The fallback on other machines, and the
    /// oracle that tests compare the other levels with.
    Portable,
}

/// The environment variable that overrides [`Level::detect`], for tests and measurements.
const VARIABLE: &str = "EDBATCH_CPU";

impl Level {
    const BEST_FIRST: [Level; 5] =
        [Level::Avx512Bf16, Level::Avx512, Level::Avx2, Level::Neon, Level::Portable];

    /// Returns the best available level, or the one that `EDBATCH_CPU` names (`avx512-bf16`,
    /// `avx512`, `avx2`, `neon`, `portable`). The choice is made once per process.
    ///
    /// # Panics
    ///
    /// If `EDBATCH_CPU` is not the name of an available level, so that a measurement never silently
    /// runs at another level.
    pub fn detect() -> Level {
        static DETECTED: OnceLock<Level> = OnceLock::new();
        *DETECTED.get_or_init(|| match env::var(VARIABLE) {
            Ok(name) => name.parse().unwrap_or_else(|error| panic!("{VARIABLE}: {error}")),
            Err(_) => Level::available()[0],
        })
    }

    /// Returns the levels that this machine supports, best first. Never empty.
    pub fn available() -> Vec<Level> {
        Level::BEST_FIRST.into_iter().filter(|level| level.is_available()).collect()
    }

    /// Returns true if this machine has the level's instructions.
    #[inline]
    pub fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512Bf16 => {
                is_x86_feature_detected!("avx512bf16") && Level::Avx512.is_available()
            }
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && Level::Avx2.is_available()
            }
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "aarch64")]
            Level::Neon => true,
            Level::Portable => true,
            _ => false,
        }
    }

    /// Returns true if the level has instructions for pairs of bf16.
    pub(super) fn has_pairs(self) -> bool {
        self == Level::Avx512Bf16
    }

    /// Returns the level's name, as in `EDBATCH_CPU`.
    pub fn name(self) -> &'static str {
        match self {
            Level::Avx512Bf16 => "avx512-bf16",
            Level::Avx512 => "avx512",
            Level::Avx2 => "avx2",
            Level::Neon => "neon",
            Level::Portable => "portable",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error for a name that is not an available level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an instruction level of this machine; choose one of {levels}",
    levels = Level::available().into_iter().map(Level::name).collect::<Vec<_>>().join(", ")
)]
pub struct UnknownLevel(String);

impl FromStr for Level {
    type Err = UnknownLevel;

    fn from_str(name: &str) -> Result<Level, UnknownLevel> {
        Level::available()
            .into_iter()
            .find(|level| level.name() == name)
            .ok_or_else(|| UnknownLevel(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_levels_parse_from_their_names() {
        assert_eq!(Level::available().last(), Some(&Level::Portable));
        for level in Level::available() {
            assert_eq!(level.name().parse(), Ok(level));
        }
    }

    #[test]
    fn neon_is_the_best_level_on_arm64_only() {
        assert_eq!(Level::available()[0] == Level::Neon, cfg!(target_arch = "aarch64"));
    }

    #[test]
    fn error_for_an_unknown_name_lists_the_choices() {
        let error = "mmx".parse::<Level>().unwrap_err().to_string();
        assert!(error.starts_with("`mmx` is not") && error.ends_with("portable"), "{error}");
    }
}
