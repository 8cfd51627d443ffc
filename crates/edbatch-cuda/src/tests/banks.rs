//! Counts how often multiply-adds of tiles wait for registers of the same bank, in machine code. It
//! needs NVRTC and NVIDIA's disassembler, but no device.
//!
//! Registers with even numbers are one bank, those with odd numbers the other. An instruction reads
//! one register of each bank in a cycle. A register that the instruction before it kept (`.reuse`)
//! takes no time.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use super::ptx::tree_lstm;
use crate::DevicePrecision;
use crate::cpp::Folder;

/// For each register that an instruction reads: its number, and whether it stays for the next one.
type Read = [Option<(u32, bool)>; 3];

/// Returns what a multiply-add reads; `None` for another instruction.
fn multiply_add(line: &str) -> Option<Read> {
    let (_, operands) = line.split_once(" FFMA ")?;
    let register = |operand: &str| {
        let (number, stays) = match operand.trim().split_once(".reuse") {
            Some((number, _)) => (number, true),
            None => (operand.trim(), false),
        };
        Some((number.trim_start_matches('-').strip_prefix('R')?.parse().ok()?, stays))
    };
    let mut all = operands.split(';').next()?.split(',').skip(1).map(register);
    Some([all.next()?, all.next()?, all.next()?])
}

/// Returns the multiply-adds of each basic block that has some, and their cycles.
fn basic_blocks(code: &str) -> Vec<(u32, u32)> {
    let (mut all, mut before) = (vec![(0, 0)], Read::default());
    for line in code.lines() {
        let Some(read) = multiply_add(line) else {
            before = Read::default();
            if line.ends_with(':') || line.contains(" BRA ") {
                all.push((0, 0));
            }
            continue;
        };
        let mut banks = [0; 2];
        for (own, before) in read.into_iter().zip(before) {
            if let Some((number, _)) = own
                && before != Some((number, true))
            {
                banks[number as usize % 2] += 1;
            }
        }
        let (count, cycles) = all.last_mut().expect("there is one");
        *count += 1;
        *cycles += banks[0].max(banks[1]).max(1);
        before = read;
    }
    all.retain(|&(count, _)| count > 0);
    all
}

#[test]
fn banks_of_registers_are_read_in_turn() {
    let Some(binary) = tree_lstm(DevicePrecision::Exact) else { return };
    let beside = env::var_os("EDBATCH_CUDA_LIBRARIES").unwrap_or_default();
    let folder = Folder::new().unwrap();
    let file = folder.path.join("kernel.cubin");
    fs::write(&file, &binary.code).unwrap();
    let program = Path::new(&beside).join("../bin/nvdisasm");
    let Ok(output) = Command::new(program).arg("-c").arg(&file).output() else {
        return edbatch_testing::skip("no nvdisasm beside the NVRTC of $EDBATCH_CUDA_LIBRARIES");
    };
    assert!(output.status.success(), "{output:?}");
    let code = String::from_utf8(output.stdout).unwrap();
    let mut loops = basic_blocks(&code);
    loops.retain(|&(adds, _)| adds >= 512);
    // P4R4 and S4R8, for each of two products, S8R8 for both, and large tiles of 64 rows: all over
    // 32 terms.
    assert_eq!(loops.len(), 6);
    loops.retain(|(adds, cycles)| 2 * cycles > 3 * adds);
    // The large tiles, whose sums and weights are in the order of columns.
    assert!(loops.len() <= 1, "multiply-adds and cycles: {loops:?}");
}

#[test]
fn registers_of_one_bank_are_read_one_after_the_other() {
    let code = "\
.L_x_1:
        /*0000*/                   FFMA R1, R2.reuse, R4, R6 ;
        /*0010*/                   FFMA R3, R2, R5, -R8 ;
        /*0020*/                   FFMA R3, R2, R5, RZ ;
        /*0030*/                   LDS.128 R4, [R7] ;
        /*0040*/              @!P0 BRA `(.L_x_1) ;
        /*0050*/                   FFMA R9, R9, R11, 1 ;";
    assert_eq!(basic_blocks(code), [(3, 5), (1, 2)]);
}
