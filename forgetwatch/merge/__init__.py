"""Points between two models: merged in memory, scored, compared with both ends (`forgetwatch merge`).

    A, B ─▶ weights ─▶ sweep ─▶ report

    alike       do two models compute alike, and cut text alike?
    weights     the points between two models, made in memory; an adapter is scaled
    sweep       the points, scored and compared with both ends
    choice      the point that keeps a share of what was known
    report      a sweep as tables, page, Markdown, JSON and CSV

Start with `weights`.
"""
