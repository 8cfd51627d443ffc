"""ATen operations of each element."""

import math
from collections.abc import Callable
from typing import Any

from .values import Scope, Unsupported, Value

Handler = Callable[..., Any]


def _unary(op: str) -> Handler:
    return lambda t, x: t.unary(op, x)


def _binary(op: str) -> Handler:
    return lambda t, a, b: t.binary(op, a, b)


def _add(t: Scope, a: Any, b: Any, *, alpha: float = 1) -> Value:
    return t.binary("add", a, _scaled(t, b, alpha))


def _sub(t: Scope, a: Any, b: Any, *, alpha: float = 1) -> Value:
    return t.binary("sub", a, _scaled(t, b, alpha))


def _rsub(t: Scope, a: Any, b: Any, alpha: float = 1) -> Value:
    return t.binary("sub", b, _scaled(t, a, alpha))


def _scaled(t: Scope, x: Any, factor: float) -> Any:
    return x if factor == 1 else t.binary("mul", x, factor)


def _div(t: Scope, a: Any, b: Any, *, rounding_mode: str | None = None) -> Value:
    if rounding_mode is not None:
        raise Unsupported("a rounded quotient: cells have no integers")
    return t.binary("div", a, b)


def _pow(t: Scope, x: Value, exponent: Any) -> Value:
    if exponent not in _POWERS:
        raise Unsupported(
            f"the power {exponent}: expected one of {', '.join(map(str, _POWERS))}, or write it "
            "with exp and log"
        )
    return _POWERS[exponent](t, x)


def _reciprocal(t: Scope, x: Value) -> Value:
    return t.binary("div", 1, x)


_POWERS: dict[float, Callable[[Scope, Value], Value]] = {
    1: lambda t, x: x,
    2: lambda t, x: t.binary("mul", x, x),
    3: lambda t, x: t.binary("mul", t.binary("mul", x, x), x),
    0.5: lambda t, x: t.unary("sqrt", x),
    -0.5: lambda t, x: _reciprocal(t, t.unary("sqrt", x)),
    -1: _reciprocal,
}


def _clamp(t: Scope, x: Value, low: Any = None, high: Any = None) -> Value:
    if low is not None:
        x = t.binary("maximum", x, low)
    return x if high is None else t.binary("minimum", x, high)


def _gelu(t: Scope, x: Value, *, approximate: str = "none") -> Value:
    if approximate == "none":
        return t.unary("gelu", x)
    cubic = t.binary("add", x, t.binary("mul", _POWERS[3](t, x), 0.044715))
    bent = t.unary("tanh", t.binary("mul", cubic, math.sqrt(2 / math.pi)))
    return t.binary("mul", t.binary("mul", x, 0.5), t.binary("add", bent, 1))


def _leaky_relu(t: Scope, x: Value, slope: float = 0.01) -> Value:
    return t.unary("leaky_relu", x, slope) if 0 <= slope <= 1 else _prelu(t, x, slope)


def _prelu(t: Scope, x: Value, slope: Any) -> Value:
    if isinstance(slope, Value) and len(x.shape) > 1 and len(slope.x.shape) == 1:
        channels = slope.x.shape[0]
        slope = t.reshape(slope, (1, channels, *[1] * (len(x.shape) - 2)))
    return t.binary("add", t.unary("relu", x), t.binary("mul", slope, t.binary("minimum", x, 0)))


def _elu(t: Scope, x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    below = t.binary("minimum", t.binary("mul", x, input_scale), 0)
    below = t.binary("sub", t.unary("exp", below), 1)
    y = t.binary("add", t.unary("relu", x), t.binary("mul", below, alpha))
    return t.binary("mul", y, scale)


def _selu(t: Scope, x: Value) -> Value:
    return _elu(t, x, 1.6732632423543772, 1.0507009873554805)


def _softplus(t: Scope, x: Value, beta: float = 1, threshold: float = 20) -> Value:
    """relu x + log(1 + exp(-|x|)). Beyond PyTorch's threshold, the second term is below 3e-9."""
    size = t.unary("abs", t.binary("mul", x, beta))
    rest = t.unary("log", t.binary("add", t.unary("exp", t.binary("mul", size, -1)), 1))
    return t.binary("add", t.unary("relu", x), t.binary("mul", rest, 1 / beta))


def _log_sigmoid(t: Scope, x: Value) -> Value:
    return t.binary("mul", _softplus(t, t.binary("mul", x, -1)), -1)


def _mish(t: Scope, x: Value) -> Value:
    return t.binary("mul", x, t.unary("tanh", _softplus(t, x)))


def _hard_sigmoid(t: Scope, x: Value) -> Value:
    return t.binary("div", _clamp(t, t.binary("add", x, 3), 0, 6), 6)


def _hard_swish(t: Scope, x: Value) -> Value:
    return t.binary("mul", x, _hard_sigmoid(t, x))


def _glu(t: Scope, x: Value, dim: int = -1) -> Value:
    dim %= len(x.shape)
    half = x.shape[dim] // 2
    gate = t.unary("sigmoid", t.part(x, dim, half, 2 * half))
    return t.binary("mul", t.part(x, dim, 0, half), gate)


def _dropout(t: Scope, x: Value, p: float, train: bool) -> Value:
    if not train or p == 0:
        return x
    if x.kind != "tensor":
        raise Unsupported(
            "dropout of the weights of a softmax over the children: set the attention's "
            "dropout to 0, or trace the module after `.eval()`"
        )
    if p == 1:
        return t.filled(0, x.shape)
    t.dropouts += 1
    vector = t.e.reshape(x.x, (math.prod(x.x.shape),))
    return t.map(x, t.e.reshape(t.e.unary("dropout", vector, p, t.dropouts), x.x.shape))


ELEMENTWISE: dict[str, Handler] = {
    **{
        op: _unary(op)
        for op in ("sigmoid", "tanh", "relu", "exp", "log", "sqrt", "erf", "abs", "silu")
    },
    **{op: _binary(op) for op in ("mul", "maximum", "minimum")},
    "max.other": _binary("maximum"),
    "min.other": _binary("minimum"),
    "add": _add,
    "sub": _sub,
    "rsub": _rsub,
    "div": _div,
    "neg": lambda t, x: t.binary("mul", x, -1),
    "reciprocal": _reciprocal,
    "square": _POWERS[2],
    "pow.Tensor_Scalar": _pow,
    "rsqrt": _POWERS[-0.5],
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": lambda t, x, high: _clamp(t, x, None, high),
    "gelu": _gelu,
    "leaky_relu": _leaky_relu,
    "prelu": _prelu,
    "elu": _elu,
    "celu": lambda t, x, alpha=1: _elu(t, x, alpha, 1, 1 / alpha),
    "selu": _selu,
    "softplus": _softplus,
    "log_sigmoid": _log_sigmoid,
    "mish": _mish,
    "hardtanh": lambda t, x, low=-1, high=1: _clamp(t, x, low, high),
    "hardsigmoid": _hard_sigmoid,
    "hardswish": _hard_swish,
    "relu6": lambda t, x: _clamp(t, x, 0, 6),
    "glu": _glu,
    "dropout": _dropout,
    "native_dropout": lambda t, x, p, train: (_dropout(t, x, p, train), None),
}
