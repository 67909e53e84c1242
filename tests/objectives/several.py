"""Objectives of several classes, and of ordered ones, as fits make them."""

import numpy as np

from daskglm.certificates.constants import contrasts
from daskglm.losses.ordinal import link_of_loss
from daskglm.objectives.ordered import Ordered
from daskglm.objectives.primal import Objective
from daskglm.objectives.softmax import Softmax


def softmax_objective(engine, problem, loss, *, classes, weights, fit_intercept, **given):
    """That of classes along contrasts."""
    basis, shares = contrasts(len(classes)), np.asarray(weights, float)
    margins = Softmax(engine.facts.n_features, classes, shares, basis, fit_intercept)
    return Objective(engine, problem, loss, margins=margins, **given)


def ordered_objective(engine, problem, loss, *, classes, weights, **given):
    """That of ordered classes."""
    link, shares = link_of_loss(loss.name), np.asarray(weights, float)
    margins = Ordered(engine.facts.n_features, classes, shares, link)
    return Objective(engine, problem, loss, margins=margins, **given)
