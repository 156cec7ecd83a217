"""Follow a training from another process: score each checkpoint once, as soon as it is complete.

    folders     the checkpoints of a training as another process sees them
    queue       the order in which they are scored, and the end of it
    follower    what scores them, and stores the looks in a run folder of its own

Start with `follower`.
"""
