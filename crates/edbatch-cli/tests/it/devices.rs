//! `infer`, `train`, `evaluate` and `gradients` on an emulated device.

use edbatch_datasets::fixtures::text;
use edbatch_runtime::kernels::Level;
use edbatch_testing::skip;

use crate::support::Scratch;
use crate::train::{trained, with};

#[test]
fn an_emulated_device_gives_the_bytes_of_the_cpu() {
    if Level::detect() == Level::Portable {
        return skip("this level of the CPU rounds products");
    }
    let scratch = Scratch::new("devices");
    scratch.init("lstm_nmt");
    scratch.ok(&["learn", "@model", "--output", "@policy", "--method", "q", "--episodes", "5"]);
    let expected = scratch.ok(&["infer", "@model"]);
    let device = ["infer", "@model", "--backend", "cuda-emulated"];
    let message = String::from_utf8(scratch.run(&device).stderr).unwrap();
    if message.contains("there is no C++ compiler") {
        return skip(&message);
    }
    for policy in ["auto", "@policy"] {
        let got = scratch.ok(&[&device[..], &["--policy", policy]].concat());
        assert!(got == expected, "{policy}: other bytes");
    }
    for precision in ["tf32", "bf16"] {
        let got = scratch.ok(&[&device[..], &["--precision", precision]].concat());
        let lines = |text: &str| text.lines().count();
        assert!(got != expected && lines(&got) == lines(&expected), "{precision}: not rounded");
    }
    // A device runs steps of two calls in chains, of which those after an end are dropped.
    let statistics = |words: &[&str]| {
        scratch.ok(&[words, &["--output", "@out", "--stats", "@stats"]].concat());
        let stats = scratch.json("stats");
        ["graphs", "nodes", "dropped_steps"].map(|count| stats[count].as_u64().unwrap())
    };
    let (cpu, device) = (statistics(&["infer", "@model"]), statistics(&device));
    assert!(cpu[2] == 0 && device[0] < cpu[0], "{cpu:?} {device:?}");
    assert_eq!(device[1] - cpu[1], 2 * device[2]);
}

/// Twenty steps of each epoch, with dropout and clipping: weights and checkpoints have the bytes of
/// the CPU, also if a run goes on with another backend.
#[test]
fn training_on_a_device_gives_the_bytes_of_the_cpu() {
    if Level::detect() == Level::Portable {
        return skip("this level of the CPU rounds products");
    }
    let scratch = Scratch::new("train-device");
    scratch.write("trees.txt", text::BINARY_TREES);
    scratch.write("many.txt", text::BINARY_TREES.repeat(10));
    let init = "init tree_lstm @model --hidden 8 --input @trees.txt --dropout 0.25";
    scratch.ok(&init.split(' ').collect::<Vec<_>>());
    let words = "train @model --input @many.txt --valid @trees.txt --output @trained --batch 4 \
                 --rate 0.01 --clip 0.5 --word-dropout 0.1 --warmup 5 --group embed=0.5";
    let words: Vec<&str> = words.split_whitespace().collect();
    let device = ["--backend", "cuda-emulated"];
    let run = |more: &[&str]| {
        let output = scratch.run(&with(&words, more));
        let message = String::from_utf8(output.stderr).unwrap();
        if message.contains("there is no C++ compiler") {
            skip(&message);
            return None;
        }
        assert!(output.status.success(), "{message}");
        Some((trained(&scratch), String::from_utf8(output.stdout).unwrap()))
    };
    let without_times = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split(", rate").next().unwrap_or(line).into()).collect()
    };
    let again = || std::fs::remove_dir_all(scratch.path("trained")).unwrap();
    let (first, _) = run(&["--epochs", "1", "--threads", "1"]).expect("no compiler is needed");
    let (expected, text) = run(&["--epochs", "2", "--resume"]).expect("no compiler is needed");
    again();
    let Some((got, _)) = run(&with(&["--epochs", "1", "--threads", "2"], &device)) else { return };
    assert!(got == first, "twenty steps");
    let (got, _) = run(&["--epochs", "2", "--resume"]).expect("no compiler is needed");
    assert!(got == expected, "from the device to the CPU");
    again();
    run(&["--epochs", "1"]).expect("no compiler is needed");
    let (got, of_device) =
        run(&with(&["--epochs", "2", "--resume"], &device)).expect("it is there");
    assert!(got == expected, "from the CPU to the device");
    assert_eq!(without_times(&of_device), without_times(&text));

    let evaluate = "evaluate @trained --input @trees.txt --metric loss --metric accuracy";
    let evaluate: Vec<&str> = evaluate.split(' ').collect();
    assert_eq!(scratch.ok(&with(&evaluate, &device)), scratch.ok(&evaluate));
    let gradients = "gradients @trained --input @trees.txt --batch 5 --output @gradients";
    let gradients: Vec<&str> = gradients.split(' ').collect();
    let [expected, got] = [&[][..], &device].map(|more| {
        scratch.ok(&with(&gradients, more));
        scratch.bytes("gradients")
    });
    assert!(got == expected, "gradients");
}

