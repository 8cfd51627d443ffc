//! Attention as one operation against a cell for each edge: 20 queries attend to 20 states of width
//! 256 in one head, for each of 32 sentences.

use std::error::Error;
use std::sync::Arc;

use edbatch::Engine;
use edbatch::models::{CallList, CallLists};
use edbatch_graph::{CellError, Kind, Network, Shape};
use edbatch_runtime::Parameters;
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

use super::{Pairs, Running, interleaved};

const SENTENCES: usize = 32;
const STATES: usize = 20;
const WIDTH: usize = 256;
const WORDS: usize = 1000;
const SCALE: f32 = 1.0 / 16.0;

/// Prints the time of a (query, value) pair in both ways.
pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let [fused, edges] = [false, true].map(lists);
    let (fused, edges) = (fused?, edges?);
    let engine = |lists: &[CallList]| -> Result<_, Box<dyn Error>> {
        let network = lists[0].network().clone();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let parameters = Parameters::random(&network, &mut rng);
        Ok(Running::new(Engine::new(CallLists::new(network), parameters)?))
    };
    let (mut by_edge, mut at_once) = (engine(&edges)?, engine(&fused)?);
    let pair = || Ok([by_edge.seconds(&edges)?, at_once.seconds(&fused)?]);
    let Pairs { share, seconds } = interleaved(20, pair)?;
    for (a, b) in by_edge.rows().zip(at_once.rows()) {
        if a.iter().zip(b).any(|(a, b)| (a - b).abs() > 1e-5) {
            return Err("the results differ".into());
        }
    }
    let pairs = (SENTENCES * STATES * STATES) as f64;
    let [by_edge, at_once] = seconds.map(|seconds| seconds * 1e9 / pairs);
    println!("attention: {at_once:.1} ns a pair, with a cell for each edge {by_edge:.1} ns");
    println!("attention: {share:.1} × as fast as with a cell for each edge");
    Ok(())
}

/// Declares the network and makes the calls of all sentences.
fn lists(edges: bool) -> Result<Vec<CallList>, Box<dyn Error>> {
    let mut network = Network::new();
    let [word, attend, edge] = cells(&mut network, edges)?;
    let (network, mut rng) = (Arc::new(network), Xoshiro256PlusPlus::seed_from_u64(2));
    let sentence = |_| {
        let mut list = CallList::new(network.clone());
        let mut words = || {
            let words =
                (0..STATES).map(|_| list.call(word, &[rng.random_range(0..WORDS as u32)], &[]));
            words.collect::<Result<Vec<_>, _>>()
        };
        let (queries, values) = (words()?, words()?);
        for query in queries {
            let read = match edges {
                true => {
                    let edge = |&value| list.call(edge, &[], &[query, value]);
                    values.iter().map(edge).collect::<Result<Vec<_>, _>>()?
                }
                false => [&[query], &values[..]].concat(),
            };
            let attended = list.call(attend, &[], &read)?;
            list.emit(attended)?;
        }
        Ok(list)
    };
    (0..SENTENCES).map(sentence).collect()
}

/// Declares the cells of a word, of attention, and of an edge.
fn cells(network: &mut Network, edges: bool) -> Result<[Kind; 3], CellError> {
    let vector = Shape::Vector(WIDTH as u32);
    let state = network.record("state", [("h", vector)])?;
    let scored = network.record("scored", [("score", Shape::Vector(1)), ("v", vector)])?;
    let word =
        network.cell("word", state, |cell| vec![cell.lookup("word", "words", &[WORDS, WIDTH])])?;
    let attend = network.cell("attend", state, |cell| match edges {
        true => vec![cell.many("edges", scored).softmax_sum("score", "v")],
        false => {
            let [query] = cell.one("query", state);
            vec![cell.many("values", state).attention(query, "h", "h", 1, SCALE)]
        }
    })?;
    let edge = network.cell("edge", scored, |cell| {
        let ([query], [value]) = (cell.one("query", state), cell.one("value", state));
        vec![query.scale(SCALE).dot(value), value]
    })?;
    Ok([word, attend, edge])
}
