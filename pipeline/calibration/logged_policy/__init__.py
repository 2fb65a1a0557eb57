"""Which policy wrote a log: declared, recognized by its decisions, or estimated."""

from pipeline.calibration.logged_policy.behavior import (
    BehaviorTable,
    fit_behavior,
    propensities,
)
from pipeline.calibration.logged_policy.decisions import (
    DispatchDecisions,
    DispatchLog,
    rebuilt_decisions,
    recorded_decisions,
)
from pipeline.calibration.logged_policy.declared import (
    PropensityCheck,
    check_propensities,
    declared_policy,
)
from pipeline.calibration.logged_policy.recognize import (
    UNKNOWN,
    LoggedPolicy,
    recognize_policy,
    recognize_routing,
)
from pipeline.calibration.logged_policy.routes import (
    RouteDecisions,
    fit_routes,
    route_decisions,
    route_propensities,
)

__all__ = [
    "UNKNOWN",
    "BehaviorTable",
    "DispatchDecisions",
    "DispatchLog",
    "LoggedPolicy",
    "PropensityCheck",
    "RouteDecisions",
    "check_propensities",
    "declared_policy",
    "fit_behavior",
    "fit_routes",
    "propensities",
    "rebuilt_decisions",
    "recognize_policy",
    "recognize_routing",
    "recorded_decisions",
    "route_decisions",
    "route_propensities",
]
