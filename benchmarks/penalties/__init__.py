"""Races of penalised fits: lasso, elastic net, their paths and folds, beside other packages."""
