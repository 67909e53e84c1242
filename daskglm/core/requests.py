"""What the solver side may ask of the data side, and how partial answers add up.

Requests are frozen, picklable and complete: a token names what a block may have cached, the
vectors beside it rebuild it where it was forgotten. Replies are dictionaries of sums; `rows` counts
the rows of X that were read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from daskglm.core.batch_requests import BatchRequest, GatheredRows
from daskglm.core.column_requests import ColumnGram, ColumnMoments, ColumnSigns
from daskglm.core.inference_requests import ClusterSums, InferenceRequest
from daskglm.core.ordinal_requests import OrdinalRequest
from daskglm.core.output_requests import OutputRequest

Totals = dict[str, Any]


class CollectiveLost(RuntimeError):
    """A sum over devices did not come to its end; what it was for can be had by rounds."""


@dataclass(frozen=True)
class Folds:
    """The rows that each fold trains on and holds out, by groups of rows with the same roles.

    Parameters
    ----------
    key : str
        Names this division: equal keys, equal divisions.
    roles : tuple of tuples of int
        For each group and fold: 0 trained on, 1 held out, 2 neither.
    seed : int, optional
        Rows are put into groups at random, class by class within each run of rows that was loaded
        together.
    groups : (n,) array, optional
        Group of each row of data in memory, in their order, if they are not assigned at random.
    """

    key: str
    roles: tuple[tuple[int, ...], ...] = field(compare=False)
    seed: int | None = field(default=None, compare=False)
    groups: np.ndarray | None = field(default=None, compare=False)


def roles_of(folds: Folds | None) -> np.ndarray:
    """Roles (groups, folds + 1): the last column, which fold -1 means, trains on all rows."""
    roles = np.zeros((1, 0), np.int8) if folds is None else np.array(folds.roles, np.int8)
    return np.concatenate([roles, np.zeros((len(roles), 1), np.int8)], axis=1)


class LossRef(NamedTuple):
    """Name of a loss and its parameters, as requests carry them; see `losses.table`.

    Parameters
    ----------
    name : str
    p1, p2 : float
        Parameters of its formulas.
    module : str
        Module that registers the loss, imported where it is not known yet; empty: this package.
    """

    name: str
    p1: float = 0.0
    p2: float = 0.0
    module: str = ""


@dataclass(frozen=True)
class Problem:
    """What turns stored labels into targets and row weights.

    Parameters
    ----------
    loss : LossRef
    positive : object
        Label that becomes +1, all others -1; None for a regression.
    classes : tuple
        Of a loss of all classes together: their labels, in the order of margins or thresholds. Rows
        of other labels have weight zero.
    class_weight : tuple of (label, float) pairs
        Factors of the row weights by label.
    centre : tuple of (int, float), optional
        A smoothed loss has a proximal term of this width around the dual variables of this state;
        see `losses.base.Loss.moved`.
    folds : Folds, optional
        Divides the rows.
    fold : int, optional
        Rows that this fold does not train on have weight zero; None: all are trained on.
    inside : float
        Targets nearer than this to an end of what the family has are moved so far inside of it; see
        `fitting.edges`.
    """

    loss: LossRef
    positive: Any = None
    class_weight: tuple[tuple[Any, float], ...] = ()
    centre: tuple[int, float] | None = None
    folds: Folds | None = None
    fold: int | None = None
    inside: float = 0.0
    classes: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Evaluate:
    """Evaluate loss and gradient at w (d,) or, with intercept, (d + 1,). 1 pass.

    Reply: value, gradient[, gram][, diagonal]. Margins stay with the rows under `token`, unless
    `keep` is false; curvatures too if `curved` is true. `beside` is another token whose margins are
    kept. `exact`: the Gram is summed in float64, whatever the dtype of the rows.
    """

    w: np.ndarray
    token: int
    gram: bool = False
    diagonal: bool = False
    keep: bool = True
    curved: bool = False
    beside: int | None = None
    exact: bool = False


@dataclass(frozen=True)
class HessianVector:
    """Hessian of the loss at a point times v. Reply: product. 1 pass."""

    v: np.ndarray
    at: tuple[int, np.ndarray]


@dataclass(frozen=True)
class Spread:
    """How far rows lie from a centre (d,). Reply: sums, columns (d,) and moment. 1 pass.

    `sums` are those of the columns, `columns` of their (|x_j| / scale) ** `summation.MOMENT`, and
    `moment` of (|x - centre| / scale) ** `summation.MOMENT`. Only for rows in host memory.
    """

    centre: np.ndarray
    scale: float


@dataclass(frozen=True)
class TrustRegionStep:
    """Minimise the model around a point over s'Ms <= radius^2, on the rows' device.

    The model's Hessian is `scale` times that of the losses plus the diagonal `penalised`. `metric`
    is the diagonal of M, or the inverse of a full one (symmetric, (size, size)). Reply: the fields
    of `trust_region.RegionStep`, of several devices by the first. 1 pass per product. Only for
    engines with `solves_trust_regions`; raises CollectiveLost if devices that solve it together do
    not finish.
    """

    at: tuple[int, np.ndarray]
    gradient: np.ndarray
    metric: np.ndarray
    radius: float
    scale: float
    penalised: np.ndarray


@dataclass(frozen=True)
class EvaluateAlong:
    """Loss on affine combinations of evaluated points and the constant margin. 0 passes.

    `coefficients` (m, k + 1): row m asks for the margins sum_j c_j z_j + c_k. Reply: values (m,),
    slopes (m, k + 1) and hessians (m, k + 1, k + 1), derivatives in the coefficients.
    """

    points: tuple[tuple[int, np.ndarray], ...]
    coefficients: np.ndarray


@dataclass(frozen=True)
class ResidualSums:
    """Add up residuals of a loss of a family at an evaluated point. 0 passes.

    Reply: pearson, the weighted sum of (y - mu)^2 / V(mu), and with a dispersion likelihood, its
    logarithm (nan if the family has none).
    """

    at: tuple[int, np.ndarray]
    dispersion: float | None = None


@dataclass(frozen=True)
class RateSums:
    """Add up what a Hessian proves of losses with a `Loss.local_rate`. 0 passes.

    Parameters
    ----------
    at : tuple of (int, (size,) array)
    margin_error : float
        Bound on the error of any margin.
    reach : float
        Bound on the change of any margin by a step of norm one in that of the Hessian.
    scale : float
        C.

    Reply: `slopes` and `curvature`, weighted sums of sizes; `moved`, that of the curvatures times
    squared errors of margins; and sums of powers `summation.MOMENT` of what bounds the largest:
    `changed`, of errors times rates, and `rate`, of rates times the change of that row's margin by
    a step of norm one.
    """

    at: tuple[int, np.ndarray]
    margin_error: float
    reach: float
    scale: float


@dataclass(frozen=True)
class DualStateRef:
    """Names a state of all dual variables and carries what rebuilds it.

    Blocks that are in state `before` move to state `number` by alpha += c1 (change of the last
    round) + c2 (previous step), `commit` being (c1, c2); blocks already there stay; all others
    start again from alpha = -slope(y, X w + b), or where w is None, or not to be trusted, from
    zero.

    Parameters
    ----------
    C : float
        Weight of the losses.
    bias, offset : float
        Value of the constant feature that stands for the intercept (0: none), and what is added to
        margins besides.
    keep : bool
        Whether this step is kept, to be searched along after the next round.
    trust : bool
        Whether w is good enough to take dual variables from it.
    own : array, optional
        X' C alpha of that state, for rows that are all there are, in the memory of who asks.
    threshold : float
        Strength of an L1 penalty: margins are those of the shared vector with all entries of
        features moved towards zero by it.
    """

    number: int
    before: int | None
    commit: tuple[float, float]
    w: np.ndarray | None
    C: float
    bias: float = 0.0
    offset: float = 0.0
    keep: bool = False
    trust: bool = True
    own: np.ndarray | None = None
    threshold: float = 0.0


@dataclass(frozen=True)
class SDCAConfig:
    """How a worker goes about its local epochs.

    Parameters
    ----------
    partitioning : {"dynamic", "static", "wild"}
        Whether threads get buckets anew at each epoch, get them once for all, or share one vector
        without locks.
    partitions : int, optional
        Parts, each with a replica of the shared vector, into which the rows of a group are divided;
        default: threads.
    nodes : int, optional
        Groups of threads, each with rows of its own; default: NUMA nodes.
    threads : int, optional
        Default: those of the worker.
    bucket : int, optional
        Rows of a bucket; default: by the rule of the Snap ML paper.
    epochs : int
        Local epochs of a round.
    shrink : bool
        Whether to pass over rows that rest at a bound.
    """

    partitioning: str = "dynamic"
    partitions: int | None = None
    nodes: int | None = None
    threads: int | None = None
    bucket: int | None = None
    epochs: int = 1
    shrink: bool = False


@dataclass(frozen=True)
class DualRound:
    """Local epochs of dual coordinate ascent from the shared vector v (d + 1,). 1 pass per epoch.

    `seed` is that of the fit and the number of the round. `outer` is the sigma' of CoCoA among
    groups of threads, `inner` that among the partitions of a group. Reply: own = X' C alpha at the
    committed state and change = X' C (alpha' - alpha), both (d + 1,); squares, the sum of the
    groups' |change|^2; inner (2,), see `local_epochs.Run`; and without C: before and after, the
    conjugates of both states, loss and gap, summed over the margins met on the way.
    """

    state: DualStateRef
    v: np.ndarray
    plan: SDCAConfig
    seed: tuple[int, int]
    outer: float
    inner: float


@dataclass(frozen=True)
class DualLine:
    """Conjugates along alpha + c1 (change of the last round) + c2 (previous step). 0 passes.

    `coefficients` (m, 2). Reply: values (m,), slopes (m, 2) and hessians (m, 2, 2).
    """

    state: DualStateRef
    coefficients: np.ndarray


@dataclass(frozen=True)
class DualTotals:
    """Add up what certifies the committed state. 1 pass.

    Margins X v, without intercept, are kept under `token`; v has been moved by the threshold.

    Reply: own = X' C alpha (d + 1,), read from the rows if `anew`, else as its changes have added
    up; and with `side` the part of the rows with a > 0 (last entry: the sum of C s a).
    """

    state: DualStateRef
    v: np.ndarray
    token: int
    side: bool = False
    anew: bool = True


@dataclass(frozen=True)
class DualValue:
    """Add up conjugates with the positive and the negative variables scaled. 0 passes."""

    state: DualStateRef
    positive: float = 1.0
    negative: float = 1.0


@dataclass(frozen=True)
class DualShape:
    """Ask how a plan divides the rows. Reply: groups and partitions, over all workers. 0 passes."""

    plan: SDCAConfig


@dataclass(frozen=True)
class DualSave:
    """Write the dual variables of the committed state to files in a folder. 0 passes."""

    state: DualStateRef
    folder: str


@dataclass(frozen=True)
class DualLoad:
    """Read the dual variables that become the committed state. 1 pass.

    Reply: own = X' C alpha (d + 1,).
    """

    state: DualStateRef
    folder: str


DualRequest = DualShape | DualRound | DualLine | DualTotals | DualValue | DualSave | DualLoad
Request = (
    Evaluate
    | HessianVector
    | Spread
    | TrustRegionStep
    | EvaluateAlong
    | ResidualSums
    | RateSums
    | ColumnMoments
    | ColumnGram
    | ColumnSigns
    | DualRequest
    | BatchRequest
    | InferenceRequest
    | OrdinalRequest
    | OutputRequest
)


def add(parts: list[Totals]) -> Totals:
    """Sum replies key by key, in the order given; some may lack a key.

    The same order gives the same bits.
    """
    if len(parts) == 1:
        return parts[0]
    keys = dict.fromkeys(key for part in parts for key in part)
    return {key: reduce(np.add, [part[key] for part in parts if key in part]) for key in keys}


def size_of(totals: Totals) -> int:
    """Return the bytes of the arrays in a reply."""
    kinds = np.ndarray, GatheredRows, ClusterSums
    return sum(value.nbytes for value in totals.values() if isinstance(value, kinds))
