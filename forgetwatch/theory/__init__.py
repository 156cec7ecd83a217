"""The two-mode laboratory: what training does to an old and a new behaviour, in closed form or by a few equations.

    mixture           two modes, the flows of imitation and reinforcement, replay, finite batches
    near_on_policy    SDFT, TTT-Discover and OAPL: flows, conditions under which the old mass stays, bounds of the drift
    settings          all of them with their condition held and broken: `python -m forgetwatch.theory`

It needs numpy and scipy, and no torch. Each module says what is cited and what is derived here.
Read `mixture` first.
"""
