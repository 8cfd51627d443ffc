//! The generated C++ of unit tiles: a struct for each signature, which `kernels/tile.h` uses.

use std::fmt::Write;

use edbatch_graph::Reduction;
use edbatch_layout::{CellStep, Program};

use super::{Functions, PhaseWriter};
use crate::operations::{constant, value};
use crate::options::DevicePrecision;
use crate::phase_table::{PhaseTable, Way};
use crate::shapes::{MAX_SIGNATURES, Shape, shapes, shapes_of_adjoints};
use crate::unit_tile::{Line, Load, UnitTile, Value};
use crate::weights::WeightLayout;

/// Unit tiles by signature: phases whose struct has the same text, and so share a function.
#[derive(Debug, Default)]
pub(crate) struct Tiles(pub(crate) Vec<(String, Vec<UnitTile>)>);

impl Tiles {
    /// Writes the structs of tiles. Keeps the signatures with most multiply-adds if there are more
    /// than a kernel can have.
    pub(crate) fn new(
        program: &Program,
        table: &PhaseTable,
        weights: &WeightLayout,
        all: Vec<UnitTile>,
        precision: DevicePrecision,
    ) -> Self {
        let functions = Functions::default();
        let mut tiles: Vec<(String, Vec<UnitTile>)> = Vec::new();
        for tile in all {
            let entry = &table.entries()[tile.phase];
            let cell = program.part(entry.cell, entry.part).expect("it has phases");
            let writer = PhaseWriter::new(program, entry, cell, weights, &functions);
            let text = writer.tile(&tile);
            match tiles.iter_mut().find(|(known, _)| *known == text) {
                Some((_, phases)) => phases.push(tile),
                None => tiles.push((text, vec![tile])),
            }
        }
        let terms = |(_, phases): &(String, Vec<UnitTile>)| -> u32 {
            phases.iter().map(|tile| tile.blocks() * tile.terms()).sum()
        };
        tiles.sort_by_key(|tile| std::cmp::Reverse(terms(tile)));
        // Tiles without products have no terms, so they are the last.
        let with_products = tiles.iter().filter(|tile| terms(tile) > 0).count();
        tiles.drain(MAX_SIGNATURES.min(with_products)..with_products);
        let signatures = with_products.min(MAX_SIGNATURES);
        tiles.truncate(signatures + MAX_SIGNATURES);
        let shapes = match table.way {
            // Launches of a step of training have no memory for the sums of S8R8.
            Way::Forward => match shapes(signatures, precision) {
                [whole @ .., Shape::S8R8] if program.training().is_some() => whole,
                all => all,
            },
            Way::Back => shapes_of_adjoints(signatures),
        };
        tiles.iter_mut().flat_map(|(_, phases)| phases).for_each(|tile| tile.shapes = shapes);
        Self(tiles)
    }

    /// Returns the tile of each phase that has one.
    pub(crate) fn phases(&self) -> impl Iterator<Item = &UnitTile> {
        self.0.iter().flat_map(|(_, phases)| phases)
    }

    /// Writes the structs, the function that loads weights, and the function that runs a tile.
    pub(super) fn write(&self, weights: &WeightLayout, way: Way, text: &mut String) {
        for (number, (body, _)) in self.0.iter().enumerate() {
            line!(text, "\nstruct Tile{number} {{\n{body}}};");
        }
        // Static: a table of an inline function is shared by all libraries of a process.
        line!(text, "\nstatic DEVICE void load_weights(TeamBlock block, const Arguments& a) {{");
        if !self.0.is_empty() {
            line!(text, "    static const Resident ALL[] = {{");
            for tile in self.phases() {
                let (start, phase) = (weights.of_tile(way, tile.phase), tile.phase);
                line!(text, "        {{{start}ull, {phase}, {}, {}}},", tile.blocks(), tile.size());
            }
            line!(text, "    }};");
            line!(text, "    load_resident(block, a.weights, ALL, sizeof ALL / sizeof *ALL);");
        }
        line!(text, "}}\n");
        let mut missing = String::new();
        line!(text, "DEVICE void run_tile(TeamBlock block, Job j, u32 shape) {{");
        line!(text, "    switch (j.phase()) {{");
        for (number, (_, phases)) in self.0.iter().enumerate() {
            let shapes = phases.first().map_or(&[][..], |tile| tile.shapes);
            let bits: u32 = shapes.iter().map(|&shape| 1 << (shape as u32 - 1)).sum();
            let cases: String =
                phases.iter().map(|tile| format!("case {}: ", tile.phase)).collect();
            line!(text, "    {cases}unit_tile<Tile{number}, {bits}>(block, j, shape); break;");
            line!(missing, "    {cases}return not_written<Tile{number}>(block, j);");
        }
        line!(text, "    }}\n}}\n");
        line!(text, "#ifndef __CUDACC_RTC__");
        line!(text, "DEVICE const float* missing_row(TeamBlock block, Job j) {{");
        line!(text, "    switch (j.phase()) {{\n{missing}    }}\n    return nullptr;\n}}\n#endif");
    }
}

