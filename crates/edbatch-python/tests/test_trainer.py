"""Training: steps, gradients, optimizers, states and errors."""

import numpy as np
import pytest

import edbatch as ed


def model(dropout=0.0):
    """Scores of three classes for each word of a list, and for a value of the caller."""
    net = ed.Network()
    state, scores = net.record("state", h=4), net.record("scores", y=3)
    zero = net.initial(state, h="zero")

    @net.cell(state)
    def step(c):
        x = c.lookup("word", "embed", (9, 4))
        product = c.parameter("u", (4, 4)) @ c.one("previous", state).h
        return (x + product).tanh().dropout(dropout) if dropout else (x + product).tanh()

    @net.cell(scores)
    def score(c):
        return c.parameter("out", (3, 4)) @ c.one("state", state).h + c.parameter("bias", 3)

    def build(b, words):
        last = zero
        for word in words:
            last = b.call(step, word, last)
            b.emit(b.call(score, last))

    return net, build, state, score, step, zero


INPUTS = [[1, 2, 3], [4], [2, 2]]
TARGETS = [[0, -1, 2], [1], np.array([2, 0])]


def trainer(**options):
    net, build, *_ = model()
    return ed.Trainer(net, ed.Weights.random(net, seed=1), build, **options)


def cross_entropy(outputs, targets):
    loss = 0.0
    for rows, classes in zip(outputs, targets, strict=True):
        for row, of_row in zip(np.asarray(rows, np.float64), classes, strict=True):
            if of_row >= 0:
                loss += np.log(np.exp(row).sum()) - row[of_row]
    return loss


@pytest.mark.smoke
def test_losses_fall_and_are_cross_entropies():
    train = trainer(optimizer=ed.adam(0.05))
    before = cross_entropy(train.forward(INPUTS), TARGETS) / 3
    report = train.train(INPUTS, TARGETS)
    assert report.terms == 5 and report.gradient_norm > 0
    assert report.loss == pytest.approx(before, rel=1e-6)
    assert set(report.seconds) == {"decide", "forward", "back", "sums", "update"}
    losses = [train.train(INPUTS, TARGETS).loss for _ in range(50)]
    assert losses[-1] < 0.2 * report.loss
    assert train.updates == 51


@pytest.mark.smoke
def test_an_engine_of_the_parameters_computes_what_forward_returns():
    net, build, *_ = model()
    train = ed.Trainer(net, ed.Weights.random(net, seed=1), build)
    train.train(INPUTS, TARGETS)
    outputs = ed.Engine(net, train.parameters(), build).run(INPUTS)
    assert all(np.array_equal(*pair) for pair in zip(outputs, train.forward(INPUTS), strict=True))


def test_call_lists_are_inputs_too():
    net, build, *_ = model()
    lists = []
    for words in INPUTS:
        lists.append(ed.CallList(net))
        build(lists[-1], words)
    weights = ed.Weights.random(net, seed=1)
    one, other = ed.Trainer(net, weights, build), ed.Trainer(net, weights)
    assert one.train(INPUTS, TARGETS).loss == other.train(lists, TARGETS).loss
    assert one.parameters() == other.parameters()


def test_gradients_are_those_of_small_changes():
    net, build, *_ = model()
    weights = ed.Weights.random(net, seed=1)
    train = ed.Trainer(net, weights, build)
    loss, terms = train.accumulate(INPUTS, TARGETS, 0.5)
    assert terms == 5
    gradients = train.gradients()
    assert {name: array.shape for name, array in gradients.items()} == dict(net.parameters)
    rng = np.random.default_rng(1)
    direction = {name: rng.normal(size=shape) for name, shape in net.parameters.items()}

    def loss_at(step):
        moved = {name: weights[name] + step * direction[name] for name in weights}
        engine = ed.Engine(net, ed.Weights(moved), build)
        return 0.5 * cross_entropy(engine.run(INPUTS), TARGETS)

    assert loss == pytest.approx(loss_at(0.0), rel=1e-6)
    slope = (loss_at(1e-3) - loss_at(-1e-3)) / 2e-3
    expected = sum(np.vdot(gradients[name], direction[name]) for name in weights)
    assert slope == pytest.approx(expected, rel=1e-3)
    train.clear_gradients()
    assert all(not gradient.any() for gradient in train.gradients().values())


