"""Arrays of numbers from objects that are not such arrays already, such as lists and tensors."""

import reprlib
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

#: The kinds of NumPy's types that are real numbers.
_REAL = "biuf"
_RANGE = "expected numbers in the range of 32-bit floats"


def floats(name: str, values: Any, error: type[Exception]) -> npt.NDArray[np.float32]:
    """Returns an array of float32 in C order, with the elements as NumPy indexes them.

    Raises `error`, which names the array, for elements that are no numbers, and for those that
    become infinite.
    """
    array = _array(name, values, error)
    if array.dtype == object:
        array = _numbers(name, array, error)
    # Packages define further types, such as bfloat16.
    elif array.dtype.kind not in _REAL and array.dtype.isbuiltin != 2:
        _refuse(name, values, error, f"{array.dtype}")
    if array.dtype.itemsize <= 4:
        return array.astype(np.float32, order="C")
    with np.errstate(over="ignore"):
        narrow = array.astype(np.float32, order="C")
    infinite = np.isinf(narrow)
    if infinite.any():
        for index in np.argwhere(infinite & np.isfinite(array)).tolist():
            raise error(f"{name}: {_RANGE}, got {array[tuple(index)]!s}{_at(index)}")
    return narrow


def integers(
    name: str, values: Any, dtype: np.dtype[Any], error: type[Exception], dims: int = 1
) -> npt.NDArray[Any]:
    """Returns an array of integers of a type, with 1 dimension, or 1 to `dims`.

    Raises TypeError for anything but integers, and `error` for those beyond the range of the type.
    """
    array = _array(name, values, error)
    if array.dtype.kind not in "iu" and isinstance(values, (list, tuple)):
        # Ints that NumPy has no type for become floats or objects.
        array = np.asarray(values, dtype=object)
    expected = f"{name}: expected a list of ints or an array of integers, got"
    if not 1 <= array.ndim <= dims or array.size and array.dtype.kind not in "iuO":
        raise TypeError(f"{expected} {array.dtype} of {array.ndim} dimensions")
    if array.dtype == object:
        for index, value in enumerate(array.flat):
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
                raise TypeError(f"{expected} {reprlib.repr(value)} at index {index}")
    limits = np.iinfo(dtype)
    for extreme in (array.argmin(), array.argmax()) if array.size else ():
        number = int(array.flat[extreme])
        if not limits.min <= number <= limits.max:
            between = f"from {limits.min} to {limits.max}"
            raise error(f"{name}: expected numbers {between}, got {number} at index {extreme}")
    return array.astype(dtype, order="C")


def items(what: str, mapping: Any, error: type[Exception]) -> list[tuple[str, Any]]:
    """Returns the names and the arrays of a mapping."""
    if not hasattr(mapping, "items"):
        advice = ": pass `module.state_dict()`" if hasattr(mapping, "state_dict") else ""
        got = type(mapping).__name__
        raise error(f"{what}: expected a mapping from names to arrays, got {got}{advice}")
    pairs = list(mapping.items())
    for name, _ in pairs:
        if not isinstance(name, str):
            got = f"{reprlib.repr(name)}, {type(name).__name__}"
            raise error(f"{what}: expected names of tensors that are strings, got {got}")
    return pairs


def _array(name: str, values: Any, error: type[Exception]) -> npt.NDArray[Any]:
    """Returns an array of any type."""
    masked = _masked(values)
    if masked is not None:
        raise error(f"{name}: expected numbers, got a masked element{_at(masked)}")
    try:
        if not isinstance(values, np.ndarray) and hasattr(values, "detach"):
            return _detached(values)
        return np.asarray(values)
    except (TypeError, ValueError, OverflowError, RuntimeError) as cause:
        _refuse(name, values, error, f"{cause}", cause)


def _detached(tensor: Any) -> npt.NDArray[Any]:
    """Returns a tensor of PyTorch as an array."""
    tensor = tensor.detach().cpu()
    try:
        return np.asarray(tensor.numpy())
    except TypeError:
        # NumPy has no such type, for example bfloat16.
        return np.asarray(tensor.float().numpy())


def _masked(values: Any) -> list[int] | None:
    """Returns the index of a masked element, in arrays and in lists of them."""
    if isinstance(values, np.ma.MaskedArray):
        return next(iter(np.argwhere(np.ma.getmaskarray(values))[:1].tolist()), None)
    if isinstance(values, (list, tuple)):
        kinds = set(map(type, values))
        if any(issubclass(kind, (list, tuple, np.ma.MaskedArray)) for kind in kinds):
            for index, value in enumerate(values):
                masked = _masked(value)
                if masked is not None:
                    return [index, *masked]
    return None


def _numbers(name: str, array: npt.NDArray[Any], error: type[Exception]) -> npt.NDArray[Any]:
    """Returns an array of objects as float64."""
    wide = np.empty(array.shape)
    for index, value in np.ndenumerate(array):
        try:
            # NumPy converts strings, dates and complex numbers.
            if isinstance(value, (str, bytes, np.generic, np.ndarray)):
                if np.asarray(value).dtype.kind not in _REAL or _masked(value) is not None:
                    raise TypeError
            wide[index] = float(value)
        except OverflowError:
            raise error(f"{name}: {_RANGE}, got {reprlib.repr(value)}{_at(index)}") from None
        except (TypeError, ValueError):
            got = f"{reprlib.repr(value)}{_at(index)}"
            raise error(f"{name}: expected numbers, got {got}") from None
    return wide


def _refuse(
    name: str, values: Any, error: type[Exception], reason: str, cause: Exception | None = None
) -> NoReturn:
    expected = "expected an array or a tensor of numbers"
    raise error(f"{name}: {expected}, got {type(values)}: {reason}") from cause


def _at(index: Sequence[int]) -> str:
    """Returns the place of an element, for a message."""
    if not index:
        return ""
    return f" at index {index[0] if len(index) == 1 else tuple(index)}"
