//! The generated C++ of attention: a block computes one call after the other.

use std::fmt::Write;

use edbatch_layout::{CellStep, Scores};

use super::{PhaseWriter, plus};

impl PhaseWriter<'_> {
    pub(super) fn attention(&self, step: &CellStep, text: &mut String) {
        let CellStep::Attention { port, scores, values, heads, width, out } = step else {
            unreachable!("called for attention")
        };
        let field = |offset: u32, column: &str| {
            format!("fresh(a.arena + all.rows[v]{} + {column})", plus(offset))
        };
        let of_head = width / heads;
        let score = match scores {
            Scores::Field(scores) => field(*scores, "head"),
            Scores::Keys { query, keys, width } => {
                let of_head = width / heads;
                let column = format!("head * {of_head} + i");
                let (query, key) = (self.read(*query, "call", &column), field(*keys, &column));
                format!(
                    "dot_rows({of_head}, [&](u32 i) {{ return {query}; }}, [&](u32 i) {{ return \
                     {key}; }})"
                )
            }
        };
        let column = format!("head * {of_head} + c");
        let value = field(*values, &column);
        let (written, to) =
            (self.read(*out, "call", &column), self.write_to(*out, "call", &column));
        let operand = self.tables() + usize::from(*port);
        line!(text, "        u32 calls = units.count == 0 ? 0 : j.count;");
        line!(text, "        for (u32 call = j.first; call < j.first + calls; ++call) {{");
        line!(text, "            Values all(a.commands, j.operand({operand}), call);");
        line!(text, "            for (u32 head = 0; head < {heads}; ++head)");
        line!(text, "                attend(block, all.count, {of_head},");
        line!(text, "                       [&](u32 v) {{ return {score}; }},");
        line!(text, "                       [&](u32 v, u32 c) {{ return {value}; }},");
        line!(text, "                       [&](u32 c) {{ return {written}; }},");
        line!(text, "                       [&](u32 c, float x) {{ {to} = x; }});");
        line!(text, "        }}");
    }
}
