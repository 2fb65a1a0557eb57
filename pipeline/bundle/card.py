"""CARD.md: the bundle described for the person who is asked to deploy it."""

from collections.abc import Sequence
from typing import Any

TEMPLATE = """\
# {name}

A learned dispatch policy for {replicas} replica(s) and the request classes {classes}, trained
with `{algorithm}` (seed {seed}) in a simulator that was calibrated to serving logs. It scores
{actions} actions from {features} features.

## Results

Test split, policy in the calibrated simulator, each with its interval.

{results}

## Use

Needs NumPy and ONNX Runtime; `runtime.py` is self-contained.

```python
from runtime import Runtime

runtime = Runtime("{name}", deadline_s=0.002)
action, reason = runtime.decide(features, action_mask)
```

`features` are in the order, in the units and within the ranges below, as they are, not normalized.
`action_mask` is True where an action is legal now: the replica can take a batch, the class has a
request waiting, the size is at most the replica's maximum. A size above the queue length sends the
whole queue. Action 0 waits: ask again {when}.

`python runtime.py check .` compares hashes and the recorded answers. Do it on the machine that
serves.

## When it is not the model that decides

The rule `{rule}`{parameters}
does, where a feature is NaN, infinite or outside its range, no action is legal, the model fails or
answers with an illegal action, or its answer takes longer than `deadline_s` (the model is not
interrupted: the answer is then ignored). `runtime.counts` holds the decisions by reason: watch the
share that is not `policy`.

## Limits

- It has seen the load, the classes and the replicas of its training only. Another model, another
  number of replicas or a drift out of the feature ranges calls for a new calibration and training.
- Its results are those of a simulator; the error of the calibration is in the report, not in the
  intervals.

## Features

{feature_table}

## Actions

{action_table}

## Origin

{hashes}
"""


def _table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def _results(results: Sequence[dict[str, Any]]) -> str:
    if not results:
        return "None recorded."
    rows = [
        (
            r["metric"] + (f", difference from {r['against']}" if r["against"] else ""),
            r["unit"],
            f"{r['value']:.4g}",
            f"{r['low']:.4g} to {r['high']:.4g} ({r['level']:.0%})",
        )
        for r in results
    ]
    return _table(["figure", "unit", "value", "interval"], rows)


def card_text(manifest: dict[str, Any]) -> str:
    """The card of a manifest, Markdown."""
    features, actions = manifest["features"], manifest["actions"]
    fallback = manifest["fallback"]
    bounds = {None: "unbounded"}
    feature_rows = [
        (i, f"`{f['name']}`", f["unit"], f["low"], bounds.get(f["high"], f["high"]))
        for i, f in enumerate(features)
    ]
    action_rows = [
        (i, a["replica"], a["request_class"] or "head of line", a["batch_size"])
        for i, a in enumerate(actions)
        if a["batch_size"]
    ]
    hashes = [(name, f"`{value}`") for name, value in sorted(manifest["hashes"].items())]
    tick_s = f"{manifest['tick_s']:g} s"
    at_events = manifest["decision_epochs"] == "events"
    return TEMPLATE.format(
        when=f"at the next arrival or completion, {tick_s} later at most"
        if at_events
        else f"at the next multiple of {tick_s}",
        name=manifest["name"],
        replicas=len(fallback["max_batch_size"]),
        classes=", ".join(f"`{name}`" for name in manifest["class_names"]),
        algorithm=manifest["algorithm"],
        seed=manifest["seed"],
        actions=len(actions),
        features=len(features),
        results=_results(manifest["results"]),
        rule=fallback["rule"],
        parameters="".join(f", `{k} = {v}`" for k, v in fallback["parameters"].items()),
        feature_table=_table(["number", "name", "unit", "least", "most"], feature_rows),
        action_table=_table(
            ["action", "replica", "request class", "batch size"],
            [(0, "", "wait", ""), *action_rows],
        ),
        hashes=_table(["sha256 of", "value"], hashes),
    )