impl PhaseWriter<'_> {
    /// Returns the members of a tile's struct.
    fn tile(&self, tile: &UnitTile) -> String {
        let (mut from, mut reduce, mut each) = (String::new(), String::new(), String::new());
        let mut first = 0;
        let mut ends = Vec::new();
        for product in &tile.products {
            for (columns, load) in &product.pieces {
                let (start, end, count) =
                    (first + columns.start, first + columns.end, columns.len());
                let k = if start == 0 { "k".into() } else { format!("(k - {start})") };
                match load {
                    Load::Row(place) => {
                        let row = format!("{}.row(j, r)", self.rows(*place));
                        line!(from, "        if (k < {end}) return {row} + {k};");
                        line!(each, "        f({row}, {count});");
                    }
                    Load::Reduced { port, from: column, by } => {
                        let (operand, by) = (self.tables() + usize::from(*port), reduction(*by));
                        line!(from, "        if (k < {end}) return nullptr;");
                        let call = format!("reduce4(j, {operand}, r, {column} + {k}, {by}, to)");
                        line!(reduce, "        if (k < {end}) return {call};");
                        line!(each, "        each_value(j, {operand}, r, {column}, {count}, f);");
                    }
                }
            }
            first += product.depth;
            ends.push(first);
        }
        let reads = self.read.take();
        let (mut row, mut load, mut written) = (String::new(), String::new(), String::new());
        for (number, what) in tile.loads.iter().enumerate() {
            let value = match what {
                Load::Row(place) => {
                    let row = format!("{}.row(j, r)", self.rows(*place));
                    line!(each, "        f({row}, {});", tile.units);
                    format!("seen({row} + u)")
                }
                Load::Reduced { port, from, by } => {
                    let operand = self.tables() + usize::from(*port);
                    line!(each, "        each_value(j, {operand}, r, {from}, {}, f);", tile.units);
                    format!("reduced<true>(j, {operand}, r, {from} + u, {})", reduction(*by))
                }
            };
            row += &format!("        float x{number};\n");
            line!(load, "        own.x{number} = {value};");
            written += &format!(" && ::is_written(x.x{number})");
        }
        let reads = reads | self.read.take();
        let (units, block, columns) = (tile.units, tile.block, tile.columns);
        let (products, constants, depth) = (ends.len(), tile.constants.len(), tile.depth());
        let of_products: Vec<u32> = tile.products.iter().map(|it| tile.columns_of(it)).collect();
        let mut text = format!("    enum : u32 {{ UNITS = {units}, BLOCK = {block} }};\n");
        line!(text, "    enum : u32 {{ PRODUCTS = {products}, COLUMNS = {columns} }};");
        line!(
            text,
            "    enum : u32 {{ DEPTH = {depth}, CONSTANTS = {constants}, READS = {reads} }};"
        );
        line!(text, "    static constexpr u32 end(u32 p) {{ return {}; }}", of_p(&ends));
        line!(text, "    static constexpr u32 columns(u32 p) {{ return {}; }}", of_p(&of_products));
        line!(text, "    static DEVICE const float* from(const Job& j, u32 r, u32 k) {{");
        line!(text, "{from}        return nullptr;\n    }}");
        line!(text, "    static DEVICE void reduce(const Job& j, u32 r, u32 k, float* to) {{");
        line!(text, "{reduce}    }}");
        line!(
            text,
            "    template <class F> static DEVICE void each_read(const Job& j, u32 r, F f) {{"
        );
        line!(text, "{each}    }}");
        line!(text, "    struct Row {{\n{row}    }};");
        line!(text, "    static DEVICE Row load(const Job& j, u32 r, u32 u) {{");
        line!(text, "        Row own;\n{load}        return own;\n    }}");
        let (waits, reduces) = (!tile.loads.is_empty(), !reduce.is_empty());
        line!(text, "    enum : bool {{ WAITS = {waits}, REDUCES = {reduces} }};");
        line!(text, "    static DEVICE bool is_written(const Row& x) {{ return true{written}; }}");
        let sums = products.max(1);
        line!(text, "    static DEVICE void finish(const float (&s)[{sums}][{columns}],");
        line!(text, "                              const Row& row, const float* c, const Job& j,");
        line!(text, "                              u32 r, u32 u) {{\n{}    }}", self.finish(tile));
        text
    }

    /// Returns the statements of the steps after the products of a tile.
    fn finish(&self, tile: &UnitTile) -> String {
        let mut text = String::new();
        let of = |value: &Value| match *value {
            Value::Loaded(number) => format!("row.x{number}"),
            Value::Constant(number) => format!("c[{}]", number as u32 * tile.block),
            Value::Literal(x) => constant(x),
            Value::Local(number) => format!("v{number}"),
        };
        let mut local = 0;
        for own in &tile.lines {
            match own {
                Line::Sum { product, column, before } => {
                    let sum = format!("s[{product}][{column}]");
                    let sum =
                        before.as_ref().map_or(sum.clone(), |x| format!("add({}, {sum})", of(x)));
                    line!(text, "        float v{local} = {sum};");
                    local += 1;
                }
                Line::Program { step, inputs } => {
                    let CellStep::Elementwise { program, .. } = &self.cell.steps[*step] else {
                        unreachable!("programs are of element-wise steps")
                    };
                    let (first, outputs) = (program.inputs(), program.outputs());
                    (local..local + outputs).for_each(|v| line!(text, "        float v{v};"));
                    line!(text, "        {{");
                    for (register, value) in inputs.iter().enumerate() {
                        line!(text, "            float r{register} = {};", of(value));
                    }
                    for register in first..first + outputs + program.temporaries() {
                        line!(text, "            float r{register};");
                    }
                    for assignment in program.assignments() {
                        let operand = |i: usize| format!("r{}", assignment.operands[i].index());
                        let value = value(assignment.operation, [0, 1, 2, 3].map(operand));
                        line!(text, "            r{} = {value};", assignment.result.index());
                    }
                    for output in 0..outputs {
                        line!(text, "            v{} = r{};", local + output, first + output);
                    }
                    line!(text, "        }}");
                    local += outputs;
                }
                Line::Share { port, value } => {
                    let (operand, value) = (self.tables() + usize::from(*port), of(value));
                    line!(text, "        float v{local} = share_of(j, {operand}, r, {value});");
                    local += 1;
                }
                Line::Store { place, value } => {
                    line!(text, "        publish({}.row(r) + u, {});", self.own(*place), of(value));
                }
            }
        }
        text
    }
}

/// Returns an expression of p that has these values.
fn of_p(values: &[u32]) -> String {
    let all = values.iter().enumerate().rev();
    all.fold("0".into(), |rest, (p, value)| format!("p == {p} ? {value} : {rest}"))
}

/// Returns the name of a reduction in `kernels/steps.h`.
pub(super) fn reduction(by: Reduction) -> &'static str {
    match by {
        Reduction::Sum => "SUM",
        Reduction::Mean => "MEAN",
        Reduction::Max => "MAX",
        Reduction::LogSumExp => "LOG_SUM_EXP",
    }
}
