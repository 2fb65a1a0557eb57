"""Runs a policy bundle: this one file needs NumPy and ONNX Runtime, and nothing of the project.

    runtime = Runtime("policies/ppo", deadline_s=0.002)
    decision = runtime.decide(features, action_mask)   # decision.action, decision.reason

    python runtime.py check policies/ppo               # hashes, schema and golden answers

The model decides unless it cannot be trusted on the input at hand; then the bundle's fallback rule
does, and `Runtime.counts` says how often and why. Units and order of the features, and what each
action means, are in manifest.json.
"""

import hashlib
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime

FORMAT, VERSION = "batchwright-policy-bundle", 1
MANIFEST_FILE, MODEL_FILE, GOLDEN_FILE = "manifest.json", "policy.onnx", "golden.npz"
WAIT = 0
RANGE_TOLERANCE = 1e-6  # of a feature's bound: float32 rounding is not out of range
SCORE_TOLERANCE = 1e-4  # of the row's largest score (at least 1): rounding between processors

# Reasons of a decision.
POLICY = "policy"  # the model decided; all others: the rule did
NOT_FINITE = "feature_not_finite"
OUT_OF_RANGE = "feature_out_of_range"
NO_LEGAL_ACTION = "no_legal_action"
MODEL_ERROR = "model_error"
INVALID_ANSWER = "invalid_answer"  # the model's ok is False, or its action is masked
LATE = "late"

# How each rule chooses the request class, and the replica among those that can take a batch.
RULES = {
    "static_cap": ("head_of_line", "first"),
    "batch_timeout": ("ready", "first"),
    "fifo": ("head_of_line", "soonest"),
    "c_mu": ("priority", "soonest"),
    "round_robin": ("head_of_line", "turn"),
    "random_replica": ("head_of_line", "first"),  # ties are random there, here the first
    "shortest_queue": ("head_of_line", "first"),
    "shortest_queue_first": ("head_of_line", "only_first"),
    "largest_batch": ("", ""),  # reads no feature
}
BY_CLASS = ("queue_length", "oldest_wait_s", "head_class")  # the features that rules read
BY_REPLICA = ("can_take", "last_replica")


class Decision(NamedTuple):
    """The action to take, and the reason: `policy`, or why the fallback rule was asked."""

    action: int
    reason: str


def read_manifest(folder: Path, manifest_sha256: str | None = None) -> dict[str, Any]:
    """The manifest, after its format and the hash of every file it lists have been checked.

    `manifest_sha256` pins the manifest itself. Raises ValueError naming what does not fit.
    """
    content = (folder / MANIFEST_FILE).read_bytes()
    if manifest_sha256 is not None and hashlib.sha256(content).hexdigest() != manifest_sha256:
        raise ValueError(f"{MANIFEST_FILE}: sha256 is not the pinned {manifest_sha256}")
    manifest: dict[str, Any] = json.loads(content)
    if (manifest.get("format"), manifest.get("version")) != (FORMAT, VERSION):
        raise ValueError(
            f"{MANIFEST_FILE}: {manifest.get('format')!r} version {manifest.get('version')!r}: "
            f"this runtime reads {FORMAT!r} version {VERSION}"
        )
    if not {MODEL_FILE, GOLDEN_FILE} <= manifest["files"].keys():
        raise ValueError(f"{MANIFEST_FILE}: files must list {MODEL_FILE} and {GOLDEN_FILE}")
    for name, expected in manifest["files"].items():
        if not (folder / name).is_file():
            raise ValueError(f"{name}: listed in {MANIFEST_FILE}, but absent")
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != expected:
            raise ValueError(f"{name}: sha256 is not the one in {MANIFEST_FILE}: file was changed")
    return manifest


