//! Chains that do not end well.

use super::*;

/// The next chain, on the same teams, runs as if nothing had happened.
#[test]
fn a_block_that_never_ends_stops_all_later_launches() {
    let Some(subject) = Subject::emulated(3 * SLICES[1]) else { return };
    let device = &*subject.device;
    // A part of two runs on the second team, and one of four in a second launch.
    for (parts, launches) in [(2, 4), (4, 6)] {
        for (absent, block) in (0..launches).flat_map(|absent| [(absent, 0), (absent, 2)]) {
            let what = format!("block {block} of launch {absent} of {parts} parts");
            let chain = subject.chain(parts, 7);
            let mut held = subject.hold(parts);
            device.set_absent_in(u64::from(absent), block);
            let last = subject.enqueue(&mut held, &chain, 7).unwrap();
            device.set_absent(None);
            let told = held.wait(|| device.word(&chain.told, 0) == last);
            // A launch that does not run tells the host; the last one of all does not end.
            assert_eq!(told.is_ok(), absent + 1 < launches, "{what}");
            drop(held);
            assert_eq!(subject.stage(&chain)[0], 7 + absent, "{what}");
            let all = [&chain.arenas, &chain.doubled[0], &chain.doubled[1]];
            let all = all.map(|memory| floats(device, memory, ARENA * parts));
            for (grid, doubled) in (launches - 2..).zip(&all[1..]) {
                match absent.cmp(&grid) {
                    Ordering::Less => assert_eq!(written(doubled), 0, "{what}"),
                    Ordering::Equal => assert!(written(doubled) < ARENA * parts, "{what}"),
                    Ordering::Greater => assert_eq!(written(doubled), ARENA * parts, "{what}"),
                }
            }
            // The second kernel has not begun.
            if absent < (launches - 2) / 2 {
                let own = all[0].chunks(ARENA).map(|arena| &arena[BETWEEN + 4..]);
                assert!(own.into_iter().all(|rows| written(rows) == 0), "{what}");
            }
            let next = subject.chain(parts, 20);
            let last = subject.run(&next, 20);
            subject.check(&next, last);
        }
    }
}

/// A thread that times out while it waits for a row goes on with what it has, so its team ends.
#[test]
fn a_timeout_in_one_team_stops_all_later_launches() {
    let Some(subject) = Subject::emulated(3 * SLICES[1]) else { return };
    subject.check_timeouts();
}

#[test]
fn a_loss_that_is_not_finite_stops_the_launches_after_it() {
    let Some(subject) = Subject::emulated(3 * SLICES[1]) else { return };
    let device = &*subject.device;
    // One of three parts on three teams, and one of the first three of five.
    for (parts, launches) in [(3, 1), (5, 2)] {
        let mut chain = subject.chain(parts, 7);
        chain.parts[1][1].arguments.masters = device.address(&chain.doubled[0]);
        let mut held = subject.hold(parts);
        let last = subject.enqueue(&mut held, &chain, 7).unwrap();
        held.wait(|| device.word(&chain.told, 0) == last).unwrap();
        drop(held);
        // The first launch of the second kernel runs to its end, but nothing after it.
        assert_eq!(subject.stage(&chain), [7 + launches, 0, 5], "{parts} parts");
        let got = floats(device, &chain.arenas, ARENA * parts);
        let all = expected();
        for (part, arena) in got.chunks(ARENA).enumerate() {
            let end = if part < 3 { ARENA } else { BETWEEN + SLICES[1] as usize };
            assert_eq!(arena[..end], all[..end], "part {part} of {parts}");
            assert_eq!(written(arena), end, "part {part} of {parts}");
        }
        for doubled in &chain.doubled {
            assert_eq!(written(&floats(device, doubled, ARENA * parts)), 0);
        }
        // It is known until the host forgets it.
        let again = subject.run(&chain, 7 + launches);
        assert_eq!((again, subject.stage(&chain)), (last + launches, [7 + launches, 0, 5]));
        let next = subject.chain(parts, 0);
        let last = subject.run(&next, 0);
        subject.check(&next, last);
    }
}

