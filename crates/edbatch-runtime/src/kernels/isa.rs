//! The choice of an instruction level at run time.

use std::{env, fmt, str::FromStr, sync::OnceLock};

/// A set of vector instructions that every kernel is compiled for.
///
/// Levels differ in their last bits: the portable one rounds after every multiplication, unless the
/// target guarantees a fused one; the others fuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// 16 lanes, 32 registers: AVX-512 F, BW, DQ and VL (Skylake-X, Zen 4 and later).
    Avx512,
    /// 8 lanes, 16 registers: AVX2 and FMA (Haswell, Zen and later).
    Avx2,
    /// 4 lanes, 32 registers: every 64-bit Arm.
    Neon,
    /// Plain Rust, compiled for what the target guarantees. The oracle of the others, and the way
    /// out on other machines.
    Portable,
}

/// The variable that overrides [`Level::detect`], for tests and measurements.
pub const VARIABLE: &str = "EDBATCH_CPU";

impl Level {
    const BEST_FIRST: [Level; 4] = [Level::Avx512, Level::Avx2, Level::Neon, Level::Portable];

    /// The best available level, or the one that `EDBATCH_CPU` names (`avx512`, `avx2`, `neon`,
    /// `portable`). Decided once per process.
    ///
    /// # Panics
    ///
    /// If `EDBATCH_CPU` names no level, or one that this machine lacks: a measurement must not
    /// silently run another.
    pub fn detect() -> Level {
        static DETECTED: OnceLock<Level> = OnceLock::new();
        *DETECTED.get_or_init(|| match env::var(VARIABLE) {
            Ok(name) => name.parse().unwrap_or_else(|error| panic!("{VARIABLE}: {error}")),
            Err(_) => Level::available()[0],
        })
    }

    /// The levels of this machine, best first. Never empty.
    pub fn available() -> Vec<Level> {
        Level::BEST_FIRST.into_iter().filter(|level| level.is_available()).collect()
    }

    /// Whether this machine has the level's instructions.
    pub fn is_available(self) -> bool {
        match self {
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

    /// The name that `EDBATCH_CPU` knows.
    pub fn name(self) -> &'static str {
        match self {
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

/// A name that is no level, or not one of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Level::available().into_iter().map(Level::name).collect();
        write!(
            f,
            "`{}` is not an instruction level of this machine; choose one of {}",
            self.0,
            names.join(", ")
        )
    }
}

impl std::error::Error for UnknownLevel {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_available_level_is_known_by_its_name() {
        assert_eq!(Level::available().last(), Some(&Level::Portable));
        for level in Level::available() {
            assert_eq!(level.name().parse(), Ok(level));
        }
    }

    #[test]
    fn every_64_bit_arm_has_neon_and_prefers_it() {
        assert_eq!(Level::available()[0] == Level::Neon, cfg!(target_arch = "aarch64"));
    }

    #[test]
    fn an_unknown_name_lists_the_choices() {
        let error = "mmx".parse::<Level>().unwrap_err().to_string();
        assert!(error.starts_with("`mmx` is not") && error.ends_with("portable"), "{error}");
    }
}
