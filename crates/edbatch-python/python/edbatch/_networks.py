"""Frozen networks by fingerprint, so that equal ones of a process share their declarations, and a
network that was pickled becomes the object that it was."""

import hashlib
import weakref
from typing import Any

from ._native import FileError, Network

#: By fingerprint: the frozen networks, in the order in which they froze.
_FROZEN: dict[str, list[weakref.ref[Network]]] = {}


def fingerprint(json: str) -> str:
    """Returns the SHA-256 of a network's text."""
    return hashlib.sha256(json.encode()).hexdigest()


def enter(network: Network, json: str | None) -> Network | None:
    """Enters a network that freezes now. Returns the first equal one, if there is one. A network
    that cannot be written is alone."""
    if json is None:
        return None
    key = fingerprint(json)
    first = _find(key)
    for dead in [other for other in _FROZEN if _find(other) is None]:
        del _FROZEN[dead]
    _FROZEN.setdefault(key, []).append(weakref.ref(network))
    return first


def _find(key: str) -> Network | None:
    """Returns the first frozen network with a fingerprint that lives."""
    return next((each for ref in _FROZEN.get(key, []) if (each := ref()) is not None), None)


def reduced(json: str, is_frozen: bool) -> tuple[Any, tuple[str, ...]]:
    """Returns the pickle of a network."""
    return (load, (fingerprint(json), json)) if is_frozen else (Network.from_json, (json,))


def load(expected: str, json: str) -> Network:
    """Returns the network of a pickle: the frozen one with this fingerprint, or a new one."""
    got = fingerprint(json)
    if got != expected:
        raise FileError(
            f"network: expected a text with the fingerprint {expected}, got one with {got}"
        )
    known = _find(got)
    if known is None:
        known = Network.from_json(json)
        known._freeze()
    return known