#[test]
fn a_launch_that_fails_gives_all_teams_back() {
    let Some(subject) = Subject::emulated(3 * SLICES[1]) else { return };
    let mut held = subject.hold(3);
    let chain = subject.chain(3, 0);
    let stage = subject.device.address(&chain.stage);
    let kernel = subject.kernel(0);
    assert_eq!(held.enqueue(&kernel, &chain.parts[0], Some((stage, 1))), Ok(1));
    let shared_bytes = kernel.shared_bytes + 4;
    let error =
        held.enqueue(&TeamKernel { shared_bytes, ..kernel }, &chain.parts[0], Some((stage, 2)));
    assert!(error.unwrap_err().to_string().starts_with("bytes of shared memory"));
    drop(held);
    let next = subject.chain(3, 0);
    let last = subject.run(&next, 0);
    subject.check(&next, last);
}

/// A launch for a stage at `done` 4 runs if it has the next number, and a launch without a stage
/// always does.
#[test]
fn a_launch_that_does_not_run_touches_nothing() {
    let Some(subject) = Subject::emulated(SLICES[0]) else { return };
    let device = &*subject.device;
    for (has_stage, launch, runs) in
        [(true, 5, true), (true, 4, false), (true, 6, false), (true, 0, false), (false, 0, true)]
    {
        let chain = subject.chain(1, 4);
        // The launch sets the barriers to zero when it ends.
        let barriers = words(device, &[0; TEAM_BARRIER_WORDS], MemorySide::Device);
        let ticket = words(device, &[9; TICKET_WORDS], MemorySide::Host);
        let mut parts = [TeamPart::default(); MAX_PARTS];
        parts[0] = chain.parts[0][0];
        (parts[0].ticket, parts[0].number) = (device.address(&ticket), 3);
        parts[0].arguments.barriers = device.address(&barriers);
        let arguments = TeamArguments {
            places: device.address(&subject.places[0]),
            stage: if has_stage { device.address(&chain.stage) } else { 0 },
            launch,
            blocks: SLICES[0],
            slices: SLICES[0],
            resident: 0,
            room: ROW_BYTES as u32 / 4,
            barriers: 0,
            parts,
        };
        let shared = device.properties().shared_bytes;
        // If block 0 is absent, the others arrive at a barrier.
        for absent in [if runs { None } else { Some(0) }, None] {
            device.set_absent(absent);
            device.launch_teams(&subject.programs.teams, 0, 1, shared, &arguments).unwrap();
        }
        let mut count = [0; TEAM_BARRIER_WORDS];
        device.read(&barriers, 0, &mut count).unwrap();
        assert_eq!(count, [0; TEAM_BARRIER_WORDS], "launch {launch}");
        assert_eq!(device.word(&ticket, 0), if runs { 3 } else { 9 }, "launch {launch}");
        assert_eq!(device.host(&ticket)[2..] != [9; 10], runs, "launch {launch}");
        let arena = floats(device, &chain.arenas, ARENA);
        let rows = &arena[SLICES[0] as usize..BETWEEN];
        assert_eq!(written(rows), if runs { rows.len() } else { 0 }, "launch {launch}");
        let done = if runs && has_stage { 5 } else { 4 };
        assert_eq!(subject.stage(&chain), [done, 0, FINE], "launch {launch}");
    }
}

#[test]
fn a_chain_runs_on_a_gpu() {
    let device = match Nvidia::new(0, Store::of_user()) {
        Ok(device) => device,
        Err(error) => return edbatch_testing::skip(&format!("no launch on a device: {error}")),
    };
    let programs = Programs::new(&device).unwrap();
    let subject = Subject::new(device, programs);
    let mut done = u32::MAX - 9;
    for parts in [1, 3, 40, 2] {
        let chain = subject.chain(parts, done);
        done = subject.run(&chain, done);
        subject.check(&chain, done);
    }
    subject.check_timeouts();
}