def open_session(model: Path | bytes) -> onnxruntime.InferenceSession:
    """A single-threaded session that does not spin: it shares the host with the engine."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    source = model if isinstance(model, bytes) else str(model)
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def _check_model(session: onnxruntime.InferenceSession, manifest: dict[str, Any]) -> None:
    told = session.get_modelmeta().custom_metadata_map
    expected = {
        "batchwright.version": VERSION,
        "batchwright.features": [feature["name"] for feature in manifest["features"]],
        "batchwright.actions": manifest["actions"],
    }
    for key, value in expected.items():
        if json.loads(told.get(key, "null")) != value:
            raise ValueError(f"{MODEL_FILE}: {key} contradicts {MANIFEST_FILE}")
    shapes = {value.name: value.shape[1] for value in session.get_inputs()}
    sizes = {"features": len(manifest["features"]), "action_mask": len(manifest["actions"])}
    if shapes != sizes:
        raise ValueError(f"{MODEL_FILE}: inputs {shapes}: must be {sizes}")


class FallbackRule:
    """The manifest's rule, computed from the feature vector alone. Ties go to the first."""

    def __init__(self, manifest: dict[str, Any]) -> None:
        fallback = manifest["fallback"]
        self._class_by, self._replica_by = RULES[fallback["rule"]]
        self._parameters, names = fallback["parameters"], manifest["class_names"]
        self._number = {
            (row["replica"], row["request_class"], row["batch_size"]): number
            for number, row in enumerate(manifest["actions"])
        }
        self._menu = sorted({row["batch_size"] for row in manifest["actions"][1:]})
        self._alpha_s, self._beta_s = fallback["alpha_s"], fallback["beta_s"]  # [K][C] s
        self._replicas = range(len(self._alpha_s))
        self._priority = np.array(fallback["class_priority"])  # [C], higher first
        self._slot = names if fallback["class_choice"] == "any" else [None] * len(names)
        if self._class_by == "ready" and self._slot != names:
            self._class_by = "ready_head_of_line"
        size = self._parameters.get("batch_size", self._parameters.get("max_batch_size", np.inf))
        sizes = [size[name] if isinstance(size, dict) else size for name in names]
        self._limit = [[min(size, most) for size in sizes] for most in fallback["max_batch_size"]]
        position = {feature["name"]: i for i, feature in enumerate(manifest["features"])}
        keys = {**dict.fromkeys(BY_CLASS, names), **dict.fromkeys(BY_REPLICA, self._replicas)}
        self._position = {}  # of each gauge's features in the vector
        if self._class_by:
            self._position = {g: [position[f"{g}.{key}"] for key in keys[g]] for g in keys}

    def action(self, features: np.ndarray, action_mask: np.ndarray) -> int:
        """The rule's action for features `[F]` and mask `[A]`.

        Where the rule cannot read its features, or the mask contradicts them: the largest legal
        batch, so that work never stands still for a broken gauge; WAIT if nothing may be sent.
        The rule `largest_batch` does that always.
        """
        gauges = {name: features[position] for name, position in self._position.items()}
        if gauges and all(np.isfinite(values).all() for values in gauges.values()):
            action = self._send(gauges, self._request_class(gauges))
            if action_mask[action]:
                return action
        sizes = {number: key[2] for key, number in self._number.items() if action_mask[number]}
        return max(sizes, key=lambda number: (sizes[number], -number), default=WAIT)

    def _request_class(self, gauges: dict[str, np.ndarray]) -> int | None:
        """The class to send now; None to wait."""
        waiting, wait_s = gauges["queue_length"], gauges["oldest_wait_s"]
        eligible = waiting > 0
        if "head" in self._class_by:
            eligible &= gauges["head_class"] > 0.5
        if "ready" in self._class_by:
            # Both sides rounded to float32: a wait that has just reached the timeout counts.
            due = wait_s >= np.float32(self._parameters["batch_timeout_s"])
            eligible &= due | (waiting >= self._parameters["max_batch_size"])
        elif self._class_by == "priority":
            eligible &= self._priority == np.where(eligible, self._priority, -1.0).max()
        return int(np.where(eligible, wait_s, -1.0).argmax()) if eligible.any() else None

    def _send(self, gauges: dict[str, np.ndarray], request_class: int | None) -> int:
        """A batch of the class, to the replica of least cost."""
        if request_class is None:
            return WAIT
        waiting = int(gauges["queue_length"][request_class])
        costs: list[tuple[float, int]] = []
        for replica in self._replicas:
            limit = self._limit[replica][request_class]
            allowed = [size for size in self._menu if size <= limit]
            covers = (size for size in allowed if size >= min(waiting, limit))
            size = next(covers, allowed[-1])  # the batch is clipped to the queue
            alpha_s = self._alpha_s[replica][request_class]
            service_s = alpha_s + self._beta_s[replica][request_class] * min(waiting, size)
            cost = self._cost(gauges, replica, service_s)
            if gauges["can_take"][replica] > 0 and np.isfinite(cost):
                costs.append((cost, self._number[replica, self._slot[request_class], size]))
        # Equal costs: actions are numbered by replica, so the least action is the first replica.
        return min(costs, default=(0.0, WAIT))[1]

    def _cost(self, gauges: dict[str, np.ndarray], replica: int, service_s: float) -> float:
        if self._replica_by == "soonest":
            return service_s
        if self._replica_by == "turn":
            used = np.flatnonzero(gauges["last_replica"] > 0.5)
            away = (replica - (int(used[0]) if len(used) else -1) - 1) % len(self._replicas)
            blocking = self._parameters.get("on_busy") == "blocking"
            return np.inf if blocking and away else float(away)
        return np.inf if self._replica_by == "only_first" and replica else 0.0


