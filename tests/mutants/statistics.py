"""Faults in statistics of fits, inference, cross-validation, checkpoints and estimators."""

from tests.mutants.fault import Fault

FAULTS = [
    # ---- fitting
    Fault(
        "clusters: the factor (n - 1) is n",
        "fitting/covariance.py",
        "factor = count / (count - 1.0) * (n - 1.0) / _left(",
        "factor = count / (count - 1.0) * n / _left(",
        "fitting/test_covariance.py estimators/test_inference.py",
    ),
    Fault(
        "likelihood: dispersion over rows though weights are frequencies",
        "fitting/likelihoods.py",
        "rows = family.variance_by_weight and not self.frequency",
        "rows = family.variance_by_weight",
        "estimators/test_inference.py::test_criteria_of_frequencies_are_those_of_repeated_rows"
        " estimators/test_inference.py",
    ),
    Fault(
        "inference: the intercept is taken to be penalised",
        "fitting/inference.py",
        "    if settings.fit_intercept:\n        ridge[-1] = 0.0\n    return ridge",
        "    return ridge",
        "estimators/test_inference.py estimators/test_fitted_record.py",
    ),
    Fault(
        "dispersion: rows of weight zero count in the degrees of freedom",
        "fitting/statistics.py",
        "free = facts.n_used - objective.size",
        "free = facts.n_rows - objective.size",
        "fitting/test_statistics.py estimators/test_families.py",
    ),
    Fault(
        "null deviance of least squares: the half of the fall is lost",
        "fitting/statistics.py",
        "fall = 0.5 * float(origin.gradient[-1]) ** 2",
        "fall = float(origin.gradient[-1]) ** 2",
        "estimators/test_families.py fitting/test_statistics.py",
    ),
    Fault(
        "null model: offsets ignored, no search for the best constant",
        "fitting/null_model.py",
        "        if not search:\n            return at([start])[0]\n"
        "        return least_of_several(at, start, smooth=True, convex=loss.convex, enough=SAME_VALUE)",
        "        return at([start])[0]",
        "estimators/test_inference.py fitting/test_inference.py",
    ),
    Fault(
        "one standard error: the first strength within it, not the largest",
        "fitting/held_out.py",
        "return int(within[np.argmax(alphas[within])])",
        "return int(within[0])",
        "estimators/test_penalty_cv.py",
    ),
    Fault(
        "D^2 held out: sign of the divergence between means",
        "fitting/held_out.py",
        'of_mean = sums["constant"] - weight * between',
        'of_mean = sums["constant"] + weight * between',
        "estimators/test_family_cv.py",
    ),
    Fault(
        "folds: rows that are neither trained on nor held out are scored",
        "fitting/cv_splits.py",
        "return np.flatnonzero(roles[folds.groups] == TEST)",
        "return np.flatnonzero(roles[folds.groups] != TRAIN)",
        "fitting/test_cv_splits.py",
    ),
    Fault(
        "mark of rows: classes without weight count",
        "fitting/record.py",
        "for label, _, weight in facts.classes if weight > 0.0)",
        "for label, _, weight in facts.classes)",
        "fitting/test_record.py estimators/test_likelihood_ratio.py"
        " fitting/test_weightless_classes.py",
    ),
    Fault(
        "report of several problems: a shared history is told once for each",
        "fitting/report.py",
        "history=[record for history in histories.values() for record in history],",
        "history=[record for part in parts for record in part.history],",
        "solvers/test_batched_newton.py fitting/test_grid_checkpoint.py",
    ),
    Fault(
        "standardised multinomial: scales of columns in the wrong order",
        "fitting/penalised.py",
        "np.tile(scale, sets)",
        "np.repeat(scale, sets)",
        "integration/test_multinomial_penalties.py"
        "::test_standardised_columns_have_the_coefficients_of_scaled_ones"
        " integration/test_multinomial_penalties.py",
    ),
    Fault(
        "checkpoint of other data: 'or' -> 'and', sums are not compared",
        "fitting/checkpoint.py",
        "if len(self.sums) != len(other.sums) or not np.allclose(",
        "if len(self.sums) != len(other.sums) and not np.allclose(",
        "fitting/test_checkpoint.py::test_another_solver_or_problem_or_data_is_refused"
        " fitting/test_path_checkpoint.py",
    ),
    Fault(
        "checkpoint of a resumed fit: iterations before it are forgotten",
        "fitting/checkpoint.py",
        '"iteration": self.before + iteration,',
        '"iteration": iteration,',
        "fitting/test_checkpoint.py fitting/test_grid_checkpoint.py",
    ),
    Fault(
        "resumed path: fits that ended above tol are taken as finished",
        "fitting/path_checkpoint.py",
        "key: list(takewhile(lambda fitted: fitted.converged, path))",
        "key: list(path)",
        "fitting/test_path_checkpoint.py::test_fits_that_ended_above_tol_are_solved_again"
        " fitting/test_path_checkpoint.py",
    ),
    Fault(
        "checkpoint: the number of finished problems is not checked",
        "fitting/checkpoint_schema.py",
        'if finished.shape != (about["problem"], size) or',
        "if finished.shape[1:] != (size,) or",
        "fitting/test_checkpoint_schema.py",
    ),
    Fault(
        "path of least squares: goes on from a point that was not evaluated",
        "fitting/warm_path.py",
        "self.point = point if point.prediction is None else point.prediction.base",
        "self.point = point",
        "fitting/test_warm_path.py",
    ),
    Fault(
        "shared passes: the least gap of all paths is told, not the largest",
        "fitting/shared_paths.py",
        "gap = max(point.relative_gap for point in points)",
        "gap = min(point.relative_gap for point in points)",
        "fitting/test_shared_paths.py",
    ),
    Fault(
        "Huber's scale: how far the best one is, max -> min",
        "fitting/huber_scale.py",
        "far = max(scale, value / weight - scale)",
        "far = min(scale, value / weight - scale)",
        "fitting/test_huber_scale.py estimators/test_huber.py",
    ),
    Fault(
        "Huber's scale: bound without what the coefficients gain",
        "fitting/huber_scale.py",
        "return _Seen(fit, scale, value, bound + slope * far, pull)",
        "return _Seen(fit, scale, value, slope * far, pull)",
        "fitting/test_huber_scale.py estimators/test_huber.py",
    ),
    Fault(
        "estimated power: the dispersion is no parameter of the criteria",
        "fitting/family_parameter.py",
        'Search("tweedie(1.5)", _likeliest_power, 0.4, 2)',
        'Search("tweedie(1.5)", _likeliest_power, 0.4, 1)',
        "fitting/test_family_parameter.py::test_the_power_is_the_most_likely_one"
        " fitting/test_family_parameter.py",
    ),
    Fault(
        "separation of several classes: a column below zero in all tells them apart",
        "fitting/separation.py",
        " & ~above.all(axis=0) & ~below.all(axis=0)",
        " & ~above.all(axis=0)",
        "fitting/test_separation.py fitting/test_unpenalised.py integration/test_multinomial.py",
    ),
    Fault(
        "several optima: ends within the tolerance are apart, max -> min",
        "fitting/other_starts.py",
        "max(tol * abs(value), SAME_VALUES * abs(constant))",
        "min(tol * abs(value), SAME_VALUES * abs(constant))",
        "fitting/test_unproved.py",
    ),
    Fault(
        "error of coefficients by the duality gap: sqrt(2 gap) -> sqrt(gap)",
        "fitting/coefficients.py",
        "bound = math.sqrt(2.0 * max(gap, 0.0) / strong)",
        "bound = math.sqrt(max(gap, 0.0) / strong)",
        "fitting/test_coefficients.py",
    ),
    # ---- estimators
    Fault(
        "criteria of an inference: an estimated parameter of the family does not count",
        "estimators/inference.py",
        "return self.found.df_model + (fixed_dispersion(loss) is None) + found",
        "return self.found.df_model + (fixed_dispersion(loss) is None)",
        "estimators/test_fitted_record.py estimators/test_inference.py",
    ),
    Fault(
        "intervals of means: ends are not kept where the link has means",
        "estimators/inference_prediction.py",
        "    if link.is_bounded:  # margins that no mean has are its end\n"
        "        ends = tuple(np.clip(end, link.low, link.high) for end in ends)\n",
        "",
        "estimators/test_inference_prediction.py estimators/test_infer.py",
    ),
    Fault(
        "likelihood ratio: a larger model that fits worse passes",
        "estimators/likelihood_ratio.py",
        "if less < -SAME * max(small.deviance, 1.0):",
        "if less < -max(small.deviance, 1.0):",
        "estimators/test_likelihood_ratio.py",
    ),
    Fault(
        "balanced accuracy: a class that a fold lacks counts as missed",
        "estimators/scorers.py",
        "return (sides * there).sum(axis=0) / there.sum(axis=0)",
        "return sides.mean(axis=0)",
        "estimators/test_scorers.py estimators/test_cross_validation.py",
    ),
    Fault(
        "R^2: spread between the means of partitions is lost",
        "estimators/score_rows.py",
        "spread = a.spread + b.spread + apart * apart * a.weight * share",
        "spread = a.spread + b.spread",
        "estimators/test_score_rows.py",
    ),
    Fault(
        "D^2: divergence between means of partitions without its weight",
        "estimators/deviance_score.py",
        "of_mean += part.weight * float(between)",
        "of_mean += float(between)",
        "estimators/test_deviance_score.py",
    ),
    Fault(
        "choice of C: folds without a score count",
        "estimators/cross_validation.py",
        "scores = tried.scores[kept]",
        "scores = tried.scores",
        "estimators/test_scorers.py::test_scores_that_are_not_defined_do_not_choose"
        " estimators/test_cross_validation.py",
    ),
    Fault(
        "record of ElasticNetCV: l1_ratio is the first that was tried",
        "estimators/penalty_cv.py",
        "record = record.chosen(C, found.ratios[r], relaxed=bool(self.relax))",
        "record = record.chosen(C, found.ratios[0], relaxed=bool(self.relax))",
        "estimators/test_fitted_record.py estimators/test_penalty_cv.py"
        " estimators/test_persistence.py",
    ),
    Fault(
        "scores of folds are those of the first l1_ratio",
        "estimators/family_cv.py",
        "scores = held_out(grid, found.W[r])",
        "scores = held_out(grid, found.W[0])",
        "estimators/test_family_cv.py fitting/test_shared_paths.py",
    ),
    Fault(
        "file of a model: the digest of its arrays lacks the intercept",
        "estimators/model_file.py",
        "for array in (coef, intercept)]",
        "for array in (coef,)]",
        "estimators/test_persistence.py estimators/test_untrusted_models.py",
    ),
    Fault(
        "ordered classes: a missing label is the last class",
        "estimators/ordinal.py",
        "places = np.where(codes < 0, np.nan, codes.astype(float))",
        "places = codes.astype(float)",
        "estimators/test_ordinal.py",
    ),
    Fault(
        "Huber: marks of outliers stay from an earlier fit to other rows",
        "estimators/huber.py",
        '        if hasattr(self, "outliers_"):\n            del self.outliers_\n',
        "",
        "estimators/test_huber.py",
    ),
    Fault(
        "several quantiles: records are all of the first one",
        "estimators/quantile.py",
        "records = [record_of(settings, rows.facts) for settings in each]",
        "records = [record_of(each[0], rows.facts) for _ in each]",
        "estimators/test_fitted_record.py estimators/test_quantile.py",
    ),
    Fault(
        "LinearSVC: the default loss is the hinge",
        "estimators/svm.py",
        'loss: str = "squared_hinge",',
        'loss: str = "hinge",',
        "estimators/test_svm.py estimators/test_parameters.py",
    ),
]