def test_a_loss_of_your_own_has_gradients_of_given_values():
    net, _, state, score, *_ = model()

    def build(b, h):
        b.emit(b.call(score, b.give(state, h)))
        b.emit(b.give(state, 2 * h))

    train = ed.Trainer(net, ed.Weights.random(net), build, given_gradients=True)
    h = np.arange(4, dtype=np.float32)
    scores, state_row = train.forward([h])[0]
    assert (scores.shape, state_row.shape) == ((3,), (4,))
    of_scores = np.array([1, 2, 3], np.float32)
    (given,) = train.backward([[of_scores, np.ones(4)]])
    weights = train.parameters()
    np.testing.assert_allclose(given, [of_scores @ weights["out"], np.ones(4)], rtol=1e-6)
    np.testing.assert_allclose(train.gradients()["out"], np.outer(of_scores, h), rtol=1e-6)
    np.testing.assert_array_equal(train.gradients()["bias"], of_scores)
    with pytest.raises(RuntimeError, match="call `forward` before each `backward`"):
        train.backward([[of_scores, np.ones(4)]])


def test_backward_without_given_gradients_returns_nothing():
    train = trainer()
    outputs = train.forward(INPUTS)
    assert train.backward(outputs) == []
    with pytest.raises(ValueError, match="expected gradients of all that"):
        train.forward(INPUTS)
        train.backward(outputs[:2])
    with pytest.raises(ValueError, match=r"expected for each input an array \[rows, width\]"):
        train.backward([np.zeros((1, 2, 3))])


@pytest.mark.parametrize("threads", [1, 2])
def test_a_state_continues_bit_by_bit(threads, tmp_path):
    options = {"optimizer": ed.adam(0.01), "rate": "exponential:0.5", "threads": threads}
    one, other = trainer(**options), trainer(**options)
    for _ in range(3):
        one.train(INPUTS, TARGETS)
    one.end_epoch()
    assert one.learning_rate == 0.005
    other.set_state(one.state())
    assert (other.updates, other.learning_rate) == (3, 0.005)
    for train in (one, other):
        train.train(INPUTS, TARGETS)
    assert one.state() == other.state()
    one.save(tmp_path / "weights.safetensors")
    assert ed.Weights.load(tmp_path / "weights.safetensors") == other.parameters()
    with pytest.raises(ValueError, match="the state is not of this trainer"):
        trainer(optimizer=ed.sgd(0.1)).set_state(one.state())


def test_steps_of_sgd_are_gradients_times_the_rate():
    train = trainer(optimizer=ed.sgd(0.5), groups={"out": ed.Group(factor=0.1)})
    before = train.parameters()
    train.accumulate(INPUTS, TARGETS)
    gradients, norm = train.gradients(), train.update()
    assert norm == pytest.approx(sum((g.astype(float) ** 2).sum() for g in gradients.values()) ** 0.5)
    after = train.parameters()
    for name, gradient in gradients.items():
        step = 0.05 if name == "out" else 0.5
        np.testing.assert_allclose(after[name], before[name] - step * gradient, atol=1e-7)


def test_groups_freeze_and_clips_limit():
    train = trainer(groups={"embed": ed.Group(frozen=True)}, clip_norm=1e-3, optimizer=ed.sgd(1.0))
    before = train.parameters()
    report = train.train(INPUTS, TARGETS)
    after = train.parameters()
    np.testing.assert_array_equal(before["embed"], after["embed"])
    moved = sum(((after[name] - before[name]).astype(float) ** 2).sum() for name in after) ** 0.5
    assert moved == pytest.approx(1e-3, rel=1e-2) and report.gradient_norm > 1e-2


def test_set_parameters_replaces_the_weights():
    train = trainer()
    net = model()[0]
    train.set_parameters(ed.Weights.random(net, seed=2))
    assert train.parameters() == ed.Weights.random(net, seed=2)
    with pytest.raises(ed.WeightsError, match="tensor zero is missing"):
        train.set_parameters(ed.Weights({"u": np.zeros((4, 4))}))


def test_dropout_depends_on_the_number_of_updates_and_can_be_off():
    net, build, *_ = model(dropout=0.5)
    assert net.has_dropout and not model()[0].has_dropout
    weights = ed.Weights.random(net, seed=1)
    train = ed.Trainer(net, weights, build)
    first = train.forward(INPUTS)[0]
    train.set_updates(1)
    assert not np.array_equal(first, train.forward(INPUTS)[0])
    train.set_updates(0)
    np.testing.assert_array_equal(first, train.forward(INPUTS)[0])
    plain = ed.Trainer(net, weights, build, dropout=False).forward(INPUTS)[0]
    np.testing.assert_array_equal(plain, ed.Engine(net, weights, build).run(INPUTS)[0])
    assert not np.array_equal(first, plain)


