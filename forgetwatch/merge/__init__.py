"""Points between two models: merged in memory, scored, compared with both ends (`forgetwatch merge`).

    A, B ─▶ weights ─▶ sweep ─▶ report

    weights           two models in memory that compute alike, and the points between them; an adapter is scaled
    sweep             the points: scored, compared with both ends, and the one that keeps a share of what was known
    report            a sweep as tables, page, Markdown, JSON and CSV

Start with `weights`.
"""
