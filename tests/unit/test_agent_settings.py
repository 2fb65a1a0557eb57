"""Hyperparameters are checked where they enter."""

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.agents.settings import PPOSettings, ReinforceSettings


@pytest.mark.parametrize("settings", [PPOSettings, ReinforceSettings])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("steps", 0),
        ("lanes", 0),
        ("minibatch", 0),
        ("learning_rate", 0.0),
        ("learning_rate", float("inf")),
        ("discount", 1.5),
        ("discount_rate", -1.0),
        ("entropy_weight", float("nan")),
        ("network", "lstm"),
        ("hidden", ()),
        ("value_hidden", (64, 0)),
        ("validate_every", -1),
    ],
)
def test_a_bad_value_is_refused_by_name(settings, field, value):
    with pytest.raises(ValueError, match=f"^{field} = "):
        settings(**{field: value})


@pytest.mark.parametrize(
    ("settings", "field", "value"),
    [
        (PPOSettings, "gae_lambda", 1.1),
        (PPOSettings, "clip_range", 0.0),
        (PPOSettings, "epochs", 0),
        (PPOSettings, "rollout_steps", 0),
        (ReinforceSettings, "value_epochs", 0),
        (ReinforceSettings, "max_episode_steps", 0),
    ],
)
def test_a_bad_value_of_one_algorithm_is_refused_by_name(settings, field, value):
    with pytest.raises(ValueError, match=f"^{field} = "):
        settings(**{field: value})


def test_reading_settings_does_not_load_torch():
    program = "import sys, pipeline.agents.settings; sys.exit('torch' in sys.modules)"
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", program], cwd=root, check=False).returncode == 0
