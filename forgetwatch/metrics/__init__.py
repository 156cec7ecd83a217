"""The quantities that forgetwatch reports: arrays in, small frozen results out.

    transitions   the four cells and their rates, known and lost
    chance        what guessing makes of them
    inference     intervals, paired tests, many groups, the change that can be seen
    trajectory    a run of looks: what was forgotten so far and what came back

Nothing here reads a file or imports torch.
"""
