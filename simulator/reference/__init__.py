"""The simulator in plain Python: slow, readable, and the judge of the compiled engine.

Read this first, in the order `parts` (what a cluster is made of), `events` (what can happen),
`batching` and `batches` (who is served together), `continuous` (token by token), `scaling`,
`routing`, `decisions` (what a policy may do) and `advance` (what comes first). Everything that
happens is told to `Cluster.events` as (clock, kind, subject), in order.
"""

from simulator.reference.advance import advance
from simulator.reference.cluster import Cluster
from simulator.reference.decisions import (
    Action,
    Dispatch,
    Route,
    Shed,
    Tune,
    Wait,
    take_action,
)
from simulator.reference.parts import Luck
from simulator.reference.routing import routable

__all__ = [
    "Action",
    "Cluster",
    "Dispatch",
    "Luck",
    "Route",
    "Shed",
    "Tune",
    "Wait",
    "advance",
    "routable",
    "take_action",
]
