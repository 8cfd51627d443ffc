"""The tables of a network, whose gradients may be sparse."""

import json
import math
import warnings

from .._native import FileError, Network

#: The smallest table, in bytes, whose dense gradient is worth a warning.
_LARGE = 64 << 20


def check_tables(network: Network, sparse: tuple[str, ...]) -> None:
    """Checks the names of tables with sparse gradients, and warns of other large tables."""
    tables = _tables(network)
    for name in sparse:
        if name not in tables:
            raise ValueError(
                f"sparse: expected parameters that cells only look up, of {tables}, got {name!r}"
            )
    for name in tables:
        size = 4 * math.prod(network.parameters[name])
        if size >= _LARGE and name not in sparse:
            warnings.warn(
                f"edbatch.torch.Layer: each step computes a dense gradient of {size >> 20} MiB for "
                f"the table {name}: put it outside as nn.Embedding(..., sparse=True) and given "
                f"rows, or use Layer(..., sparse=({name!r},))",
                UserWarning,
                stacklevel=4,
            )


def _tables(network: Network) -> list[str]:
    """The parameters that cells look up and do not read otherwise."""
    try:
        declared = json.loads(network.to_json())
    except FileError:  # For example, a constant is not finite.
        return []
    tables, whole = set(), set()
    for cell in declared["cells"]:
        tables |= {table["parameter"] for table in cell["tables"] if "parameter" in table}
        whole |= {each["name"] for each in cell["operations"] if each["op"] == "parameter"}
    for initial in declared["initial_values"]:
        whole |= set(initial["parameters"])
    return [name for name in network.parameters if name in tables - whole]
