//! Colours for light and dark screens. A system has one colour on the whole page.
//!
//! These are the colours of Okabe and Ito, which colour-blind people can distinguish, in shades
//! that also differ in lightness.

use std::fmt::Write;

use crate::measure::peers::program::Program;
use crate::render::headline::Rival;

/// A colour on a light and on a dark background.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Colour {
    light: [u8; 3],
    dark: [u8; 3],
}

/// Text.
pub const INK: Colour = Colour { light: [27, 31, 36], dark: [230, 237, 243] };
/// Secondary text.
pub const MUTED: Colour = Colour { light: [89, 99, 110], dark: [160, 169, 180] };
/// Lines of the grid.
pub const GRID: Colour = Colour { light: [220, 224, 229], dark: [48, 54, 62] };
/// A limit line, such as the peak.
pub const LIMIT: Colour = Colour { light: [60, 66, 74], dark: [200, 207, 215] };

/// Our system.
pub const OURS: Colour = Colour { light: [208, 84, 0], dark: [255, 143, 66] };
/// The paper's system.
pub const PAPER: Colour = Colour { light: [0, 98, 165], dark: [88, 166, 255] };
/// Cells batched by depth or agenda.
pub const CELLS: Colour = Colour { light: [64, 160, 220], dark: [142, 205, 248] };
/// Operations batched by depth or agenda.
pub const VANILLA: Colour = Colour { light: [0, 140, 105], dark: [46, 196, 150] };
/// The unbatched system, and everything that is not a system.
pub const PLAIN: Colour = Colour { light: [132, 138, 145], dark: [125, 133, 144] };
/// PyTorch.
pub const PYTORCH: Colour = Colour { light: [180, 80, 140], dark: [232, 150, 200] };
/// DyNet.
pub const DYNET: Colour = Colour { light: [94, 60, 153], dark: [178, 150, 232] };

/// Phases of the time: construction, scheduling, planning, copying, computing, the rest.
pub const PARTS: [(&str, Colour); 7] = [
    ("construct", Colour { light: [176, 132, 0], dark: [190, 146, 20] }),
    ("schedule", Colour { light: [222, 176, 30], dark: [222, 178, 50] }),
    ("plan", Colour { light: [244, 214, 110], dark: [250, 219, 120] }),
    ("gather", Colour { light: [190, 110, 110], dark: [214, 120, 120] }),
    ("product", Colour { light: [64, 84, 130], dark: [92, 118, 176] }),
    ("element-wise", Colour { light: [134, 156, 196], dark: [150, 174, 216] }),
    ("other", Colour { light: [196, 200, 206], dark: [84, 92, 102] }),
];

impl Colour {
    /// Returns the light colour. The page's style replaces it on dark screens.
    pub fn hex(self) -> String {
        hex(self.light)
    }
}

fn hex([red, green, blue]: [u8; 3]) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

/// Returns the colour of a system.
pub fn of_system(system: &str) -> Colour {
    Rival::of_system(system).map_or(OURS, of_rival)
}

/// Returns the colour of a rival.
pub fn of_rival(rival: Rival) -> Colour {
    match rival {
        Rival::Unbatched => PLAIN,
        Rival::Vanilla => VANILLA,
        Rival::Cells => CELLS,
        Rival::Paper => PAPER,
        Rival::Peer(Program::DyNet) => DYNET,
        Rival::Peer(_) => PYTORCH,
    }
}

/// Returns the colour of the system that uses a policy.
pub fn of_policy(policy: &str) -> Colour {
    match policy {
        "critical" | "default" | "rule-pairs" | "pairs" => OURS,
        "fsm-sort" | "sort" => PAPER,
        "agenda" => CELLS,
        _ => PLAIN,
    }
}

/// Returns style rules that replace all colours of plots on dark screens.
pub fn dark_rules() -> String {
    let systems = [INK, MUTED, GRID, LIMIT, OURS, PAPER, CELLS, VANILLA, PLAIN, PYTORCH, DYNET];
    let mut rules = String::new();
    for colour in systems.into_iter().chain(PARTS.map(|(_, colour)| colour)) {
        let (light, dark) = (hex(colour.light), hex(colour.dark));
        for attribute in ["fill", "stroke"] {
            writeln!(rules, "svg [{attribute}=\"{light}\"] {{ {attribute}: {dark}; }}")
                .expect("writing to a string succeeds");
        }
        writeln!(rules, "i[style*=\"{light}\"] {{ background: {dark} !important; }}")
            .expect("writing to a string succeeds");
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::{CELLS, Colour, DYNET, GRID, OURS, PAPER, PARTS, PLAIN, PYTORCH, VANILLA, hex};

    #[test]
    fn colours_are_distinct() {
        let systems = [GRID, OURS, PAPER, CELLS, VANILLA, PLAIN, PYTORCH, DYNET];
        let all = systems.into_iter().chain(PARTS.map(|(_, colour)| colour));
        let mut names: Vec<String> = all.map(|colour: Colour| hex(colour.light)).collect();
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
