"""A calibration in lines for the terminal, and as plain values for its JSON file."""

import dataclasses
from typing import Any

from pipeline.calibration.calibrate import Calibration
from pipeline.calibration.replica_service import CalibratedService
from pipeline.calibration.request_mix import ClassMix, ClassShare
from pipeline.calibration.request_mix import from_json as distribution_from_json
from pipeline.calibration.request_mix import to_json as distribution_to_json
from pipeline.calibration.tokens.fit import TokenFit, from_dict, to_dict
from pipeline.files import from_plain, plain
from simulator.sizes import RequestSizes

_OWN_FORM = ("tokens", "mix")


def to_json(calibration: Calibration) -> dict[str, Any]:
    """The calibration as plain values, NaN as null; `from_json` is its inverse."""
    values: dict[str, Any] = plain(
        {name: v for name, v in calibration._asdict().items() if name not in _OWN_FORM}
    )
    values["tokens"] = None if calibration.tokens is None else to_dict(calibration.tokens)
    values["mix"] = [_mix_to_json(mix) for mix in calibration.mix]
    return values


def from_json(values: dict[str, Any]) -> Calibration:
    """The calibration that `to_json` wrote."""
    tokens = values["tokens"]
    own: dict[str, Any] = {"tokens": None, "mix": []}
    calibration: Calibration = from_plain(Calibration, {**values, **own})
    return calibration._replace(
        tokens=None if tokens is None else from_dict(tokens),
        mix=tuple(_mix_from_json(mix) for mix in values["mix"]),
    )


def _mix_to_json(mix: ClassMix) -> dict[str, Any]:
    sizes = {
        field.name: None if law is None else distribution_to_json(law)
        for field in dataclasses.fields(mix.sizes)
        for law in (getattr(mix.sizes, field.name),)
    }
    values: dict[str, Any] = plain(mix._replace(sizes=sizes))  # type: ignore[arg-type]
    return values


def _mix_from_json(values: dict[str, Any]) -> ClassMix:
    sizes: dict[str, Any] = {
        name: None if law is None else distribution_from_json(law)
        for name, law in values["sizes"].items()
    }
    return ClassMix(
        values["name"],
        from_plain(ClassShare, values["share"]),
        RequestSizes(**sizes),
        from_plain(float, values["token_rank_correlation"]),
    )


def describe_calibration(calibration: Calibration) -> list[str]:
    """Lines on what was fitted: where batches come from, service, noise, arrivals, policy."""
    lines = [f"batches: {calibration.batches_from}"]
    lines += [f"assumed: {sentence}" for sentence in calibration.assumed]
    if calibration.tokens is not None:
        lines += _described_tokens(calibration.tokens)
    else:
        lines += _described_service(calibration)
    if calibration.cold_starts is not None:
        starts = calibration.cold_starts
        low_s, high_s = starts.mean_interval_s
        lines.append(
            f"cold starts: {starts.cold_start_s:.3g} s [{low_s:.3g}, {high_s:.3g}], CV "
            f"{starts.cv:.2f}, {starts.distribution}, {starts.starts} measured"
        )
    if calibration.arrival_model is not None:
        model = calibration.arrival_model
        rate = model.rate_rps
        lines.append(
            f"arrivals: {model.name}, {rate.value:.4g} requests/s [{rate.low:.4g}, "
            f"{rate.high:.4g}]; {model.why}"
        )
    if calibration.policy is not None:
        policy = calibration.policy
        lines.append(f"policy: {policy.rule}, {policy.method}; {policy.text}")
    return lines


def _described_service(calibration: Calibration) -> list[str]:
    spells, path = calibration.spells, calibration.noise_path
    shared = f"slow spells: {spells.share:.0%} of the noise is shared by batches within about "
    resampled = f"; resampled from the path of {len(path.z)} batches" if path.exists else ""
    return [
        f"{shared}{spells.time_s:.2f} s{resampled}",
        *(
            f"replica {replica} {name}: {_described(cell)}"
            for replica, cells in enumerate(calibration.service)
            for name, cell in zip(calibration.class_names, cells, strict=True)
        ),
    ]


def _described(cell: CalibratedService) -> str:
    fit, error = cell.fit, "unknown, no batch held out"
    if cell.held_out_batches:
        error = f"{cell.held_out_error:.1%}"
    alpha, beta = f"{fit.alpha_s * 1e3:.2f} ms", f"{fit.beta_s * 1e3:.3f} ms"
    if cell.intervals is not None:
        low, high = cell.intervals.alpha_s.low, cell.intervals.alpha_s.high
        alpha += f" [{low * 1e3:.2f}, {high * 1e3:.2f}]"
        low, high = cell.intervals.beta_s.low, cell.intervals.beta_s.high
        beta += f" [{low * 1e3:.3f}, {high * 1e3:.3f}]"
    kind = "table" if cell.latency is not None and cell.latency.kind == "table" else "line"
    noise = "lognormal" if cell.noise is None else cell.noise.kind
    return (
        f"L = {alpha} + {beta} * b, {kind}; noise {noise}, CV {fit.noise_cv:.3f}; "
        f"held-out error {error}"
    )


def _described_tokens(tokens: TokenFit) -> list[str]:
    times = ", ".join(
        f"{name} {1e3 * time.value_s:.4g} ms [{1e3 * time.low_s:.4g}, {1e3 * time.high_s:.4g}]"
        for name, time in tokens.times.items()
    )
    limits = ", ".join(
        f"{name} {limit.value} ({limit.known.value})"
        for name, limit in zip(tokens.limits._fields, tokens.limits, strict=True)
    )
    return [
        f"continuous batching, {tokens.replicas} replicas, {tokens.routing.value}: {times}",
        f"limits: {limits}; median error of the token times {tokens.residual:.1%}",
    ]
