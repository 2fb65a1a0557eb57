"""`dispatch` rules about which request class goes first, and to which replica."""
