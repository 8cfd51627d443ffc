"""Reads the graph of a traced module: each ATen operation becomes expressions."""

import operator
from typing import Any

import torch

from .capture import Captured
from .elementwise import ELEMENTWISE, Handler
from .errors import Place, error, of_stack
from .products import PRODUCTS
from .reductions import REDUCTIONS
from .shapes import SHAPES, constant
from .values import Row, Scope, Unsupported, Value

#: Handlers by the name of the operation, or by its name and overload.
TABLE: dict[str, Handler] = {**ELEMENTWISE, **SHAPES, **REDUCTIONS, **PRODUCTS}

#: Other names of the same operations.
ALIASES = {
    "absolute": "abs",
    "clip": "clamp",
    "concat": "cat",
    "concatenate": "cat",
    "divide": "div",
    "multiply": "mul",
    "negative": "neg",
    "subtract": "sub",
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "true_divide": "div",
}

#: Operations that check something and compute nothing.
NOTHING = ("_assert_tensor_metadata", "_assert_scalar", "_assert_async", "sym_constrain_range")

#: Operations of a softmax over the children: it is rearranged, and weighs values.
OF_SOFTMAX = {
    *("view", "_unsafe_view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze"),
    *("transpose", "permute", "t", "numpy_T", "mT", "swapaxes", "swapdims", "expand", "expand_as"),
    *("clone", "contiguous", "alias", "to", "_to_copy", "float", "dropout", "native_dropout"),
    *("view_as", "reshape_as", "mul", "multiply", "matmul", "mm", "mv", "bmm", "dot", "addmm"),
}

#: Operations of the index of a row, and of a tensor of the module's code.
OF_ROW = {
    *("embedding", "view", "reshape", "squeeze", "unsqueeze", "flatten", "clone", "contiguous"),
    *("alias", "to", "_to_copy", "detach", "lift_fresh_copy"),
}

#: Operations whose result is true or false.
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "logical_not", "logical_and", "logical_or")

#: The nearest way out, by a word of the operation.
WAYS_OUT = {
    "where": "use relu, clamp, maximum or minimum, or choose the cell where inputs are wired",
    "masked": "wire the values that count, and no others",
    "index": "take parts by slices of fixed numbers, or a row of a table by nn.Embedding",
    "gather": "take parts by slices of fixed numbers, or a row of a table by nn.Embedding",
    "batch_norm": "use layer_norm or rms_norm: a cell does not see other calls",
    "conv": "use nn.Linear of concatenated values",
    "lstm": "use nn.LSTMCell, and wire one call for each step",
    "gru": "use nn.GRUCell, and wire one call for each step",
    "rnn": "use nn.RNNCell, and wire one call for each step",
    "set_grad_enabled": "take `torch.no_grad()` out of the module",
    "rand": "use nn.Dropout, or pass random numbers in at a port",
    "einsum": "write it with `*`, `sum` and `@`",
}
OTHERWISE = "compute it outside of the cell, or write it with operations that cells have"


def supported(graph: Any) -> bool:
    """True if the table has all operations, and none of them is in place."""
    return all(
        _handler(node.target) is not None and not node.target._schema.is_mutable
        for node in graph.nodes
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
    )


def _names(target: Any) -> tuple[str, str]:
    """The name of an operation, and its name with its overload."""
    name = target._schema.name.split("::")[1]
    return name, f"{name}.{target._overloadname}"


def _handler(target: Any) -> Handler | None:
    name, overload = _names(target)
    if name in NOTHING:
        return TABLE["clone"]
    return TABLE.get(overload) or TABLE.get(ALIASES.get(name, name))


