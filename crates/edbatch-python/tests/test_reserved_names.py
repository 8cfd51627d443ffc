"""A name that safetensors files reserve is refused where it is given."""

import pickle

import edbatch as ed
import numpy as np
import pytest

NAME = "__metadata__"


def test_the_reserved_name_of_safetensors_is_refused_where_it_is_given():
    with pytest.raises(ed.WeightsError, match=NAME):
        ed.Weights({NAME: np.ones(2)})
    net = ed.Network()
    record = net.record("r", x=2)
    with pytest.raises(ed.CellError, match=NAME):
        net.initial(record, x=NAME)
    for declare in (lambda c: c.parameter(NAME, 2), lambda c: c.lookup("word", NAME, (3, 2))):
        with pytest.raises(ed.CellError, match=NAME):
            net.cell(record, name="c")(declare)
    assert net.parameters == {}
    state = {"w": np.ones(2)}
    net.cell(record, name="c")(lambda c: c.parameter("w", 2))
    with pytest.raises(ed.WeightsError, match=NAME):
        ed.Weights.from_state_dict(net, state, rename={"w": NAME})
    text = net.to_json().replace('"w"', f'"{NAME}"')
    with pytest.raises(ed.FileError, match=NAME):
        ed.Network.from_json(text)
    weights = ed.Weights(state)
    assert pickle.loads(pickle.dumps(weights)) == weights
