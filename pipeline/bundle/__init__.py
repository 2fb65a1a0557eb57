"""The policy bundle: what a serving team deploys, and how it is made and checked."""
