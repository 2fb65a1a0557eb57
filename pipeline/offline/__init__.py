"""Offline agents, trained on transitions through d3rlpy.

d3rlpy itself takes seconds to import, so `training` does it inside `train_offline`. It brings gym
along, which prints a notice about its own age unless its list of notices is empty.
"""

from gym_notices.notices import notices

notices.clear()