@pytest.mark.parametrize(
    ("optimizer", "text"),
    [
        (ed.sgd(0.1, momentum=0.9, nesterov=True), "Sgd { momentum: 0.9"),
        (ed.ada_grad(), "AdaGrad"),
        (ed.rms_prop(centered=True), "centered: true"),
        (ed.adam(betas=(0.8, 0.9)), "betas: [0.8, 0.9]"),
        (ed.adam_w(), "decay 0.01"),
    ],
)
def test_optimizers_train(optimizer, text):
    assert text in repr(optimizer) and optimizer == optimizer
    train = trainer(optimizer=optimizer)
    losses = [train.train(INPUTS, TARGETS).loss for _ in range(20)]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": ed.sgd(-1.0)}, "rate: expected a finite number of at least 0, got -1"),
        ({"rate": "linear"}, "rate: expected constant, step:EVERY:FACTOR"),
        ({"clip_norm": 1.0, "clip_value": 1.0}, "expected clip_norm or clip_value, got both"),
        ({"groups": {"w": ed.Group()}}, "no parameter of the model has a name that begins with `w`"),
        ({"policy": "best"}, "policy best: No such file"),
    ],
)
def test_invalid_options_are_errors(options, message):
    with pytest.raises((ValueError, TypeError)) as raised:
        trainer(**options)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ([[0, 0, 0], [1]], "expected targets for each of 3 inputs, got 2 lists"),
        ([[0, 0], [1], [2, 0]], "input 0: expected a target or none for each of 3 emitted rows"),
        ([[0, 0, 0], [3], [2, 0]], "input 1, row 0: expected a target below 3, got 3"),
        ([[0, 0, 0], [-2], [2, 0]], "targets of input 1: expected a class, from 0, or -1 for none"),
        ([[0, 0, 0.5], [1], [2, 0]], "targets of input 0: expected a list of ints"),
    ],
)
def test_targets_that_do_not_fit_are_errors(targets, message):
    train = trainer()
    with pytest.raises((ValueError, TypeError)) as raised:
        train.train(INPUTS, targets)
    assert str(raised.value).startswith(message)
    assert train.updates == 0


def test_the_exception_of_an_input_is_raised_with_a_note():
    train = trainer()
    with pytest.raises(TypeError) as raised:
        train.train([[1], ["two"]], [[0], [0]])
    assert raised.value.__notes__ == ["input 1 of 2"]
    assert raised.traceback[-1].name == "build"
    with pytest.raises(ed.CallError, match="row 9 does not exist") as raised:
        train.forward([[9]])
    assert train.train(INPUTS, TARGETS).terms == 5


def test_inputs_that_await_do_not_train():
    net, _, _, score, step, zero = model()

    async def build(b, word):
        scores = await b.fetch(b.call(score, b.call(step, word, zero)))
        assert scores.shape == (3,)

    train = ed.Trainer(net, ed.Weights.random(net), build)
    with pytest.raises(TypeError, match="input 0 awaits a computed value, which has no gradient"):
        train.forward([1])


def test_a_trainer_is_of_one_thread_at_a_time():
    net, build, *_ = model()

    def again(b, words):
        train.forward([words])

    train = ed.Trainer(net, ed.Weights.random(net), again)
    with pytest.raises(RuntimeError, match="is running"):
        train.forward(INPUTS)


def test_devices_train_with_the_bits_of_the_cpu():
    net, build, *_ = model(dropout=0.25)
    options = {"optimizer": ed.adam_w(0.05), "clip_norm": 0.5, "seed": 3}

    def of(device, threads=1):
        weights = ed.Weights.random(net, seed=1)
        return ed.Trainer(net, weights, build, device=device, threads=threads, **options)

    cpu = of("cpu")
    try:
        device = of("cuda-emulated", threads=2)
    except ed.DeviceError as error:
        pytest.skip(f"no emulated device: {error}")
    for train in (cpu, device):
        train.accumulate(INPUTS, TARGETS, 0.5)
    gradients = device.gradients()
    for name, expected in cpu.gradients().items():
        assert gradients[name].tobytes() == expected.tobytes(), name
    assert cpu.update() == device.update()
    for _ in range(3):
        reports = [train.train(INPUTS, TARGETS) for train in (cpu, device)]
        assert reports[0].loss == reports[1].loss
    assert cpu.state() == device.state()
    back = of("cpu")
    back.set_state(device.state())
    for train in (cpu, device, back):
        train.train(INPUTS, TARGETS)
    assert cpu.state() == device.state() == back.state()


def test_a_trainer_has_one_device():
    with pytest.raises(ValueError, match="device: expected one device for training, got"):
        trainer(device="cuda:0,1")
    with pytest.raises(ValueError, match="device: expected cpu, cuda, cuda:1 or cuda-emulated"):
        trainer(device="gpu")
    with pytest.raises(ed.DeviceError):
        trainer(device="cuda:99")
