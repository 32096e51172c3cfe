"""What a network costs: parameters, multiply-adds, activation memory. Runs on the meta device, without memory."""

import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from attcr.networks import build_network
from attcr.networks.attcr import ATTCR, Attention
from attcr.ops import triangular_attention


@dataclass(frozen=True)
class Complexity:
    """The cost of one image."""

    parameters: int
    """Learned numbers."""
    multiply_adds_paper: int
    """As the paper counts: all but the triangular product, which ran where its counter could not see it."""
    multiply_adds: int
    """In truth: with the product."""
    stages: tuple[tuple[int, int, int], ...]
    """(channels, height, width) that each stage gives; none where a network has no stages."""
    inference_bytes: int
    """Largest sum of activations alive at one time in float32, without gradients."""
    training_bytes: int
    """Activations kept for the backward in float32."""


@runtime_checkable
class Counted(Protocol):
    """A part of a network that states the cost of its own products, which no layer shows."""

    def products(self, height: int, width: int) -> int:
        """Multiply-adds of the products on height x width pixels; layers not included."""


def measure(config: Any, height: int, width: int) -> Complexity:
    """Count the cost of one image of height x width in the network of a config, whichever of NETWORKS it is."""
    with torch.device("meta"):
        model, trained = build_network(config).eval(), build_network(config)
        image = torch.empty(1, config.in_channels, height, width)
    counts: Counter[str] = Counter()
    stages: list[tuple[int, int, int]] = []
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.register_forward_hook(lambda m, _, out: counts.update(seen=out.numel() * m.weight[0].numel()))
        elif isinstance(module, Attention | Counted):
            module.register_forward_hook(lambda m, args, _: _count_products(counts, m, args[0]))
    for stage in model.stages if isinstance(model, ATTCR) else ():
        stage.register_forward_hook(lambda *call: stages.append(tuple(call[2].shape[1:])))
    with torch.no_grad(), _peak_memory(_storages(model)) as peak:
        model(image)
    return Complexity(
        parameters=sum(p.numel() for p in model.parameters()),
        multiply_adds_paper=counts["seen"],
        multiply_adds=counts["seen"] + counts["unseen"],
        stages=tuple(stages),
        inference_bytes=peak[0],
        training_bytes=_saved_bytes(trained, image),
    )


def _count_products(counts: Counter[str], module: Attention | Counted, x: Tensor) -> None:
    """phi(q) . sum phi(k) is C a token and scale; states and their product with phi(q) are C * C/heads each."""
    if isinstance(module, Counted):
        counts["seen"] += module.products(*x.shape[2:])
        return
    channels, tokens, scales = x.shape[1], x.shape[2] * x.shape[3], len(module.scales)
    counts["seen"] += scales * tokens * channels
    product = "unseen" if module.attend is triangular_attention else "seen"
    counts[product] += scales * tokens * 2 * channels * channels // module.heads


def _storages(model: nn.Module) -> set[int]:
    return {p.untyped_storage()._cdata for p in model.parameters()}


def _saved_bytes(model: nn.Module, image: Tensor) -> int:
    """Bytes of the distinct tensors that autograd keeps, parameters left out."""
    parameters = _storages(model)
    saved: dict[int, Any] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in parameters:
            saved[storage._cdata] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = model(image)
    del result
    return sum(storage.nbytes() for storage in saved.values())


@contextmanager
def _peak_memory(known: set[int]) -> Iterator[list[int]]:
    """A list whose one number is, at the end, the most bytes of tensors not `known` that were alive at once."""
    peak, alive = [0], {"now": 0}

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, tuple | list) else (out,):
                if isinstance(tensor, Tensor):
                    track(tensor.untyped_storage())
            return out

    def track(storage: Any) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in known:
            return
        known.add(key)
        alive["now"] += size
        peak[0] = max(peak[0], alive["now"])
        weakref.finalize(storage, forget, key, size)

    def forget(key: int, size: int) -> None:
        known.discard(key)
        alive["now"] -= size

    with Watch():  # type: ignore[no-untyped-call]
        yield peak
