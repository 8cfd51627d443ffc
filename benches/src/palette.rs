//! Colours, each with its twin for dark screens. A system has one colour on the whole page.
//!
//! They are those of Okabe and Ito, which people who confuse red and green can distinguish, in
//! shades that differ in lightness too.

use std::fmt::Write;

use plotters::style::RGBColor;

use crate::headline::Rival;
use crate::peers::Program;
use crate::systems::System;

/// A colour on light and on dark ground.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Colour {
    light: [u8; 3],
    dark: [u8; 3],
}

/// Text.
pub const INK: Colour = Colour { light: [27, 31, 36], dark: [230, 237, 243] };
/// Text that explains.
pub const MUTED: Colour = Colour { light: [89, 99, 110], dark: [160, 169, 180] };
/// Lines of the grid.
pub const GRID: Colour = Colour { light: [220, 224, 229], dark: [48, 54, 62] };
/// A limit.
pub const LIMIT: Colour = Colour { light: [60, 66, 74], dark: [200, 207, 215] };

/// Ours.
pub const OURS: Colour = Colour { light: [208, 84, 0], dark: [255, 143, 66] };
/// The paper's.
pub const PAPER: Colour = Colour { light: [0, 98, 165], dark: [88, 166, 255] };
/// Cells batched by simple rules.
pub const CELLS: Colour = Colour { light: [64, 160, 220], dark: [142, 205, 248] };
/// Operations batched by simple rules.
pub const VANILLA: Colour = Colour { light: [0, 140, 105], dark: [46, 196, 150] };
/// Nothing batched, and whatever is no system.
pub const PLAIN: Colour = Colour { light: [132, 138, 145], dark: [125, 133, 144] };
/// PyTorch.
pub const PYTORCH: Colour = Colour { light: [180, 80, 140], dark: [232, 150, 200] };
/// DyNet.
pub const DYNET: Colour = Colour { light: [94, 60, 153], dark: [178, 150, 232] };

/// Parts of the time: deciding, copying, computing, the rest.
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
    /// As plots are drawn; the page's style turns it into the dark twin.
    #[must_use]
    pub fn rgb(self) -> RGBColor {
        let [red, green, blue] = self.light;
        RGBColor(red, green, blue)
    }

    /// As a style sheet names it on light ground.
    #[must_use]
    pub fn hex(self) -> String {
        hex(self.light)
    }
}

fn hex([red, green, blue]: [u8; 3]) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

/// The colour of a system.
#[must_use]
pub fn of_system(system: &str) -> Colour {
    let named = |which: &[System]| which.iter().any(|which| which.name() == system);
    if named(&[System::Paper]) {
        PAPER
    } else if named(&[System::CellsDepth, System::CellsAgenda]) {
        CELLS
    } else if named(&[System::VanillaDepth, System::VanillaAgenda]) {
        VANILLA
    } else if named(&[System::Unbatched]) {
        PLAIN
    } else if let Some(program) = Program::of_system(system) {
        of_program(program)
    } else {
        OURS
    }
}

/// The colour of a rival.
#[must_use]
pub fn of_rival(rival: Rival) -> Colour {
    match rival {
        Rival::Unbatched => PLAIN,
        Rival::Vanilla => VANILLA,
        Rival::Cells => CELLS,
        Rival::Paper => PAPER,
        Rival::Peer(program) => of_program(program),
    }
}

/// The colour of another program.
#[must_use]
pub fn of_program(program: Program) -> Colour {
    match program {
        Program::PyTorch => PYTORCH,
        Program::DyNet => DYNET,
    }
}

/// The colour of the system that uses a policy.
#[must_use]
pub fn of_policy(policy: &str) -> Colour {
    match policy {
        "critical" | "default" | "rule-pairs" | "pairs" => OURS,
        "fsm-sort" | "sort" => PAPER,
        "agenda" => CELLS,
        _ => PLAIN,
    }
}

/// Rules of a style sheet that give all colours of plots their dark twins.
#[must_use]
pub fn dark_rules() -> String {
    let systems = [INK, MUTED, GRID, LIMIT, OURS, PAPER, CELLS, VANILLA, PLAIN, PYTORCH, DYNET];
    let mut rules = String::new();
    for colour in systems.into_iter().chain(PARTS.map(|(_, colour)| colour)) {
        let (light, dark) = (hex(colour.light), hex(colour.dark));
        for attribute in ["fill", "stroke"] {
            writeln!(rules, "svg [{attribute}=\"{light}\"] {{ {attribute}: {dark}; }}")
                .expect("a string takes everything");
        }
        writeln!(rules, "i[style*=\"{light}\"] {{ background: {dark} !important; }}")
            .expect("a string takes everything");
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::{CELLS, Colour, DYNET, GRID, OURS, PAPER, PARTS, PLAIN, PYTORCH, VANILLA, hex};

    #[test]
    fn no_two_colours_have_the_same_name() {
        let systems = [GRID, OURS, PAPER, CELLS, VANILLA, PLAIN, PYTORCH, DYNET];
        let all = systems.into_iter().chain(PARTS.map(|(_, colour)| colour));
        let mut names: Vec<String> = all.map(|colour: Colour| hex(colour.light)).collect();
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
