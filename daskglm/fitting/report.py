"""What a fit says of itself: why it stopped, what each iteration cost, and how good the answer
is.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from daskglm.core.outcome import Cost, Iteration

if TYPE_CHECKING:
    import pandas


# Fields that losses of families have.
FAMILY_STATISTICS = (
    "deviance",
    "null_deviance",
    "dispersion",
    "log_likelihood",
    "aic",
    "bic",
)


@dataclass(frozen=True)
class Report:
    r"""How a fit went.

    Parameters
    ----------
    solver : str
        Name of the solver that ran.
    why : str
        Why this solver was chosen.
    converged : bool
        Whether the stopping rule was met.
    reason : str
        Why the fit ended, as a sentence.
    objective : float
        :math:`\frac12 |w|^2 + C \sum_i s_i \, \mathrm{loss}_i` at the returned coefficients.
    relative_gap : float
        Proved bound on (objective - optimum) / optimum (docs/certificates.md); nan where nothing
        is proved.
    gradient_ratio : float
        :math:`|g| / |g_0|`, of the gradient here and that at zero coefficients; nan where the last
        point is one of the dual.
    coefficient_error : float
        Bound on :math:`|w - w^*| / |w|` for the coefficients w of the features and :math:`w^*` of
        the optimum, proved in docs/scikit-learn.md; nan without a penalty.
    n_iter : int
        Accepted points after the first.
    passes : float
        Number of rows of X that were read, divided by the number of rows.
    rounds : int
        Requests answered by all workers.
    bytes_reduced : int
        Bytes of partial results that workers sent.
    seconds : float
        Wall time of the solve, with the choice of its solver.
    seconds_loading : float
        Wall time of the pass that loads and checks the data.
    deviance, null_deviance : float
        Of losses of families: twice the weighted sum of the losses, and that of the best constant
        (with the offsets); nan for others.
    dispersion : float
        Pearson's statistic over rows less coefficients.
    log_likelihood, aic, bic : float
        With the dispersion that the family fixes, or else deviance / n; nan where there is no
        likelihood, and for aic and bic with a penalty.
    n_rows, n_features, workers : int
        Rows, features, and processes that answered requests.
    device : str
        "cpu" or "cuda": where the rows were.
    repairs : int
        How often lost blocks were restored.
    resumed : int
        Iterations made by the fit whose checkpoint this one resumed.
    waiting : float
        Out of core: the mean share of `seconds` that workers waited for data to be read.
    history : list of dict
        One record per iteration, of all problems together where they were solved so (objective: the
        sum, relative_gap: the largest); `pandas.DataFrame(report.history)` takes it as it is.
    parts : tuple of Report
        One-vs-rest: the report of each class; the fields above are then sums (objective, passes,
        ...) or maxima.
    """

    solver: str
    why: str
    converged: bool
    reason: str
    objective: float
    relative_gap: float
    gradient_ratio: float
    n_iter: int
    passes: float
    rounds: int
    bytes_reduced: int
    seconds: float
    seconds_loading: float
    n_rows: int
    n_features: int
    workers: int
    coefficient_error: float = math.nan
    device: str = "cpu"
    repairs: int = 0
    resumed: int = 0
    waiting: float = 0.0
    deviance: float = math.nan
    null_deviance: float = math.nan
    dispersion: float = math.nan
    log_likelihood: float = math.nan
    aic: float = math.nan
    bic: float = math.nan
    history: list[Iteration] = field(default_factory=list, repr=False)
    parts: tuple[Report, ...] = ()

    @property
    def cost(self) -> Cost:
        """Passes, rounds, bytes and seconds."""
        return Cost(self.passes, self.rounds, self.bytes_reduced, self.seconds)

    def to_frame(self) -> pandas.DataFrame:
        """Return the history as a pandas DataFrame, a row for each iteration (see `Iteration`)."""
        import pandas

        return pandas.DataFrame(self.history, columns=list(Iteration.__annotations__))

    def plot(self, axes: Any = None) -> Any:
        """Draw the proved gap, and the objective above its least, by seconds and by passes.

        Iterations without a finite bound have no point. What is least is known to within the last
        gap.

        Parameters
        ----------
        axes : sequence of two matplotlib Axes, optional
            Default: those of a new figure.

        Returns
        -------
        array of two matplotlib Axes

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        from daskglm.fitting.report_view import draw

        return draw(self.history, axes)

    def _repr_html_(self) -> str:
        from daskglm.fitting.report_view import as_html

        return as_html(self._rows(), self.history)

    def __repr__(self) -> str:
        rows = self._rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)

    def _gradient_row(self) -> list[tuple[str, str]]:
        """Points of duals, and those that a dual proved, have no gradient."""
        known = not math.isnan(self.gradient_ratio)
        return [("gradient ratio", f"{self.gradient_ratio:.2e}")] if known else []

    def _rows(self) -> list[tuple[str, str]]:
        """Return names and texts of what is shown."""
        rows = [
            ("solver", f"{self.solver} ({self.why})"),
            ("converged", f"{'yes' if self.converged else 'NO'}: {self.reason}"),
            ("objective", f"{self.objective:.12g}"),
            (
                "relative gap",
                "no bound (without a penalty, or for this loss)"
                if math.isnan(self.relative_gap)
                else f"<= {self.relative_gap:.2e}",
            ),
            *self._gradient_row(),
            ("iterations", f"{self.n_iter}"),
            ("passes over X", f"{self.passes:.4g}"),
            (
                "rounds",
                f"{self.rounds} over {self.workers} worker(s), {self.bytes_reduced:,} "
                "bytes reduced",
            ),
            ("seconds", f"{self.seconds:.3g} (and {self.seconds_loading:.3g} to load and check)"),
            ("data", f"{self.n_rows:,} rows x {self.n_features:,} features"),
        ]
        rows += [
            (name.replace("_", " "), f"{value:.8g}")
            for name in FAMILY_STATISTICS
            if not math.isnan(value := getattr(self, name))
        ]
        if self.coefficient_error < 1.0:  # else it tells nothing; nan: there is no bound
            rows.insert(
                4, ("coefficients", f"<= {self.coefficient_error:.2e} of |w| from the optimum's")
            )
        if self.device != "cpu":
            rows.append(
                (
                    "device",
                    f"{self.device} of {'every worker' if self.workers > 1 else 'this process'}",
                )
            )
        if self.repairs:
            rows.append(("repairs", f"{self.repairs} (blocks found again after a worker was lost)"))
        if self.resumed:
            rows.append(("resumed", f"from a checkpoint, after {self.resumed} iterations"))
        if self.waiting:
            rows.append(("waiting", f"{self.waiting:.0%} of the seconds, for data to be read"))
        if self.parts:
            rows.append(("parts", f"{len(self.parts)} problems, with a report each in .parts"))
        return rows


