"""From serving logs to gated policies: the stages of dvc.yaml and what they call."""
