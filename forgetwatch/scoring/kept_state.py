"""State that modules keep besides their weights, and that a forward pass changes.

    dynamic rotary embeddings      inv_freq and max_seq_len_cached follow the longest text so far
    observers of quantisation      min_val, max_val, scale follow what they see
    spectral norms, counters       buffers and plain numbers

A look reads other texts than the training. Without this, the next training step would compute with
what the look left. Buffers of any kind and plain attributes (numbers, texts, tensors, and lists or
dicts of numbers and texts) are saved before a look and put back after it, if they changed. What
lies outside the modules, such as a count in a user's own hook, is not seen. A large buffer is not
copied: if a look changes it, that is logged.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any, Final

import torch
from torch import Tensor, nn

from forgetwatch.progress import log

_LARGEST: Final = 2**16
"""Bytes of the largest tensor that is copied; larger ones are tables of constants, or quantised weights."""


_LONGEST: Final = 1000
"""Length of the longest list or dict that is kept."""


_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)


_OWN: Final = frozenset({"training", *vars(nn.Module())})
"""Attributes of every module: its parameters, hooks and mode."""


@contextmanager
def kept_state(model: nn.Module) -> Iterator[None]:
    """Undo what forward passes in the block change in modules.

    Weights apart.
    """
    before = [
        (module, _saved(module._buffers), _saved(_attributes(module))) for module in model.modules()
    ]
    try:
        yield
    finally:
        with torch.no_grad():
            lost = [
                f"{type(module).__name__}.{name}"
                for module, buffers, attributes in before
                for name in [
                    *_restore(module._buffers, buffers),
                    *_restore(vars(module), attributes),
                ]
            ]
        if lost:
            log(
                f"a look changes {lost[0]}, which is too large to be kept: the training differs "
                "from one without looks"
            )


def _attributes(module: nn.Module) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if name not in _OWN}


def _saved(values: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    # For a large tensor the count of in-place changes stands in for a copy.
    return {name: (value, _content(value)) for name, value in values.items() if _is_kept(value)}


def _is_kept(value: Any) -> bool:
    if isinstance(value, Tensor):
        return not (isinstance(value, nn.Parameter) or value.is_meta)
    if isinstance(value, (list, tuple, set, deque, dict)):
        parts = value.values() if isinstance(value, dict) else value
        return len(value) <= _LONGEST and all(isinstance(element, _PLAIN) for element in parts)
    return isinstance(value, _PLAIN)


def _content(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return copy(value)
    if value.numel() * value.element_size() <= _LARGEST:
        return value.detach().clone()
    return 0 if value.is_inference() else value._version  # tensors of inference mode do not count


def _restore(now: dict[str, Any], before: dict[str, tuple[Any, Any]]) -> list[str]:
    # The names are those whose content is lost.
    lost = []
    for name, (value, content) in before.items():
        if not _refill(value, content):
            lost.append(name)
        if name not in now or now[name] is not value:
            now[name] = value
    for name in [
        name
        for name, value in now.items()
        if name not in before and name not in _OWN and _is_kept(value)
    ]:
        del now[name]  # made by the first forward pass, and so it will be by that of the training
    return lost


def _refill(value: Any, content: Any) -> bool:
    # False if the content was not copied and has changed.
    if isinstance(value, Tensor):
        if not isinstance(content, Tensor):
            return value.is_inference() or value._version == content
        if value.shape != content.shape or not torch.equal(value, content):
            value.resize_(content.shape).copy_(content)
    elif isinstance(value, (list, set, deque, dict)) and value != content:
        value.clear()
        value.extend(content) if isinstance(value, (list, deque)) else value.update(content)
    return True
