"""What the bundle's runtime decides, what it hands to the rule, and what it refuses to load."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from pipeline.bundle import runtime
from pipeline.bundle.runtime import Decision, Runtime


@pytest.fixture
def bundle(exported, tmp_path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(exported, tmp_path / "bundle"))


def test_the_runtime_decides_as_the_network_one_request_at_a_time(source, exported):
    decide = Runtime(exported)
    rows = range(0, 10_000, 50)
    for row in rows:
        features, mask = source.features[[row]], source.action_mask[[row]]
        with torch.inference_mode():
            scores = source.network(torch.from_numpy(features), torch.from_numpy(mask))
        decision = decide.decide(features[0], mask[0])
        assert decision == Decision(int(scores.argmax()), "policy")
    assert decide.counts == {"policy": len(rows)}


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("utilization.0", np.nan, "feature_not_finite"),
        ("arrival_rate_rps.fast", np.inf, "feature_not_finite"),
        ("utilization.0", 1.5, "feature_out_of_range"),
        ("response_p95_s", -0.1, "feature_out_of_range"),
    ],
)
def test_a_feature_that_cannot_be_trusted_hands_the_decision_to_the_rule(
    source, exported, name, value, reason
):
    decide, rule = Runtime(exported), runtime.FallbackRule(Runtime(exported).manifest)
    for row in range(0, 2000, 40):
        features = source.features[row].copy()
        features[source.description["features"].index(name)] = value
        decision = decide.decide(features, source.action_mask[row])
        expected = rule.action(source.features[row], source.action_mask[row])
        assert decision == Decision(expected, reason)
    assert decide.counts == {reason: 50}


def test_float32_rounding_at_a_bound_is_not_out_of_range(source, exported):
    features = source.features[0].copy()
    number = source.description["features"].index("utilization.0")
    features[number] = np.nextafter(np.float32(1), np.float32(2))
    assert Runtime(exported).decide(features, source.action_mask[0]).reason == "policy"


def test_no_legal_action_is_answered_with_wait(source, exported):
    decide = Runtime(exported)
    nothing = np.zeros(source.network.actions, bool)
    assert decide.decide(source.features[0], nothing) == Decision(0, "no_legal_action")


def test_a_late_answer_is_not_used(source, exported):
    decide = Runtime(exported, deadline_s=0.0)
    rule = runtime.FallbackRule(decide.manifest)
    for row in range(50):
        features, mask = source.features[row], source.action_mask[row]
        assert decide.decide(features, mask) == Decision(rule.action(features, mask), "late")
    in_time = Runtime(exported, deadline_s=60.0)
    assert in_time.decide(source.features[0], source.action_mask[0]).reason == "policy"


@pytest.mark.parametrize(("features", "actions"), [(19, 17), (21, 17), (20, 16)])
def test_a_wrong_number_of_features_or_actions_is_an_error_of_the_caller(
    exported, features, actions
):
    decide = Runtime(exported)
    with pytest.raises(ValueError, match=r"must be \(\(20,\), \(17,\)\)"):
        decide.decide(np.zeros(features), np.ones(actions, bool))


@pytest.mark.parametrize("name", ["policy.onnx", "golden.npz", "CARD.md", "runtime.py"])
def test_a_changed_file_is_refused_by_name(bundle, name):
    content = bytearray((bundle / name).read_bytes())
    content[len(content) // 2] ^= 1
    (bundle / name).write_bytes(bytes(content))
    with pytest.raises(ValueError, match=f"{name}: sha256"):
        Runtime(bundle)


def change_manifest(bundle: Path, change) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    change(manifest)
    (bundle / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(version=2), "this runtime reads"),
        (lambda m: m.update(format="other"), "this runtime reads"),
        (lambda m: m["features"].reverse(), "batchwright.features contradicts"),
        (lambda m: m["features"].pop(), "batchwright.features contradicts"),
        (lambda m: m["actions"][1].update(batch_size=2), "batchwright.actions contradicts"),
        (lambda m: m["files"].pop("policy.onnx"), "must list policy.onnx"),
        (lambda m: m["files"].update(more="0"), "more: listed in manifest.json, but absent"),
    ],
)
def test_a_manifest_that_does_not_fit_the_model_is_refused(bundle, change, message):
    change_manifest(bundle, change)
    with pytest.raises(ValueError, match=message):
        Runtime(bundle)


def test_a_pinned_manifest_refuses_any_change(bundle):
    pinned = hashlib.sha256((bundle / "manifest.json").read_bytes()).hexdigest()
    Runtime(bundle, manifest_sha256=pinned)
    change_manifest(bundle, lambda m: m["fallback"].update(parameters={"batch_size": 8}))
    Runtime(bundle)  # nothing else would notice
    with pytest.raises(ValueError, match=r"manifest\.json: sha256"):
        Runtime(bundle, manifest_sha256=pinned)


def replace_model(bundle: Path, fails: bool) -> None:
    """Another model under the same metadata: it fails, or answers action 5 whatever is legal."""
    old = onnx.load(bundle / "policy.onnx")
    helper, kinds = onnx.helper, onnx.TensorProto
    shape = helper.make_tensor("shape", kinds.INT64, [1], [7])  # no 20 features fit in there
    answers = (("action", kinds.INT64, [5]), ("ok", kinds.BOOL, [True]))
    nodes = [
        helper.make_node("Constant", [], [name], value=helper.make_tensor(name, kind, [1], value))
        for name, kind, value in answers
    ]
    nodes.append(
        helper.make_node("Reshape", ["features", "shape"], ["scores"])
        if fails
        else helper.make_node("Identity", ["features"], ["scores"])
    )
    graph = helper.make_graph(
        nodes,
        "other",
        old.graph.input,
        [
            helper.make_tensor_value_info("scores", kinds.FLOAT, None),
            *(helper.make_tensor_value_info(name, kind, [1]) for name, kind, _ in answers),
        ],
        [shape] if fails else [],
    )
    model = helper.make_model(graph, opset_imports=old.opset_import, ir_version=old.ir_version)
    model.metadata_props.extend(old.metadata_props)
    onnx.save(model, bundle / "policy.onnx")
    digest = hashlib.sha256((bundle / "policy.onnx").read_bytes()).hexdigest()
    change_manifest(bundle, lambda m: m["files"].update({"policy.onnx": digest}))


def test_an_illegal_answer_of_the_model_is_not_passed_on(bundle, source):
    replace_model(bundle, fails=False)
    decide = Runtime(bundle)
    features, mask = source.features[0], np.ones(17, bool)
    assert decide.decide(features, mask) == Decision(5, "policy")
    mask[5] = False
    action, reason = decide.decide(features, mask)
    assert reason == "invalid_answer"
    assert mask[action]


def test_a_model_that_fails_does_not_stop_the_dispatcher(bundle, source):
    replace_model(bundle, fails=True)
    decide = Runtime(bundle)
    features, mask = source.features[0], source.action_mask[0]
    with pytest.raises(Exception, match="Reshape"):
        runtime.open_session(bundle / "policy.onnx").run(
            ["scores"], {"features": features[None], "action_mask": mask[None]}
        )
    expected = runtime.FallbackRule(decide.manifest).action(features, mask)
    assert decide.decide(features, mask) == Decision(expected, "model_error")


ALONE = """
import sys
class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "simulator", "pipeline", "onnx", "numba", "polars"}:
            raise ImportError(name + " is not there")
