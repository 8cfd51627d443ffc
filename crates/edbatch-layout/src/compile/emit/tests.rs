use super::super::CellStyle;
use super::super::notation::CellText;

fn check(cell: &str, style: CellStyle, expected: &[&str]) {
    let steps = CellText::parse(cell).compiled(style);
    let steps: Vec<&str> = steps.lines().skip(1).map(str::trim).collect();
    assert_eq!(steps, expected, "{cell}");
}

#[test]
fn sums_of_products_accumulate_in_place() {
    let cell = "x h -> i = w1 x + u1 h + b1, c = tanh i | c";
    check(
        cell,
        CellStyle::Planned,
        &[
            "s0+0 = (w0) port0+0 [4, 4]",
            "s0+0 += (w1) port1+0 [4, 4]",
            "element-wise [4]: r0 = s0+0; r1 = w2+0; r2 = tanh(r0 + r1); out+0 = r2",
        ],
    );
    check(
        cell,
        CellStyle::Declaration,
        &[
            "s0+0 = (w0) port0+0 [4, 4]",
            "s1+0 = (w1) port1+0 [4, 4]",
            "element-wise [4]: r0 = s0+0; r1 = s1+0; r2 = r0 + r1; s2+0 = r2",
            "element-wise [4]: r0 = s2+0; r1 = w2+0; r2 = r0 + r1; s3+0 = r2",
            "element-wise [4]: r0 = s3+0; r1 = tanh r0; out+0 = r1",
        ],
    );
}

#[test]
fn a_product_begins_from_its_bias() {
    let start = "out+0 = w1+0 + (w0) port0+0 [4, 4]";
    check("x -> p = w1 x + b1 | p", CellStyle::Planned, &[start]);
    check("x -> p = b1 + w1 x | p", CellStyle::Planned, &["out+0 = w0+0 + (w1) port0+0 [4, 4]"]);
    // An element-wise step adds the bias, and products of one vector stay one step.
    for cell in ["x -> p = tanh (w1 x + b1) | p", "x -> p = w1 x + b1, q = w2 x + b2 | p q"] {
        let steps = CellText::parse(cell).compiled(CellStyle::Planned);
        assert!(steps.lines().count() == 3 && !steps.contains(" + ("), "{steps}");
    }
}

#[test]
fn each_batch_is_a_kernel() {
    let cell = "x h:c -> i = w1 x + b1, f = w2 x + b2, g = tanh i * c, e = tanh f * h | g e";
    check(
        cell,
        CellStyle::Paper,
        &[
            "s0+0 = (w2 ; w0) port0+0 [8, 4]",
            "element-wise [4]: r0 = s0+0; r1 = w3+0; r2 = s0+4; r3 = w1+0; \
             r4 = r0 + r1; r5 = r2 + r3; s1+0 = r4; s1+4 = r5",
            "element-wise [8]: r0 = s1+0; r1 = tanh r0; s2+0 = r1",
            "element-wise [4]: r0 = s2+0; r1 = port1+0; r2 = s2+4; r3 = port1+4; \
             r5 = r0 * r1; r4 = r2 * r3; out+0 = r4; out+4 = r5",
        ],
    );
}

#[test]
fn reshaping_moves_nothing() {
    let cell = "x -> m = matrix x, n = norm m, y = vector n, z = tanh y | z";
    let expected = [
        "s0+0 = layer-norm(0.5) port0+0 [2, 2]",
        "element-wise [4]: r0 = s0+0; r1 = tanh r0; out+0 = r1",
    ];
    for style in [CellStyle::Planned, CellStyle::Hoisted] {
        check(cell, style, &expected);
    }
    for style in [CellStyle::Paper, CellStyle::Batched, CellStyle::Declaration] {
        let steps = CellText::parse(cell).compiled(style);
        assert!(!steps.contains("out+0 = s") && steps.lines().count() == 3, "{steps}");
    }
}

#[test]
fn attention_reads_values_in_place() {
    let cell = "x many:k:v -> q = w1 x, y = attend q many, z = softmax many, s = y + z | s";
    let steps = [
        "s0+0 = sum of port1+4 by softmax of port1+0 [4 heads, 4]",
        "s1+0 = (w0) port0+0 [4, 4]",
        "element-wise [4]: r0 = s1+0; r1 = 0.5 r0; s2+0 = r1",
        "s3+0 = sum of port1+4 by softmax of s2+0 · port1+0 [4] [2 heads, 4]",
        "element-wise [4]: r0 = s3+0; r1 = s0+0; r2 = r0 + r1; out+0 = r2",
    ];
    check(cell, CellStyle::Planned, &steps);
    for style in [CellStyle::Paper, CellStyle::Batched, CellStyle::Declaration] {
        let compiled = CellText::parse(cell).compiled(style);
        assert_eq!(compiled.lines().count(), 1 + steps.len(), "{compiled}");
        assert_eq!(compiled.matches("= sum of port1+4 by softmax of").count(), 2, "{compiled}");
    }
}

#[test]
fn operands_that_are_not_contiguous_are_gathered() {
    let cell = "x -> a = tanh x, b = sigmoid x, c = w1 a, d = w2 b, p = c * a, q = d * b | p q";
    let gathered = ["s3+0 = s0+0 [4]", "s3+4 = s1+0 [4]"];
    let steps = CellText::parse(cell).compiled(CellStyle::Batched);
    assert!(gathered.iter().all(|step| steps.contains(step)), "{steps}");
}

#[test]
fn consecutive_element_wise_operations_are_one_program() {
    check(
        "x y -> p = tanh x, q = y * p, z = [p q], r = v1 z | r",
        CellStyle::Planned,
        &[
            "element-wise [4]: r0 = port0+0; r1 = port1+0; r2 = tanh r0; r3 = r1 * r2; \
             s0+0 = r2; s0+4 = r3",
            "out+0 = (w0) s0+0 [4, 8]",
        ],
    );
}

#[test]
fn operands_in_the_memory_that_a_step_writes_are_copied_first() {
    check(
        "x -> h = tanh x, r = w1 h | h r",
        CellStyle::Planned,
        &[
            "element-wise [4]: r0 = port0+0; r1 = tanh r0; out+0 = r1",
            "s0+0 = out+0 [4]",
            "out+4 = (w0) s0+0 [4, 4]",
        ],
    );
}

#[test]
fn a_matrix_product_reads_pieces_and_adds_its_bias() {
    check(
        "A:x B:y -> Z = [A B], P = v1 Z + x | P",
        CellStyle::Planned,
        &["out+0 = port0+16 + w0+0 · (port0+0 ; port1+0) [4, 8, 4]"],
    );
}

#[test]
fn returned_arguments_are_copied() {
    check(
        "x:c -> h = tanh x | h c",
        CellStyle::Planned,
        &["element-wise [4]: r0 = port0+0; r1 = tanh r0; out+0 = r1", "out+4 = port0+4 [4]"],
    );
}
