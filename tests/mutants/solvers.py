"""Faults in losses, kernels, penalties and solvers."""

from __future__ import annotations

from tests.mutants.fault import Fault

LOSSES = [
    Fault(
        "span of the intercept: offsets ignored",
        "losses/base.py",
        "return abs(margin) + facts.largest_offset if math.isfinite(margin) else math.inf",
        "return abs(margin) if math.isfinite(margin) else math.inf",
        "losses/test_base.py certificates/test_family_bounds.py",
    ),
    Fault(
        "start between two ends of margins: least and most offset swapped",
        "losses/base.py",
        "least, most = link.low - facts.least_offset, link.high - facts.most_offset",
        "least, most = link.low - facts.most_offset, link.high - facts.least_offset",
        "losses/test_base.py certificates/test_family_bounds.py",
    ),
    Fault(
        "rows of weight zero count where their loss is infinite",
        "losses/dispatch.py",
        "if bounded and s == 0.0:",
        "if bounded and s < 0.0:",
        "losses/test_dispatch.py fitting/test_statistics.py certificates/test_family_bounds.py",
    ),
    Fault(
        "likelihood of Poisson: weights ignored",
        "losses/poisson.py",
        "return weight * (xlogy(y, mu) - mu - log_factorial(y))",
        "return xlogy(y, mu) - mu - log_factorial(y)",
        "losses/test_poisson.py fitting/test_statistics.py",
    ),
    Fault(
        "loss of a request: told apart from the known one without its second parameter",
        "losses/table.py",
        "if (known.p1, known.p2) == (ref.p1, ref.p2):",
        "if known.p1 == ref.p1:",
        "losses/test_table.py losses/test_tweedie.py worker/test_residuals.py",
    ),
    Fault(
        "dual variables outside of their domain: told only where both directions move",
        "losses/conjugates.py",
        "outside += 1 if is_outside and (d1 != 0.0 or d2 != 0.0) else 0",
        "outside += 1 if is_outside and (d1 != 0.0 and d2 != 0.0) else 0",
        "losses/test_conjugates.py solvers/test_sdca.py certificates/test_family_bounds.py",
    ),
    Fault(
        "Anscombe residuals: variance to the power 1/3 instead of 1/6",
        "losses/anscombe.py",
        "np.asarray(family.variance(mu, p1)) ** (1.0 / 6.0)",
        "np.asarray(family.variance(mu, p1)) ** (1.0 / 3.0)",
        "estimators/test_row_numbers.py::test_residuals_are_those_of_statsmodels",
    ),
    Fault(
        "proximal term of a hinge: moves labels of both classes upwards",
        "losses/smoothed_hinge.py",
        "return y * (1.0 + width * abs(a))",
        "return y + width * abs(a)",
        "losses/test_smoothed_hinge.py duals/test_proximal_step.py"
        " solvers/test_proximal_point.py::test_hand_over_of_the_hinge_to_proximal_points",
    ),
]

KERNELS = [
    Fault(
        "several classes: margins that are made again lack the offsets",
        "kernels/sweep_outputs.py",
        "        _add_offsets(offset, lo, n, K, z)\n        for k",
        "        for k",
        "integration/test_class_offsets.py",
    ),
    Fault(
        "many problems: offsets ignored",
        "kernels/sweep_many.py",
        "            _add_offsets(shift, len(z), 0, n, z)\n",
        "            _add_offsets(shift, 0, 0, n, z)\n",
        "worker/test_batched.py",
    ),
    Fault(
        "many problems: slopes of rows that a fold neither trains on nor tests stay",
        "kernels/sweep_many.py",
        "if roles[g] != TRAIN:",
        "if roles[g] == TEST:",
        "kernels/test_sweep_many.py worker/test_batched.py",
    ),
    Fault(
        "many problems: gaps between groups are not cleared to their ends",
        "kernels/sweep_many.py",
        "slope[b : run_end(work, b)] = 0.0",
        "slope[b : b + 1] = 0.0",
        "kernels/test_sweep_many.py worker/test_batched.py",
    ),
    Fault(
        "distances of sparse rows from a centre: no allowance for what cancels",
        "kernels/csr.py",
        "square = max(square, 0.0) + CANCELS * (whole + 1.0) * (indptr[i + 1] - indptr[i] + 2)",
        "square = max(square, 0.0)",
        "kernels/test_csr.py::test_distances_that_cancel_are_no_less_than_the_truth"
        " certificates/test_rounding.py",
    ),
    Fault(
        "gradient of dense rows: a run of rows counts again with the next",
        "kernels/dense.py",
        "    add(gradient, d, sums)\n    gradient[:] = 0.0\n",
        "    add(gradient, d, sums)\n",
        "kernels/test_dense.py worker/test_shard.py",
    ),
    Fault(
        "shared vector from dual variables: weights ignored",
        "kernels/coordinate_ascent.py",
        "change = C * weight[i] * alpha[i] if weighted else C * alpha[i]",
        "change = C * alpha[i]",
        "solvers/test_sdca.py::test_same_optimum_as_newton worker/test_dual_state.py",
    ),
    Fault(
        "ordered classes with another link: rows of weight zero count where their loss is infinite",
        "kernels/ordinal.py",
        "if s == 0.0:  # rows of no class here",
        "if s < 0.0:  # rows of no class here",
        "kernels/test_ordinal.py"
        "::test_rows_of_weight_zero_count_nothing_where_their_loss_is_infinite"
        " objectives/test_ordinal_links.py estimators/test_ordinal_links.py",
    ),
    Fault(
        "indices of sparse rows: only one end of a row has to be in range",
        "kernels/structure.py",
        "if places[0] >= 0 and places[count - 1] < width:",
        "if places[0] >= 0 or places[count - 1] < width:",
        "kernels/test_structure.py",
    ),
]