def combine(parts: list[Report]) -> Report:
    """Combine the reports of problems solved on the same data, one after the other or together."""
    # problems that were solved together share one history, which is told once
    histories = {id(part.history): part.history for part in parts}
    first = parts[0]
    worst = next((part for part in parts if not part.converged), first)
    gaps = [part.relative_gap for part in parts]
    cost = sum((part.cost for part in parts), Cost())
    alone = FAMILY_STATISTICS if len(parts) == 1 else ()
    return Report(
        solver=first.solver,
        why=first.why,
        converged=all(part.converged for part in parts),
        reason=worst.reason,
        objective=sum(part.objective for part in parts),
        relative_gap=float(np.max(gaps)),
        gradient_ratio=float(np.max([part.gradient_ratio for part in parts])),
        coefficient_error=float(np.max([part.coefficient_error for part in parts])),
        n_iter=max(part.n_iter for part in parts),
        **asdict(cost),
        seconds_loading=first.seconds_loading,
        n_rows=first.n_rows,
        n_features=first.n_features,
        workers=first.workers,
        device=first.device,
        repairs=max(part.repairs for part in parts),
        resumed=max(part.resumed for part in parts),
        **{name: getattr(first, name) for name in alone},
        waiting=sum(part.waiting * part.seconds for part in parts) / max(cost.seconds, 1e-9),
        history=[record for history in histories.values() for record in history],
        parts=tuple(parts),
    )


def as_dict(report: Report) -> dict[str, Any]:
    """Return the numbers of a report without history and parts, for files."""
    names = [name for name in Report.__dataclass_fields__ if name not in ("history", "parts")]
    return {name: getattr(report, name) for name in names}