sys.meta_path.insert(0, Forbidden())
import json
import numpy as np
from runtime import Runtime, main
assert main(["check", "."]) == 0
golden = np.load("golden.npz", allow_pickle=False)
decide = Runtime(".")
good = np.flatnonzero(golden["ok"])[:100]
answers = [decide.decide(golden["features"][i], golden["action_mask"][i]) for i in good]
assert [a.action for a in answers] == golden["action"][good].tolist()
row = golden["features"][0].copy(); row[:] = np.nan
print(json.dumps([*decide.decide(row, golden["action_mask"][0]), dict(decide.counts)]))
"""


def test_the_bundle_works_where_only_numpy_and_onnx_runtime_are(bundle):
    environment_variables = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    told = subprocess.run(
        [sys.executable, "-c", ALONE],
        cwd=bundle,
        env=environment_variables,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert told[0].startswith("golden check passed: 1027 of 1027 answers as recorded, 0 actions")
    _, reason, counts = json.loads(told[1])
    assert reason == "feature_not_finite"
    assert counts == {"policy": 100, "feature_not_finite": 1}


def test_the_golden_check_finds_another_model_with_fitting_hashes(bundle, capsys):
    model = onnx.load(bundle / "policy.onnx")
    weights = max(model.graph.initializer, key=lambda tensor: np.prod(tensor.dims))
    other = -onnx.numpy_helper.to_array(weights)
    weights.CopyFrom(onnx.numpy_helper.from_array(other, weights.name))
    onnx.save(model, bundle / "policy.onnx")
    digest = hashlib.sha256((bundle / "policy.onnx").read_bytes()).hexdigest()
    change_manifest(bundle, lambda m: m["files"].update({"policy.onnx": digest}))
    assert runtime.main(["check", str(bundle)]) == 1
    assert "golden check FAILED" in capsys.readouterr().out


def test_the_command_line_tells_errors_in_one_line(bundle, capsys):
    (bundle / "policy.onnx").write_bytes(b"spoiled")
    assert runtime.main(["check", str(bundle)]) == 1
    assert capsys.readouterr().err.startswith("error: policy.onnx: sha256")
    assert runtime.main(["check"]) == 2
    assert runtime.main(["check", str(bundle / "absent")]) == 1