CUDA = [
    Fault(
        "conjugate gradients on a device: beta for its square in the direction's length",
        "kernels/cuda/ball.cu",
        "state[SQUARE] = zr + beta * beta * state[SQUARE];",
        "state[SQUARE] = zr + beta * state[SQUARE];",
        "kernels/cuda/test_ball.py",
    ),
    Fault(
        "sparse rows of equal values on a device: the intercept is scaled with them",
        "kernels/cuda/csr.cu",
        "    if (pattern) u *= widen(data[0]);\n    u += b;\n",
        "    u += b;\n    if (pattern) u *= widen(data[0]);\n",
        "kernels/cuda/test_dense.py::test_kernels_agree_with_those_of_the_host",
    ),
    Fault(
        "sums of levels on a device: of several copies the first only",
        "kernels/cuda/coded.cu",
        "      sum += shared[k * copies + copy];",
        "      if (!copy) sum += shared[k * copies + copy];",
        "kernels/cuda/test_coded.py",
    ),
    Fault(
        "rows of codes on a device: each lane of a row adds the intercept",
        "kernels/cuda/coded.cu",
        "u = lane_sum(u, lanes) + b;",
        "u = lane_sum(u + b, lanes);",
        "kernels/cuda/test_coded.py",
    ),
    Fault(
        "points on a device: the intercept is penalised in the gradient",
        "kernels/cuda/point.cu",
        "scale * gradient[j] + (j < d ? penalty * at : 0.0);",
        "scale * gradient[j] + penalty * at;",
        "kernels/cuda/test_points.py",
    ),
    Fault(
        "dual value on a device: factors of positive and negative variables swapped",
        "kernels/cuda/dual.cu",
        "(alpha[i] > 0.0 ? positive : negative) * alpha[i]",
        "(alpha[i] > 0.0 ? negative : positive) * alpha[i]",
        "kernels/cuda/test_dual.py::test_dual_values_have_positive_and_negative_variables_scaled"
        " integration/test_device.py::test_dual_ascent_certifies_its_answer",
    ),
    Fault(
        "tiles of streamed rows: cut by the number of the first of all rows",
        "kernels/cuda/several.py",
        "chunk.part(lo - first, hi - first)",
        "chunk.part(lo - start, hi - start)",
        "kernels/cuda/test_several.py"
        " kernels/cuda/test_ordinal.py::test_tiles_and_chunks_from_host_memory_change_nothing",
    ),
    Fault(
        "memory left to RMM: the largest of several limits",
        "kernels/cuda/memory.py",
        "return max(min(known), 0) if known else None",
        "return max(max(known), 0) if known else None",
        "kernels/cuda/test_memory.py",
    ),
]

PENALTIES = [
    Fault(
        "fingerprint of a penalty: lacks its last field, standardize",
        "penalties/config.py",
        "for each in fields(self):",
        "for each in fields(self)[:-1]:",
        "penalties/test_config.py fitting/test_path_checkpoint.py"
        " solvers/test_proximal_newton.py::test_a_checkpoint_of_another_penalty_is_refused",
    ),
    Fault(
        "intercept of a model with kinks: does not follow the features",
        "penalties/descent.py",
        "last = w[-1] - (gradient[-1] + beside @ (found.w - w[:-1])) / top",
        "last = w[-1] - gradient[-1] / top",
        "penalties/test_descent.py",
    ),
    Fault(
        "conjugate of the non-smooth part: errors of the gradient ignored",
        "penalties/kinks.py",
        "return self._entries(np.abs(u) + error, curvature, c)",
        "return self._entries(np.abs(u), curvature, c)",
        "penalties/test_kinks.py certificates/test_tangent.py",
    ),
    Fault(
        "largest step before a kink: the largest of several shares",
        "penalties/product_descent.py",
        "return min(shares)",
        "return max(shares)",
        "penalties/test_product_descent.py",
    ),
    Fault(
        "penalties of several outputs: repeated feature by feature",
        "penalties/resolved.py",
        "np.tile(values, outputs)",
        "np.repeat(values, outputs)",
        "penalties/test_groups.py",
    ),
    Fault(
        "strong convexity of a matrix: no allowance for rounding of eigenvalues",
        "penalties/tikhonov.py",
        "return max(float(self._eigenvalues[0]) - rounding, 0.0)",
        "return max(float(self._eigenvalues[0]), 0.0)",
        "penalties/test_tikhonov.py::test_rounding_of_eigenvalues_makes_no_penalty_stronger",
    ),
    Fault(
        "features that are left out may be negative",
        "penalties/bounds.py",
        "for bound in (lower, upper):",
        "for bound in (upper,):",
        "penalties/test_builtin.py",
    ),
]

