//! Tests of trees against all permutations, slow models and known answers.

#[path = "../../dev/families.rs"]
#[allow(dead_code)]
mod families;
#[path = "../../dev/model.rs"]
mod model;
#[path = "../../dev/reference.rs"]
mod reference;
#[path = "../../dev/trace.rs"]
mod trace;

#[cfg(not(miri))]
mod c1p;
mod circular;
mod corpus;
mod deep;
mod golden;
mod interface;
mod labeled;
mod small;
mod text;
mod traces;
