"""The parameters and buffers of traced modules, by the names that they have in a network."""

import weakref
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from .._native import Network


@dataclass(frozen=True)
class Read:
    """A parameter or buffer that a cell reads."""

    tensor: Tensor
    #: The tensor itself, or the module and the name of a tensor that a parametrization computes.
    owner: Any

    @property
    def identity(self) -> Any:
        if isinstance(self.owner, tuple):
            return id(self.owner[0]), self.owner[1]
        return id(self.owner)


class Traced:
    """The modules that were traced into a network."""

    def __init__(self) -> None:
        #: By the name of the cell.
        self.modules: dict[str, nn.Module] = {}
        #: By identity: the name in the network. `owners` live as long, so that no other tensor gets
        #: the identity of one of them.
        self.names: dict[Any, str] = {}
        self.owners: list[Any] = []

    def add(self, name: str, module: nn.Module, read: dict[str, Read]) -> None:
        self.modules[name] = module
        for key, parameter in read.items():
            self.names[parameter.identity] = key
            self.owners.append(parameter.owner)


_TRACED: dict[int, Traced] = {}


def traced(network: Network) -> Traced:
    """Returns the modules of a network: of this object, not of equal ones."""
    if id(network) not in _TRACED:
        _TRACED[id(network)] = Traced()
        weakref.finalize(network, _TRACED.pop, id(network))
    return _TRACED[id(network)]


def of_network(network: Network) -> tuple[dict[str, nn.Module], frozenset[str]]:
    """Returns the modules that were traced into a network, and the names of their parameters."""
    known = _TRACED.get(id(network), Traced())
    return known.modules, frozenset(known.names.values())


class Plain:
    """A module without parametrizations: what they compute is a parameter.

    A copy of the submodules, if there are any parametrizations, with the same parameters. The
    hooks of the older `weight_norm`, `spectral_norm` and `prune` count as parametrizations.
    """

    def __init__(self, module: nn.Module) -> None:
        #: For each parameter that stands for a computed tensor: its module and its name in it.
        self.computed: dict[int, tuple[nn.Module, str]] = {}
        self.module = module
        if any(_computed(each) for each in module.modules()):
            self.module = self._copy(module, {})

    def _copy(self, module: nn.Module, done: dict[int, nn.Module]) -> nn.Module:
        if id(module) in done:
            return done[id(module)]
        names, kind = _computed(module), type(module)
        parametrized = parametrize.is_parametrized(module)
        other: nn.Module = object.__new__(kind.__bases__[0] if parametrized else kind)
        done[id(module)] = other
        other.__dict__.update(module.__dict__)
        for name in ("_parameters", "_buffers", "_modules"):
            other.__dict__[name] = dict(module.__dict__[name])
        if parametrized:
            del other._modules["parametrizations"]
        if names:
            hooks = module._forward_pre_hooks.items()
            other._forward_pre_hooks = type(module._forward_pre_hooks)(
                (key, hook) for key, hook in hooks if not _is_hook(hook)
            )
        for name in names:
            value = nn.Parameter(read(module, name).detach().clone())
            other.__dict__.pop(name, None)
            other._parameters[name] = value
            self.computed[id(value)] = (module, name)
        for name, child in other._modules.items():
            other._modules[name] = child if child is None else self._copy(child, done)
        return other

    def read(self, path: str) -> Read:
        """The parameter or buffer at a path."""
        *owner, last = path.split(".")
        tensor: Tensor = getattr(self.module.get_submodule(".".join(owner)), last)
        return Read(tensor, self.computed.get(id(tensor), tensor))

    def names(self) -> dict[int, str]:
        """The name of each tensor in the module, the first of several."""
        tensors = [*self.module.named_parameters(), *self.module.named_buffers()]
        return {id(tensor): name for name, tensor in tensors}


def _computed(module: Any) -> list[str]:
    """The names of the tensors of a module that parametrizations or hooks compute."""
    names = list(module.parametrizations) if parametrize.is_parametrized(module) else []
    hooks = [hook for hook in module._forward_pre_hooks.values() if _is_hook(hook)]
    return [*names, *(getattr(hook, "name", None) or hook._tensor_name for hook in hooks)]


def _is_hook(hook: Any) -> bool:
    """True for the hooks of the older `weight_norm`, `spectral_norm` and of `prune`."""
    return type(hook).__module__.startswith("torch.nn.utils.")


def read(module: nn.Module, name: str) -> Tensor:
    """Returns a tensor of a module by its name, as the module computes it."""
    *path, last = name.split(".")
    owner = module.get_submodule(".".join(path))
    for hook in owner._forward_pre_hooks.values():
        if _is_hook(hook):
            hook(owner, ())
    tensor: Tensor = getattr(owner, last)
    return tensor


def write(module: nn.Module, name: str, value: Tensor) -> None:
    """Changes a tensor of a module in place, or through its parametrization."""
    *path, last = name.split(".")
    owner = module.get_submodule(".".join(path))
    if parametrize.is_parametrized(owner, last):
        setattr(owner, last, value.reshape(getattr(owner, last).shape))
    else:
        tensor = getattr(owner, last)
        with torch.no_grad():
            tensor.copy_(value.reshape(tensor.shape))
