"""Models that are served: questions asked over HTTP, and answers as the rows of a snapshot.

    address     http://HOST:PORT#NAME, and the key from the environment
    client      requests that outlast a busy server
    route       one trial: what the server proves that it can answer
    asking      an item ─▶ requests ─▶ its row
    served      a probe ─▶ Snapshot

Nothing here imports torch.
"""
