"""What a log can calibrate and what it cannot, each with the reason."""

from typing import NamedTuple

from pipeline.quality.content import NO_CLASS, Content
from pipeline.quality.order import Order


class Others(NamedTuple):
    """Rows of the source that are no requests."""

    profile_sizes: tuple[int, ...]  # batch sizes of its table L(b)
    cold_starts: int
    decisions: int


class Use(NamedTuple):
    """Something to calibrate."""

    possible: bool
    reason: str


def uses_of(order: Order | None, content: Content | None, others: Others) -> dict[str, Use]:
    """For each part of the simulator whether the source can calibrate it, and why."""
    if order is None or content is None:
        absent = Use(False, "the source holds no requests")
        names = ("arrivals", "class_mix", "sizes", "tokens")
        found = dict.fromkeys(names, absent)
        found |= _service(None, others)
        return found | {
            "token_model": absent,
            "cold_starts": _cold_starts(others),
            "routing_policy": absent,
            "fidelity_check": absent,
        }
    return {
        "arrivals": _arrivals(order, content),
        "class_mix": _class_mix(content),
        "sizes": _sizes(content),
        "tokens": _tokens(content),
        **_service(content, others),
        "token_model": _token_model(content),
        "cold_starts": _cold_starts(others),
        "routing_policy": _routing(content, others),
        "fidelity_check": _fidelity(content),
    }


def _told(content: Content, fact: str) -> bool:
    return content.facts[fact].coverage > 0.0


def _arrivals(order: Order, content: Content) -> Use:
    if order.distinct_instants < 2:
        return Use(False, "all requests arrive at one instant")
    reason = f"{order.rows:,} arrivals at {order.distinct_instants:,} instants"
    if content.facts["arrival"].origin == "derived":
        reason += "; they are computed, not measured: the notes say how"
    step_us = order.step_us
    if step_us is not None and step_us > order.gaps.mean_us:
        reason += (
            f"; the clock's step of {step_us / 1e6:g} s is longer than the mean gap of "
            f"{order.gaps.mean_us / 1e6:.3g} s: rates only, no gaps (see dequantize_s)"
        )
    return Use(True, reason)


def _class_mix(content: Content) -> Use:
    names = len(content.classes) + content.more_classes - (content.more_classes > 0)
    if set(content.classes) == {NO_CLASS}:
        return Use(False, "no request class is named: all count as one")
    if names == 1:
        return Use(True, f"one class, {next(iter(content.classes))}")
    return Use(True, f"{names:,} classes")


def _sizes(content: Content) -> Use:
    if not _told(content, "size"):
        return Use(False, "no size is stated: all count as 1")
    if not content.sizes_differ:
        return Use(True, "all requests have the same size")
    return Use(True, f"stated for {content.facts['size'].coverage:.1%} of the requests")


def _tokens(content: Content) -> Use:
    fact = content.facts["tokens"]
    if fact.coverage == 0.0:
        return Use(False, "prompt and output tokens are not both stated")
    return Use(True, f"{fact.origin} for {fact.coverage:.1%} of the completed requests")


def _service(content: Content | None, others: Others) -> dict[str, Use]:
    """Batch latency by batch size, and that of a batch of one."""
    by_batch = Use(False, "no service times: neither dispatch with departure, nor a profile")
    alone = Use(False, "no response time is stated")
    if len(others.profile_sizes) > 1:
        sizes = f"{others.profile_sizes[0]} to {others.profile_sizes[-1]}"
        by_batch = Use(True, f"a profile of batch sizes {sizes}")
    elif content is not None and _told(content, "service"):
        by_batch = _by_batch(content)
    if 1 in others.profile_sizes:
        alone = Use(True, "the profile has batches of one")
    elif content is not None and _told(content, "service"):
        smallest = content.batches.smallest if content.batches else 1
        alone = Use(True, "service times are told apart from waiting")
        if smallest > 1:
            alone = Use(False, f"the smallest batch is of {smallest}")
    elif content is not None and _told(content, "response"):
        alone = Use(True, "by requests that met an idle system, if there are any")
        by_batch = Use(False, "times from end to end only: service and waiting are not told apart")
    return {"service_by_batch": by_batch, "service_of_one": alone}


def _by_batch(content: Content) -> Use:
    batches = content.batches
    if batches is not None and batches.largest > batches.smallest:
        sizes = f"{batches.smallest} to {batches.largest}"
        return Use(True, f"{batches.batches:,} batches of {sizes} requests")
    if batches is not None:
        return Use(False, f"all {batches.batches:,} batches are of {batches.largest}")
    if _told(content, "replica"):
        return Use(True, "batches are rebuilt from requests in service together on a replica")
    return Use(False, "neither batch nor replica is named: batches cannot be told apart")


def _token_model(content: Content) -> Use:
    if not _told(content, "tokens"):
        return Use(False, "prompt and output tokens are not both stated")
    if not _told(content, "response"):
        return Use(False, "no response time is stated")
    if not _told(content, "first_token"):
        return Use(False, "no first token is stated: prefill and decode are not told apart")
    if not _told(content, "queue"):
        return Use(True, "tokens, first token and departure; waiting is within the first token")
    return Use(True, "tokens, dispatch, first token and departure")


def _cold_starts(others: Others) -> Use:
    if others.cold_starts == 0:
        return Use(False, "no cold start is measured")
    return Use(True, f"{others.cold_starts:,} measured")


def _routing(content: Content, others: Others) -> Use:
    if content.replicas == 0:
        return Use(False, "no replica is named")
    if content.replicas == 1:
        return Use(False, "one replica: there is nothing to route")
    if others.decisions:
        told = f"{others.decisions:,} decisions with what was seen and their propensity"
        return Use(True, told)
    share = content.facts["replica"].coverage
    reason = f"{content.replicas:,} replicas, named for {share:.1%} of the completed requests"
    return Use(True, f"{reason}; what the router saw must be rebuilt")


def _fidelity(content: Content) -> Use:
    if not _told(content, "response"):
        return Use(False, "no response time is stated to compare with")
    share = content.facts["response"].coverage
    if _told(content, "queue"):
        return Use(True, f"response and waiting of {share:.1%} of the completed requests")
    return Use(True, f"responses of {share:.1%} of the completed requests, without waiting")
