"""Gates: limits that a comparison has to keep for a pipeline to continue.

    condition      a quantity of a group set against a number: category:Math.forgetting>5%
    policy         limits in three tiers with one error, as YAML or of options; the policies that are shipped
    ruling         a policy applied to two models

A gate never passes for lack of a number. PASS, FAIL and INCONCLUSIVE of accuracy are those of
`comparing.verdict`. Start with `policy`.
"""
