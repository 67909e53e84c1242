"""A fit in numbers: what the costs of solvers depend on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from daskglm.core.facts import DataSummary
from daskglm.core.sample_requests import bytes_of
from daskglm.objectives.elimination import Factors, Sizes
from daskglm.objectives.primal import Objective
from daskglm.objectives.restriction import Restriction
from daskglm.solvers import costs
from daskglm.solvers.column_descents import descends
from daskglm.solvers.line_search import has_ends


@dataclass(frozen=True)
class Workload:
    """What a fit consists of, in numbers that do not change from run to run.

    Costs are numbers of passes. A pass is the work of one value and gradient over all rows, without
    the time that messages take.

    Parameters
    ----------
    summary : DataSummary
        Of the rows.
    size : int
        Coefficients, with the intercept.
    smooth, quadratic, penalised : bool
        Whether the loss has a gradient, whether it has a constant Hessian, whether C is finite.
    has_dual : bool
        Whether the loss has a dual whose coordinate ascent has a rate.
    has_corners : bool
        Whether the loss has corners that can be rounded. Of hinges it was not measured whether that
        is a good start: where there is dual ascent they count as none.
    curvature_ratio : float
        Curvature that a mean row's loss has along the row, over that of the penalty, times the
        workers: the condition number by which dual coordinate ascent is measured.
    samples : bool
        Whether a random part of the rows can be read for its part of a pass.
    remote : bool
        Whether every request is a round of messages to other processes.
    travelling : int
        Bytes of samples up to which they travel to this process, in one round.
    workers, threads : int
        Processes that answer a request, and threads in all of them.
    tol : float
        Relative suboptimality that is wanted.
    outputs : int
        Margins of a row: 1, or the number of classes of a multinomial loss.
    kinked : bool
        Whether the penalty has kinks, or coefficients have bounds.
    grouped : bool
        Whether the penalty has a norm of the coefficients of each group.
    has_ends : bool
        Whether margins have an end, beyond which the loss is infinite.
    descends : bool
        Whether models with kinks are minimised by descents along columns; see `column_descents`.
    blocks : tuple of (int, int)
        Factors whose levels Hessians have apart; see `Objective.blocks`.
    """

    summary: DataSummary
    size: int
    smooth: bool = True
    quadratic: bool = False
    jumps: bool = False
    penalised: bool = True
    has_dual: bool = True
    has_corners: bool = False
    curvature_ratio: float = math.inf
    samples: bool = True
    remote: bool = False
    travelling: int = 0
    workers: int = 1
    threads: int = 1
    tol: float = 1e-6
    outputs: int = 1
    kinked: bool = False
    grouped: bool = False
    has_ends: bool = False
    descends: bool = False
    blocks: Factors = ()

    @classmethod
    def of(cls, objective: Objective, tol: float = 1e-6) -> Workload:
        """Return the workload of an objective. Cost: nothing."""
        engine, loss = objective.engine, objective.loss
        can = engine.capabilities
        return cls(
            summary=engine.facts,
            size=objective.size,
            smooth=loss.differentiable,
            quadratic=loss.is_quadratic,
            jumps=loss.jumps,
            penalised=objective.is_penalised,
            # dual ascent has a rate only where curvatures are bounded, or nothing else is at hand
            has_dual=objective.has_dual
            and (math.isfinite(loss.smoothness) or not loss.differentiable),
            has_corners=loss.smoothed is not None and not (loss.classifies and objective.has_dual),
            curvature_ratio=curvature_ratio(objective),
            samples=can.cheap_samples,
            remote=not can.shares_memory and can.cheap_samples,
            travelling=can.travelling,
            workers=can.workers,
            threads=can.threads,
            tol=max(tol, costs.LEAST_TOL),
            outputs=objective.outputs,
            kinked=not objective.penalty.is_smooth,
            grouped=objective.penalty.is_grouped,
            has_ends=has_ends(objective),
            descends=not objective.penalty.is_smooth and descends(objective),
            blocks=objective.blocks,
        )

    @classmethod
    def of_columns(cls, part: Restriction[Objective]) -> Workload:
        """Return that of some columns, of which something has been asked. Cost: nothing.

        Its passes are those over the copy of the columns.
        """
        whole, stored = cls.of(part.objective), part.objective.rows.meter.stored
        assert stored is not None
        width = len(part.columns) // max(whole.outputs - 1, 1)
        known = whole.summary
        nbytes = known.nbytes * stored // max(known.nonzeros, 1)
        summary = replace(known, n_features=width, nonzeros=stored, nbytes=nbytes)
        return replace(whole, summary=summary)

    @property
    def n_features(self) -> int:
        """Features of a row."""
        return self.summary.n_features or 0

    @property
    def coefficients(self) -> int:
        """Coefficients of features, in as many sets as a solver sees."""
        return self.n_features * max(self.outputs - 1, 1)

    @property
    def levels(self) -> int:
        """Coefficients that are eliminated."""
        return int(Sizes.of(self.summary, self.size, self.blocks).levels) if self.blocks else 0

    @property
    def starts_at_levels(self) -> bool:
        """Whether a factor to be eliminated has no penalty: solves start at its levels' means."""
        return bool(self.blocks) and not self.penalised

    @property
    def gram(self) -> float:
        """Passes that forming a Hessian adds to a pass."""
        values = hessian_passes(self.summary, outputs=self.outputs, blocks=self.blocks)
        return values * self.rows_share

    @property
    def rows_share(self) -> float:
        """Share of a pass that is work with rows: what a request takes besides is not."""
        return self._rows_seconds / self.pass_seconds

    @property
    def class_blocks(self) -> float:
        """Passes that the blocks cost by which the classes of a softmax are preconditioned."""
        d = self.n_features
        if d > costs.LARGEST_HESSIAN:
            return float(costs.BLOCK_RENEWALS)  # their diagonals
        rows = max(costs.LEAST_BLOCK_ROWS, costs.BLOCK_ROWS * d)
        share = min(rows / max(self.summary.n_rows, 1), 1.0)
        # a Gram for each class, where a Hessian has one for each pair
        grams = share * d / costs.OUTPUT_HESSIAN_VALUES
        seconds = self.outputs * costs.SOLVE_SECONDS * d**3
        factors = seconds / self.pass_seconds
        return costs.BLOCK_RENEWALS * (share + grams + factors)

    @property
    def factorisation(self) -> float:
        """Passes that all work with one Hessian costs, besides forming it."""
        seconds = costs.SOLVE_SECONDS * float(self.coefficients - self.levels) ** 3
        if self.blocks:
            sizes = Sizes.of(self.summary, self.size, self.blocks)
            # of the eliminated factor with each other one
            pairs = sum(sizes.pairs[: len(self.blocks) - 1])
            seconds += costs.ELIMINATION_SECONDS * sizes.levels * sizes.kept**2
            if sizes.nested > 1:
                stored = 2.0 * sum(sizes.pairs) + 4.0 * sizes.levels * sizes.kept
                seconds += costs.PRODUCTS * costs.PRODUCT_SECONDS * stored
            else:
                seconds += costs.PAIR_SECONDS * pairs * (pairs / sizes.levels + sizes.kept)
        return seconds / self.pass_seconds

    @property
    def solve(self) -> float:
        """Passes that solving a system with the factor of a Hessian costs."""
        left = float(self.coefficients - self.levels)
        stored = left**2
        if self.blocks:
            sizes = Sizes.of(self.summary, self.size, self.blocks)
            stored += 2.0 * (sizes.levels * sizes.kept + sum(sizes.pairs))
            stored *= costs.PRODUCTS if sizes.nested > 1 else 1.0
        return costs.SOLVED_ENTRY_SECONDS * stored / self.pass_seconds

    @property
    def hessian_step(self) -> float:
        """Passes that a step of Newton's method costs, with its Hessian."""
        return 1.0 + self.gram + self.factorisation + self.rounds()

    @property
    def chord_step(self) -> float:
        """Passes that a step by the Hessian of another point costs."""
        return 1.0 + self.solve + self.rounds()

    @property
    def keeps_hessians(self) -> bool:
        """Whether Newton's method takes steps by the Hessian of another point, to save some.

        Where curvatures jump such steps lead astray. Rows that are read from a source cost as much
        as a Hessian, and on a device that is cheap. Passes with the exponentials of several classes
        cost more beside a Hessian: three classes took twice the passes, and as long.
        """
        alike = self.outputs == 1 and not (self.quadratic or self.has_ends)
        smooth = self.want_of_rows <= costs.MOST_WANT
        saves = self.hessian_step >= costs.LEAST_CHORDS * self.chord_step
        return self.samples and alike and smooth and saves

    @property
    def kept_hessians(self) -> float:
        """Hessians that Newton's method forms where it keeps them."""
        return costs.KEPT_HESSIANS + costs.KEPT_PER_DECADE * self.decades

    @property
    def chords(self) -> float:
        """Steps by Hessians of other points where it does."""
        return costs.CHORDS + costs.CHORDS_PER_DECADE * self.decades

    @property
    def forms_hessian(self) -> bool:
        """Whether to form the Hessian of a model with kinks: if that costs less than products.

        Where neither takes any time to speak of requests cost more, of which products take many;
        so do rows that are read from a source. On a device a Hessian is cheap.
        """
        if not self.samples:
            return self.coefficients <= costs.LARGEST_HESSIAN
        products = costs.MODEL_PRODUCTS * self.tron_product
        return self.is_small or self.gram + self.factorisation <= products

    @property
    def decades(self) -> float:
        """Decimal logarithm of 1 + the curvature ratio, up to where problems get no harder."""
        most = costs.MOST_DECADES
        if self.jumps:
            most += (costs.MOST_JUMP_DECADES - most) * self.want_of_rows
        return min(math.log10(1.0 + self.curvature_ratio), most)

    @property
    def want_of_rows(self) -> float:
        """1 with as many rows as features, or fewer, down to 0: whether jumps make steps more."""
        want = max(1.0 - self.decades_of_rows / costs.SMOOTHING_DECADES, 0.0)
        return want if self.jumps else 0.0

    @property
    def decades_of_rows(self) -> float:
        """Decimal logarithm of the rows for each feature, 0 where they are fewer."""
        return math.log10(max(self.summary.n_rows / max(self.n_features, 1), 1.0))

    @property
    def row_ratio(self) -> float:
        """Curvature ratio by which dual ascent is measured: less where rows are nearly orthogonal.

        The least eigenvalue of the Gram of n random rows of d features is the share
        (1 - sqrt(n / d))^2 of a row's square (Marchenko & Pastur 1967). Dense rows are seldom so.
        Of squared hinges only rows with curvature count, dense ones too.
        """
        features = max(self.n_features, 1)
        n, d = float(self.summary.n_rows), features if self.summary.sparse else 1
        if self.jumps:
            n, d = costs.CURVED_ROWS * n, features
        apart = max(1.0 - math.sqrt(n / d), 0.0) ** 2
        ratio = self.curvature_ratio
        return ratio / (1.0 + apart * ratio) if math.isfinite(ratio) else ratio

    @property
    def newton_steps(self) -> float:
        """Hessians that Newton's method forms on all rows."""
        if self.quadratic:
            return costs.QUADRATIC_STEPS
        if self.starts_at_levels:
            return costs.LEVEL_STEPS
        if self.jumps:
            each = costs.JUMP_STEPS_PER_DECADE * self.want_of_rows
            return costs.JUMP_STEPS + each * self.decades
        return costs.NEWTON_STEPS + costs.STEPS_PER_DECADE * self.decades

    @property
    def tron_passes(self) -> float:
        """Work of TRON, in passes: by the curvature ratio, less with many rows for each feature."""
        power = max(costs.TRON_POWER - costs.TRON_POWER_LESS * self.decades_of_rows, 0.0)
        ratio = costs.TRON_RATIO * (10.0**self.decades - 1.0)
        passes = costs.TRON_PASSES * (1.0 + ratio) ** power
        return passes * (costs.QUADRATIC_SHARE if self.quadratic else 1.0) * self.tron_product

    @property
    def is_small(self) -> bool:
        """Whether a Hessian and its factorisation take no time to speak of."""
        passes = self.gram + self.factorisation
        return passes * self.pass_seconds <= costs.SMALL_SECONDS

    @property
    def pass_seconds(self) -> float:
        """Seconds of a thread for a pass."""
        return costs.REQUEST_SECONDS + self._rows_seconds

    @property
    def _rows_seconds(self) -> float:
        """Seconds of a thread for the rows in a pass."""
        summary = self.summary
        if summary.sparse:
            wide = 1.0 + math.sqrt(self.n_features / costs.CACHED_FEATURES)
            values = summary.nonzeros * costs.SPARSE_SECONDS * wide
        else:
            values = summary.nbytes * costs.BYTE_OF_ROW_SECONDS
        outputs = 1.0 if self.outputs == 1 else costs.OUTPUT_PASS * self.outputs
        return outputs * (values + summary.n_rows * costs.ROW_SECONDS)

    @property
    def digits(self) -> float:
        """Decimal digits of `tol`, over the six that linear convergence was measured to."""
        return max(-math.log10(self.tol), 1.0) / 6.0

    @property
    def epoch(self) -> float:
        """Passes that an epoch of dual ascent costs: every row has work of its own."""
        summary = self.summary
        if summary.sparse:
            wide = 1.0 + self.n_features / costs.EPOCH_FEATURES
            values = summary.nonzeros * costs.EPOCH_SPARSE_SECONDS * wide
        else:
            values = summary.nonzeros * costs.EPOCH_DENSE_SECONDS
            values += summary.nbytes * costs.BYTE_OF_ROW_SECONDS
        own = costs.REQUEST_SECONDS + costs.ITERATION_SECONDS
        seconds = own + costs.EPOCH_ROW_SECONDS * summary.n_rows + values
        vectors = self.vectors(costs.EPOCH_VECTORS)
        return seconds / self.pass_seconds + vectors + self.rounds(costs.EPOCH_ROUNDS)

    @property
    def lbfgs_iteration(self) -> float:
        """Passes that an iteration of L-BFGS costs."""
        own = costs.ITERATION_SECONDS / self.pass_seconds
        return 1.0 + own + self.vectors(costs.LBFGS_VECTORS) + self.rounds()

    @property
    def tron_product(self) -> float:
        """Passes that a product of conjugate gradients costs in TRON."""
        return costs.PRODUCT_PASSES + self.vectors(costs.TRON_VECTORS) + self.rounds()

    @property
    def most_pairs(self) -> int:
        """Pairs of vectors that TRON keeps: some, where they are little beside the rows."""
        time = costs.PAIRS_SHARE / max(self.vectors(costs.PAIR_VECTORS), costs.LEAST_TOL)
        room = costs.PAIRS_SHARE * self.summary.nonzeros / (2.0 * max(self.size, 1))
        most = int(min(time, room, costs.MOST_PAIRS))
        return most if most >= costs.LEAST_PAIRS else 0

    def vectors(self, count: float) -> float:
        """Passes that reading or writing `count` vectors of coefficients costs beside the rows."""
        return count * costs.VECTOR_SECONDS * self.size / self.pass_seconds

    def rounds(self, count: float = 1.0) -> float:
        """Passes that the messages of `count` requests cost; none within one process."""
        if not self.remote:
            return 0.0
        message = costs.MESSAGE_SECONDS + costs.BYTE_SECONDS * 2 * 8 * self.size
        return count * self._passes_of(costs.ROUND_SECONDS + message * self.workers)

    def sample_rounds(self, shares: Sequence[float], count: float) -> float:
        """Passes that the messages about samples of these shares cost.

        That is one round and their rows where all of them travel, else `count` rounds.
        """
        if not self.remote or not self.travels(shares):
            return self.rounds(count)
        nbytes = bytes_of(sum(shares), self.summary)
        return self.rounds() + self._passes_of(costs.SAMPLE_BYTE_SECONDS * nbytes)

    def travels(self, shares: Sequence[float]) -> bool:
        """Whether samples of these shares travel to this process."""
        return bytes_of(sum(shares), self.summary) <= self.travelling

    def _passes_of(self, seconds: float) -> float:
        """Passes that are as long as so many seconds."""
        return seconds / (costs.REQUEST_SECONDS + self._rows_seconds / self.threads)