SOLVERS = [
    Fault(
        "certain steps of many problems: taken where either the gap or the error is small",
        "solvers/batched_newton.py",
        "if gap <= self.tol and error <= self.tol * value:",
        "if gap <= self.tol or error <= self.tol * value:",
        "solvers/test_batched_newton.py"
        "::test_steps_without_a_pass_lead_where_gap_and_value_are_known_to_the_tolerance",
    ),
    Fault(
        "problems with kinks: solved, though steps ended without a proof",
        "solvers/batched_proximal_newton.py",
        "return Found(point, steps, point.relative_gap <= tol)",
        "return Found(point, steps, True)",
        "solvers/test_batched_proximal_newton.py",
    ),
    Fault(
        "gradient descent: a resumed solve does not know which step comes next",
        "solvers/gradient_descent.py",
        'kept = {"t": t, "odd": odd, "before": list(values)}',
        'kept = {"t": t, "before": list(values)}',
        "solvers/test_iterate.py fitting/test_checkpoint.py::test_the_path_goes_on_bit_by_bit"
        " fitting/test_checkpoint.py::test_a_killed_fit_goes_on_to_the_same_optimum_with_less_work",
    ),
    Fault(
        "Newton's step: the scale to a unit diagonal is not undone",
        "solvers/linear_systems.py",
        "return lambda v: scipy.linalg.lapack.dpotrs(factor, v / scale, lower=1)[0] / scale",
        "return lambda v: scipy.linalg.lapack.dpotrs(factor, v / scale, lower=1)[0]",
        "solvers/test_linear_systems.py",
    ),
    Fault(
        "Newton's method: a doubtful Hessian of float32 sums is kept unless it hides a proof too",
        "solvers/newton.py",
        "return point.is_doubtful or (proves and 0.5 * square <= tol * point.value)",
        "return point.is_doubtful and (proves and 0.5 * square <= tol * point.value)",
        "solvers/test_solvers.py"
        "::test_float32_rows_reach_the_optimum_of_the_stored_data_to_a_billionth"
        " fitting/test_unpenalised.py certificates/test_rounding.py",
    ),
    Fault(
        "OWL-QN: steps cross zero",
        "solvers/owlqn.py",
        "        end[kinked & (end * side < 0.0)] = 0.0\n        end = kinks.clip(end)\n",
        "        end = kinks.clip(end)\n",
        "solvers/test_owlqn.py::test_a_step_ends_in_its_orthant_and_lowers_the_tangent"
        " solvers/test_owlqn.py::test_the_optimum_of_proximal_newton",
    ),
    Fault(
        "sum of changes that overlap: lengthened instead of shortened",
        "solvers/sdca.py",
        "share = min(1.0, self.outer / ratio) if ratio > 0.0 else 1.0",
        "share = max(1.0, self.outer / ratio) if ratio > 0.0 else 1.0",
        "solvers/test_sdca.py::test_changes_that_overlap_more_than_foreseen_are_shortened",
    ),
    Fault(
        "auto takes dual ascent without a penalty, or without a dual that has a rate",
        "solvers/spec.py",
        "return workload.penalised and workload.has_dual",
        "return workload.penalised or workload.has_dual",
        "solvers/test_workload.py"
        "::test_auto_may_take_dual_ascent_with_a_penalty_and_a_dual_that_has_a_rate",
    ),
    Fault(
        "copy of a working set's columns: taken for any set that shares one of them",
        "solvers/working_sets.py",
        "np.isin(wanted, self.columns).all()",
        "np.isin(wanted, self.columns).any()",
        "solvers/test_working_sets.py::test_wide_sparse_rows"
        " solvers/test_working_sets.py::test_the_optimum_of_the_full_hessian",
    ),
]

FAULTS = LOSSES + KERNELS + CUDA + PENALTIES + SOLVERS