class Runtime:
    """A checked bundle, ready to decide.

    deadline_s: an answer that took longer is not used, the rule's is; the model is not interrupted.
    Raises ValueError where the bundle was changed or does not fit together.
    """

    def __init__(
        self,
        folder: str | Path,
        deadline_s: float | None = None,
        manifest_sha256: str | None = None,
    ) -> None:
        self.manifest = read_manifest(Path(folder), manifest_sha256)
        self._session = open_session(Path(folder) / MODEL_FILE)
        _check_model(self._session, self.manifest)
        self._rule = FallbackRule(self.manifest)
        self._deadline_s = np.inf if deadline_s is None else deadline_s
        features = self.manifest["features"]
        low = np.array([-np.inf if f["low"] is None else f["low"] for f in features])
        high = np.array([np.inf if f["high"] is None else f["high"] for f in features])
        self._low = low - RANGE_TOLERANCE * np.maximum(1.0, np.abs(low))
        self._high = high + RANGE_TOLERANCE * np.maximum(1.0, np.abs(high))
        self.counts: Counter[str] = Counter()  # decisions by reason

    def decide(self, features: np.ndarray, action_mask: np.ndarray) -> Decision:
        """One decision from features `[F]` in natural units and legal actions `[A]` bool.

        Raises ValueError where a length differs from the manifest's.
        """
        begin_s = time.perf_counter()
        row, mask = np.asarray(features, np.float32), np.asarray(action_mask, bool)
        expected = (len(self._low),), (len(self.manifest["actions"]),)
        if (row.shape, mask.shape) != expected:
            raise ValueError(
                f"features, action_mask: {row.shape}, {mask.shape}: must be {expected}"
            )
        action, reason = self._ask_model(row, mask)
        if reason == POLICY and time.perf_counter() - begin_s > self._deadline_s:
            reason = LATE
        if reason != POLICY:
            action = self._rule.action(row, mask)
        self.counts[reason] += 1
        return Decision(action, reason)

    def _ask_model(self, row: np.ndarray, mask: np.ndarray) -> Decision:
        if not np.isfinite(row).all():
            return Decision(WAIT, NOT_FINITE)
        if (row < self._low).any() or (row > self._high).any():
            return Decision(WAIT, OUT_OF_RANGE)
        if not mask.any():
            return Decision(WAIT, NO_LEGAL_ACTION)
        try:
            inputs = {"features": row[None], "action_mask": mask[None]}
            answer, ok = self._session.run(["action", "ok"], inputs)
        except Exception:  # whatever breaks inside the model, the dispatcher must go on
            return Decision(WAIT, MODEL_ERROR)
        action = int(answer[0])
        if not ok[0] or not 0 <= action < len(mask) or not mask[action]:
            return Decision(WAIT, INVALID_ANSWER)
        return Decision(action, POLICY)


def near_ties(scores: np.ndarray, action_mask: np.ndarray, action: np.ndarray) -> np.ndarray:
    """Where `action [n]` has the best of `scores [n, A]`, or one within rounding of it: `[n]`."""
    largest = np.abs(np.where(action_mask, scores, 0.0)).max(axis=1)
    gap = scores.max(axis=1) - scores[np.arange(len(action)), action]
    return np.asarray(gap <= SCORE_TOLERANCE * np.maximum(1.0, largest))


def check(folder: str | Path) -> tuple[bool, str]:
    """Whether the bundle answers its golden inputs as when it was made, and a report."""
    session = Runtime(folder)._session
    with np.load(Path(folder) / GOLDEN_FILE, allow_pickle=False) as file:
        golden = {name: file[name] for name in file.files}
    inputs = {name: golden[name] for name in ("features", "action_mask")}
    scores, action, ok = session.run(["scores", "action", "ok"], inputs)
    good = near_ties(golden["scores"], golden["action_mask"], action) & (ok == golden["ok"])
    report = (
        f"golden check {'passed' if good.all() else 'FAILED'}: "
        f"{good.sum()} of {len(good)} answers as recorded, "
        f"{(action != golden['action']).sum()} actions differ, "
        f"largest score difference {np.abs(scores - golden['scores']).max():.1e}"
    )
    return bool(good.all()), report


def main(arguments: list[str]) -> int:
    """`check <folder>` prints the report; 0 if the bundle may be used."""
    if len(arguments) != 2 or arguments[0] != "check":
        print("usage: python runtime.py check <folder>", file=sys.stderr)
        return 2
    try:
        good, report = check(arguments[1])
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(report)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