class Reader:
    """Reads one graph, operation by operation."""

    def __init__(self, cell: str, captured: Captured, scope: Scope) -> None:
        self.cell, self.captured, self.scope = cell, captured, scope
        self.values: dict[Any, Any] = {}

    def results(self) -> list[tuple[Any, Place]]:
        """Returns the results of the module, with their lines."""
        for node in self.captured.graph.nodes:
            if node.op == "placeholder":
                if node.users:
                    self.values[node] = self._input(node)
            elif node.op == "output":
                self._check_changed(node.args[0])
                return [self._result(each) for each in node.args[0]]
            elif node.op == "get_attr":
                self.values[node] = None
            elif node.target is operator.getitem:
                self.values[node] = self.values[node.args[0]][node.args[1]]
            else:
                self.values[node] = self._computed(node)
        raise AssertionError("a graph has an output")

    def _check_changed(self, outputs: Any) -> None:
        """Refuses a module that changes something in place. The new values are outputs, too."""
        name = self.captured.changed
        if name is not None:
            raise error(
                self.cell,
                f"the module changes {name} in place: a cell returns new values, so make a new "
                f"tensor, such as `{name} = {name} + 1`",
                of_stack(outputs[0].meta.get("stack_trace")),
            )

    def _result(self, node: Any) -> tuple[Any, Place]:
        meta = getattr(node, "meta", {})
        place = of_stack(meta.get("stack_trace"))
        try:
            return self._plain(self._operand(self._map(node))), place
        except Unsupported as unsupported:
            raise error(self.cell, str(unsupported), place) from None

    def _input(self, node: Any) -> Any:
        """A parameter, a value at a port, or a tensor of the module's code."""
        source, scope = self.captured.inputs[node.name], self.scope
        if isinstance(source, torch.Tensor):
            return source
        shape = tuple(node.meta["val"].shape)
        if source[0] == "row":
            return Row(shape, source[1])
        try:
            if source[0] == "parameter":
                dims = shape if len(shape) in (1, 2) else scope.core(shape)
                return scope.value(scope.e.parameter(source[1], dims), shape)
            _, port, field, many = source
            return scope.value(scope.e.field(port, field, scope.core(shape), many), shape)
        except Unsupported as unsupported:
            reader = next(iter(node.users))
            place = of_stack(reader.meta.get("stack_trace"))
            raise error(self.cell, str(unsupported), place) from None

    def _computed(self, node: Any) -> Any:
        place = of_stack(node.meta.get("stack_trace"))
        op = str(node.target)
        try:
            self.scope.place = place
            return self._called(node)
        except Unsupported as unsupported:
            raise error(self.cell, str(unsupported), place, op) from None
        except Exception as failure:  # Arguments that no handler has seen: name the line, too.
            text = f"with these arguments, {type(failure).__name__}: {failure}"
            raise error(self.cell, text, place, op) from failure

    def _called(self, node: Any) -> Any:
        """The result of an operation, by its handler."""
        target = node.target
        known = isinstance(target, torch._ops.OpOverload)
        name = _names(target)[0] if known else str(target)
        handler = _handler(target) if known else None
        if handler is None:
            raise Unsupported(f"cells have no such operation: {_way_out(name)}")
        if name in NOTHING:
            return None
        args, kwargs = self._map(node.args), self._map(node.kwargs)
        if name in OF_ROW and isinstance(args[0], torch.Tensor):
            return args[0]
        args, kwargs = self._operand(args), self._operand(kwargs)
        for value in _flat([args, list(kwargs.values())]):
            self._check_operand(name, value)
        self.scope.result = _shapes(node.meta.get("val"))
        kwargs = {key: value for key, value in kwargs.items() if key not in _OF_MEMORY}
        result = handler(self.scope, *args, **kwargs)
        for value in _flat([result]):
            if isinstance(value, Value):
                self._check_result(value)
        _check_types(name, node.meta.get("val"))
        return result

    def _map(self, argument: Any) -> Any:
        """The values of an operation's arguments."""
        if isinstance(argument, torch.fx.Node):
            return self.values[argument]
        if isinstance(argument, dict):
            return {key: self._map(value) for key, value in argument.items()}
        if isinstance(argument, (list, tuple)):
            return [self._map(each) for each in argument]
        return argument

    def _operand(self, argument: Any) -> Any:
        """Reads tensors of the module's code as constants."""
        if isinstance(argument, torch.Tensor):
            return constant(self.scope, argument)
        if isinstance(argument, dict):
            return {key: self._operand(value) for key, value in argument.items()}
        if isinstance(argument, list):
            return [self._operand(each) for each in argument]
        return argument

    def _check_operand(self, name: str, value: Any) -> None:
        if isinstance(value, Row) and name not in OF_ROW:
            raise Unsupported("an operation of a port `row`: only nn.Embedding reads it")
        if isinstance(value, Value) and value.kind == "softmax" and name not in OF_SOFTMAX:
            self._plain(value)
        if isinstance(value, Value) and value.kind == "weighted" and name != "sum":
            self._plain(value)
        if isinstance(value, Value) and value.kind == "indices":
            self._plain(value)

    def _plain(self, value: Any) -> Any:
        """Refuses what is not a tensor."""
        if isinstance(value, Row):
            raise Unsupported("a port `row` as a result: only nn.Embedding reads it")
        if isinstance(value, Value) and value.kind == "indices":
            raise Unsupported("the indices of a maximum: cells have its values alone")
        if isinstance(value, Value) and value.kind != "tensor":
            raise Unsupported(
                "a softmax over the children that does not weigh them: expected "
                "`(weights * values).sum(0)` or `weights @ values`"
            )
        return value

    def _check_result(self, value: Value) -> None:
        scores = value.scores is not None and value.scores.reduced
        if self.scope.axis(value.shape) is not None and (value.x.reduced or scores):
            raise Unsupported(
                "children are read again after a reduction over them: make a second cell of what "
                "follows the reduction, and call it with the same children"
            )


def _way_out(name: str) -> str:
    if name in COMPARISONS:
        return "choose the cell where inputs are wired, or use relu, clamp, maximum or minimum"
    found = (text for word, text in WAYS_OUT.items() if word in name)
    return next(found, OTHERWISE)


#: Keywords that say where a tensor lies, which cells do not ask.
_OF_MEMORY = ("dtype", "layout", "device", "pin_memory", "memory_format", "half_to_float")


def _shapes(result: Any) -> Any:
    if isinstance(result, (list, tuple)):
        return [tuple(each.shape) for each in result if isinstance(each, torch.Tensor)]
    return tuple(result.shape) if isinstance(result, torch.Tensor) else ()


def _check_types(name: str, result: Any) -> None:
    """Refuses a tensor of another type than float32. Indices are refused where they are read."""
    first = result[0] if isinstance(result, (list, tuple)) and result else result
    if name in OF_ROW and isinstance(first, torch.Tensor) and first.dtype == torch.int64:
        return
    if isinstance(first, torch.Tensor) and first.dtype != torch.float32:
        raise Unsupported(f"a tensor of {first.dtype}: expected float32")


def _flat(values: Any) -> list[Any]:
    if isinstance(values, (list, tuple)):
        return [item for each in values for item in _flat(each)]
    return [values]
