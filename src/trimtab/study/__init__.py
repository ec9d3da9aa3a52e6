"""Studies: measuring, comparing and drawing.

From low to high; each room imports only from those above it in this list:

    as_json                                values as JSON has them
    metrics, costs                         how good predictions are, and what they cost by formula
    outputs                                files that are handed over, each marked as trimtab's
    bench                                  methods x stores x orders, one record per run
    ablations, feature_map, theory, tune   questions that runs answer
    tables                                 what was found, as text and as data
    plots                                  what was found, drawn
    figures                                plots by their names
    report, demo                           tables and figures together
"""
