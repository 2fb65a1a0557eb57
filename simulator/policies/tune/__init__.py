"""`tune` rules: set-points and the number of replicas."""