def hessian_passes(
    summary: DataSummary,
    share: float = 1.0,
    *,
    outputs: int = 1,
    blocks: Factors = (),
) -> float:
    """Passes over all rows that forming the Hessian of a share of them adds to reading that share.

    Long rows have more products of pairs. Sparse rows may have few values beside a large Hessian.
    Of several `outputs` it is a Hessian for each pair of them. Factors in `blocks` are apart.
    """
    if outputs > 1:
        d = summary.n_features or 0
        pairs = 0.5 * (outputs - 1) * d / costs.OUTPUT_HESSIAN_VALUES
        return share * (pairs + costs.OUTPUT_PAIR * (outputs - 1))
    if not summary.sparse:
        return share * summary.per_row / costs.DENSE_HESSIAN_VALUES
    if blocks:
        sizes = Sizes.of(summary, summary.n_features or 0, blocks)
        entries = costs.HESSIAN_ENTRY_VALUES * sizes.entries
        own = summary.per_row / costs.LARGE_HESSIAN_VALUES
        return share * own + entries / max(summary.nonzeros, 1)
    cached = (summary.n_features or 0) <= costs.CACHED_HESSIAN
    values = costs.SPARSE_HESSIAN_VALUES if cached else costs.LARGE_HESSIAN_VALUES
    return share * summary.per_row / values + entry_passes(summary)


def entry_passes(summary: DataSummary) -> float:
    """Passes that a Hessian's entries take, however few rows it is formed of.

    Those of dense rows take little time beside the products, which are more than the entries.
    """
    if not summary.sparse:
        return 0.0
    entries = float(summary.n_features or 0) ** 2
    return costs.HESSIAN_ENTRY_VALUES * entries / max(summary.nonzeros, 1)


def curvature_ratio(objective: Objective) -> float:
    """Return a mean row's curvature along itself over that of the penalty, times the workers.

    It is infinite without a penalty.
    """
    if not objective.is_penalised:
        return math.inf
    summary = objective.engine.facts
    mean = summary.squared_norms / max(summary.n_rows, 1)
    curvature = objective.typical_curvature * objective.C
    curvature /= objective.penalty.quadratic.strong_convexity
    return curvature * mean * objective.engine.capabilities.workers