/// The kernels of evaluation, of both passes, and of rows, sums, totals and updates.
#[test]
#[cfg(feature = "cuda")]
fn kernels_of_training_are_compiled_ahead() {
    let scratch = Scratch::new("compile-train");
    scratch.init("tree_lstm");
    let words = ["compile", "@model", "--arch", "sm_90", "--train"];
    let run = |more: &[&str]| {
        let mut command = scratch.command(&with(&words, more));
        command.env("XDG_CACHE_HOME", scratch.path("cache")).output().unwrap()
    };
    let output = run(&[]);
    let message = String::from_utf8(output.stderr).unwrap();
    if message.contains("no NVRTC found") {
        return skip(&message);
    }
    let text = String::from_utf8(output.stdout).unwrap();
    let files: Vec<&str> =
        text.lines().filter(|line| std::path::Path::new(line).exists()).collect();
    assert!(files.len() == 7 && text.lines().count() == 14, "{text}");
    let all = |text: String| text.lines().step_by(2).map(String::from).collect::<Vec<_>>();
    let frozen = all(String::from_utf8(run(&["--frozen", "embed"]).stdout).unwrap());
    let same: Vec<bool> = frozen.iter().zip(&files).map(|(a, b)| a == b).collect();
    assert!(same[0] && !same[2] && same[3..] == [true; 4], "{same:?}");
    let error = scratch.error_of_usage(&with(&words, &["--frozen", "none"]));
    assert!(error.contains("--frozen: no parameter of the model has a name"), "{error}");
    let error = scratch.error_of_usage(&with(&words, &["--precision", "tf32"]));
    assert!(error.contains("--train: training is in f32 alone"), "{error}");
}

#[test]
fn wrong_options_of_devices_are_refused_before_anything_is_read() {
    let scratch = Scratch::new("wrong-devices");
    let train = "train @model --input @in --valid @in";
    let evaluate = "evaluate @model --input @in --metric loss";
    let gradients = "gradients @model --input @in --output @out";
    let expect = |command: &str, more: &str, expected: &str| {
        let words: Vec<&str> = command.split(' ').chain(more.split(' ')).collect();
        let error = scratch.error_of_usage(&words);
        assert!(error.contains(expected) && error.lines().count() == 1, "{error}");
    };
    for command in [train, evaluate, gradients] {
        for backend in ["cpu", "cuda-emulated"] {
            let more = format!("--backend {backend} --device 1");
            expect(command, &more, "--device is for backend cuda");
        }
        if !cfg!(feature = "cuda") {
            let words: Vec<&str> = command.split(' ').chain(["--backend", "cuda"]).collect();
            let error = scratch.error(&words);
            assert!(error.contains("build with `--features cuda`, or choose cpu"), "{error}");
        }
    }
    for precision in ["bf16", "tf32"] {
        let more = format!("--precision {precision}");
        expect(train, &more, "--precision: training is in f32 alone");
    }
    expect(evaluate, "--precision tf32", "--precision tf32 is for backend cuda");
}
