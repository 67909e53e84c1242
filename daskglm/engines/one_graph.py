"""One graph of all partitions, of which each worker loads its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dask.highlevelgraph import HighLevelGraph, MaterializedLayer


def one_graph(assigned: Mapping[str, Sequence[Any]]) -> HighLevelGraph | None:
    """Return the graph of delayed blocks whose tasks prefer the workers that have these addresses.

    Submitted worker by worker, a source within the graph, as `from_array` makes it, is sent to the
    scheduler as often as there are workers. None where the user has annotated tasks.
    """
    lazy = [each for part in assigned.values() for each in part]
    whole = HighLevelGraph.merge(*(each.dask for each in lazy))
    if any(layer.annotations for layer in whole.layers.values()):
        return None
    whole = whole.cull({each.key for each in lazy})
    needed = whole.get_all_dependencies()
    workers: dict[Any, list[str]] = {}
    for address, part in assigned.items():
        reached = [each.key for each in part]
        while reached:
            key = reached.pop()
            if key in needed and key not in workers:
                workers[key] = [address]
                reached += needed[key]
    how = {"workers": workers.__getitem__, "allow_other_workers": True}
    layer = MaterializedLayer(dict(whole), annotations=how)
    return HighLevelGraph({"blocks": layer}, {"blocks": set()})
