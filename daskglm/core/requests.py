"""What the solver side may ask of the data side, and how partial answers add up.

Requests are frozen, picklable and complete: a token names what a block may have cached, the
vectors beside it rebuild it where it was forgotten. Replies are dictionaries of sums; `rows` counts
the rows of X that were read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from daskglm.core.batch_requests import BatchRequest, GatheredRows
from daskglm.core.column_requests import (
    ColumnDescent,
    ColumnGram,
    ColumnMoments,
    ColumnSigns,
    ColumnSweeps,
    ColumnTargets,
)
from daskglm.core.inference_requests import ClusterSums, InferenceRequest
from daskglm.core.level_blocks import LevelBlocks, LevelPairs, PairKeys
from daskglm.core.sample_requests import DrawnRows, DrawRows

Totals = dict[str, Any]

# What replies say of their cost: rows that were read, seconds that were waited for them, and rows
# whose dual variables were lost.
TALLIES = ("rows", "waited", "rebuilt")


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
    target : float, optional
        What the targets of all rows are instead of their own; see `fitting.inside`.
    """

    loss: LossRef
    positive: Any = None
    class_weight: tuple[tuple[Any, float], ...] = ()
    centre: tuple[int, float] | None = None
    folds: Folds | None = None
    fold: int | None = None
    inside: float = 0.0
    classes: tuple[Any, ...] = ()
    target: float | None = None


@dataclass(frozen=True)
class Evaluate:
    """Evaluate loss and gradient at w. 1 pass.

    Margins stay with the rows under `token`, unless `keep` is false. Rows whose label is not among
    the problem's classes must have weight zero.

    Parameters
    ----------
    w : array
        Of one margin a row: (d,) or, with intercept, (d + 1,). Of a softmax: (K, d) or (K, d + 1),
        row k for class k of the problem. Of ordered classes: (d + K - 1,), coefficients and then
        thresholds, of which number k is between classes k and k + 1; they need not increase.
    token : int
    gram, diagonal : bool
        Whether to add up the Hessian, and its diagonal.
    keep : bool
    curved : bool
        Whether curvatures of one margin stay with the rows, too.
    beside : int, optional
        Another token whose margins are kept.
    exact : bool
        Whether Grams are summed in float64, whatever the dtype of the rows.
    blocks : LevelBlocks, optional
        Of one margin: factors whose levels are kept apart, m in all. The Gram then is an array of
        rows of q sums: first q rows, the upper triangle of the Gram of the q - 1 other coefficients
        and a constant; then for each of the m levels its products with them; then, one after
        another, the sums of the pairs of levels, and zeros.
    expected : bool
        Of one margin: whether curvatures are expected ones, Fisher's; else second derivatives.
    by_class : bool
        Whether only the K diagonal blocks of a softmax are added up, each by itself.
    basis : (K, r) array, optional
        Directions in the space of classes: the diagonal of a softmax is in coordinates along them.
        Default: the classes.

    Reply: value, gradient (as w)[, gram (size, size)][, diagonal (size,)].

    Of a softmax, grams (pairs, side, side) instead, upper triangles. Block (j, k) of the Hessian
    is, for j < k, minus the Gram sum_i s_i p_ij p_ik (x_i, 1)(x_i, 1)', and diagonal blocks are
    minus the sum of the others of their row: so K (K - 1) / 2 Grams, in the order (0, 1), (0, 2),
    ..., (1, 2), ..., are all of it. diagonal is (r, side).

    Of ordered classes whose loss splits these sum the two logistic terms (see `losses.ordinal`).
    The third depends on thresholds and weights of classes alone, and is added by the objective. Of
    other links they sum whole losses. The reply has curvatures (K - 1,), second derivatives by each
    threshold, of which those by two thresholds are zero, but for between (K - 2,) of links that do
    not split, by the differences of neighbours; and weights (K,) of the classes. gram (d, d) is an
    upper triangle, beside cross (d, K - 1), by w and thresholds; diagonal is (d,).
    """

    w: np.ndarray
    token: int
    gram: bool = False
    diagonal: bool = False
    keep: bool = True
    curved: bool = False
    beside: int | None = None
    exact: bool = False
    by_class: bool = False
    blocks: LevelBlocks | None = None
    expected: bool = False
    basis: np.ndarray | None = None


@dataclass(frozen=True)
class HessianVector:
    """Hessian of the loss at a point (token, w) times v. Reply: product, as v. 1 pass.

    Of ordered classes, curvatures between thresholds are left out; the reply has weights (K,) of
    the classes, too.
    """

    v: np.ndarray
    at: tuple[int, np.ndarray]


@dataclass(frozen=True)
class EvaluateAlong:
    """Loss on combinations of the margins of evaluated points, and constants. 0 passes.

    Row r of `coefficients` (r, points) and of `constants` asks for the margins sum_j c_j z_j +
    constant, offsets added once. One margin has (r, 1) constants, by default zero; a softmax
    (r, K), and c_j that sum to one, as offsets are among its margins; ordered classes have
    thresholds (r, K - 1), which take the place of constants.

    Reply: values (r,). Of one margin slopes (r, k + 1) and hessians (r, k + 1, k + 1), derivatives
    in the coefficients and the constant; of a softmax slopes (r, K) and hessians (r, K, K), in the
    constants; of ordered classes slopes and curvatures (r, K - 1)[, between (r, K - 2)] by the
    thresholds, and weights (K,).
    """

    points: tuple[tuple[int, np.ndarray], ...]
    coefficients: np.ndarray
    constants: np.ndarray | None = None


@dataclass(frozen=True)
class Spread:
    """How far rows lie from a centre (d,). Reply: sums, columns (d,) and moment. 1 pass.

    `sums` are those of the columns, `columns` of their (|x_j| / scale) ** `summation.MOMENT`, and
    `moment` of (|x - centre| / scale) ** `summation.MOMENT`; of rows of codes alone a bound on the
    largest of these is enough. Only for rows in host memory.
    """

    centre: np.ndarray
    scale: float


@dataclass(frozen=True)
class TrustRegionStep:
    """Minimise the model around a point over s'Ms <= radius^2, on the rows' device.

    The model's Hessian is C times that of the losses plus the diagonal `penalised`. `metric`
    is the diagonal of M, or the inverse of a full one (symmetric, (size, size)); `share` is that of
    the first residual at which it ends. Reply: the fields
    of `trust_region.RegionStep`, of several devices by the first. 1 pass per product. Only for
    engines with `solves_trust_regions`; raises CollectiveLost if devices that solve it together do
    not finish.
    """

    at: tuple[int, np.ndarray]
    gradient: np.ndarray
    metric: np.ndarray
    radius: float
    share: float
    C: float
    penalised: np.ndarray


@dataclass(frozen=True)
class ResidualSums:
    """Add up residuals of a loss of a family. 0 passes.

    Parameters
    ----------
    at : tuple of (int, array), optional
        An evaluated point; None: each mean is its target.
    dispersion : float, optional
        Default: no likelihood is asked for.
    frequency : bool
        Whether a weight counts equal rows, rather than is what the family takes it for.

    Reply: pearson, at a point the weighted sum of (y - mu)^2 / V(mu), else zero; likelihood, the
    logarithm of it (nan if the family has none, or without a dispersion).
    """

    at: tuple[int, np.ndarray] | None
    dispersion: float | None = None
    frequency: bool = False


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
    C : float

    Reply: `slopes` and `curvature`, weighted sums of sizes; `moved`, that of the curvatures times
    squared errors of margins; and sums of powers `summation.MOMENT` of what bounds the largest:
    `changed`, of errors times rates, and `rate`, of rates times the change of that row's margin by
    a step of norm one.
    """

    at: tuple[int, np.ndarray]
    margin_error: float
    reach: float
    C: float


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
    keep : int
        Last steps that are kept, this one among them, to be searched along after the next round.
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
    keep: int = 0
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
    steps : bool
        Whether one group of threads takes steps between epochs by itself; see `dual_span`.
    """

    partitioning: str = "dynamic"
    partitions: int | None = None
    nodes: int | None = None
    threads: int | None = None
    bucket: int | None = None
    epochs: int = 1
    shrink: bool = False
    steps: bool = False


@dataclass(frozen=True)
class DualRound:
    """Local epochs of dual coordinate ascent from the shared vector v (d + 1,). 1 pass per epoch.

    `seed` is that of the fit and the number of the round. `outer` is the sigma' of CoCoA among
    groups of threads, `inner` that among the partitions of a group. Reply: own = X' C alpha at the
    committed state and change = X' C (alpha' - alpha), both (d + 1,); squares, the sum of the
    groups' |change|^2; inner (2,), see `local_epochs.Run`; and without C: before and after, the
    conjugates of both states, loss and gap, summed over the margins met on the way. With steps
    also drift, the sum of their errors.
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
class DualSpan:
    """Derivatives of the conjugates after a round, along its change and the kept steps. 0 passes.

    Reply, with k the `kept` steps + 1: slopes (k,), hessian (k, k).
    """

    state: DualStateRef
    kept: int


@dataclass(frozen=True)
class DualMove:
    """Go to alpha + multiples of a round's change and of the kept steps, projected on the domain.

    That replaces the last round's change. `multiples` has one for the change and one for each step
    of the `DualSpan` before. Passes: by the rows that are outside, read one way.

    Reply: change = X' C (alpha' - alpha) (d + 1,); slopes (2,), of the conjugates at alpha' along
    the way there from alpha, and from where the round had ended.
    """

    state: DualStateRef
    multiples: np.ndarray


@dataclass(frozen=True)
class DualInterior:
    """A step of the method of interior points over all rows, from where the last one went.

    Of rows of one group in host memory, without a threshold. `way` is "begin": anew; "step"; or
    "best": no step, but back to the variables of the highest dual value that steps went through.
    Passes: 1, or 10 of many rows, beside a Gram of the rows or of the features.

    Reply: own = X' C alpha' (d + 1,); change, from the committed state; intercept; left, of the gap
    by what the method knows; moved, whether there was a step.
    """

    state: DualStateRef
    loss: LossRef
    way: str


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


@dataclass(frozen=True)
class Together:
    """Requests that need nothing of each other's replies, in one message, answered in turn.

    Not for `TrustRegionStep`, which workers answer together. Reply: see `joined`; 1 round for all.
    """

    requests: tuple[Request, ...]


@dataclass(frozen=True)
class OfProblem:
    """A request about another problem on the same rows than that of the message it travels in."""

    problem: Problem
    request: Request


DualRequest = (
    DualShape
    | DualRound
    | DualLine
    | DualSpan
    | DualMove
    | DualInterior
    | DualTotals
    | DualValue
    | DualSave
    | DualLoad
)
Request = (
    Together
    | OfProblem
    | Evaluate
    | LevelPairs
    | HessianVector
    | Spread
    | TrustRegionStep
    | EvaluateAlong
    | ResidualSums
    | RateSums
    | ColumnMoments
    | ColumnGram
    | ColumnSigns
    | ColumnDescent
    | ColumnSweeps
    | ColumnTargets
    | DrawRows
    | DualRequest
    | BatchRequest
    | InferenceRequest
)


# Fields of requests that are vectors, each as `to` makes it.
_VECTORS: dict[type, Callable[[Any, Callable[[Any], Any]], dict[str, Any]]] = {
    Evaluate: lambda asked, to: {"w": to(asked.w)},
    HessianVector: lambda asked, to: {"v": to(asked.v), "at": _points([asked.at], to)[0]},
    EvaluateAlong: lambda asked, to: {"points": _points(asked.points, to)},
    RateSums: lambda asked, to: {"at": _points([asked.at], to)[0]},
    Together: lambda asked, to: {
        "requests": tuple(with_vectors(each, to) for each in asked.requests)
    },
    OfProblem: lambda asked, to: {"request": with_vectors(asked.request, to)},
}


def _points(given: Sequence[tuple[int, Any]], to: Callable[[Any], Any]) -> tuple[Any, ...]:
    return tuple((token, to(w)) for token, w in given)


def with_vectors(request: Request, to: Callable[[Any], Any]) -> Request:
    """Return a request with its vectors of coefficients as `to` makes them; others as they are."""
    vectors = _VECTORS.get(type(request))
    return request if vectors is None else replace(request, **vectors(request, to))


def joined(replies: Sequence[Totals]) -> Totals:
    """Make one reply of those to the requests of a `Together`, which `parted` takes apart.

    Keys are by the number of the request; those of `TALLIES` are sums over all of them, too.
    """
    found = {
        f"{k} {key}": value
        for k, reply in enumerate(replies)
        for key, value in reply.items()
        if key != "waited"  # which the whole message has
    }
    for key in TALLIES:
        if any(key in reply for reply in replies):
            found[key] = sum(reply.get(key, 0) for reply in replies)
    return found


def parted(totals: Totals) -> list[Totals]:
    """Return the replies that `joined` made one of, perhaps added up since."""
    found: dict[str, Totals] = {}
    for name, value in totals.items():
        if name not in TALLIES:
            number, _, key = name.partition(" ")
            found.setdefault(number, {})[key] = value
    return [found[number] for number in sorted(found, key=int)]


def add(parts: list[Totals]) -> Totals:
    """Sum replies key by key, in the order given; some may lack a key.

    The same order gives the same bits. Far out sums may overflow, or be of infinities of two signs:
    who asked tells by the values.
    """
    if len(parts) == 1:
        return parts[0]
    keys = dict.fromkeys(key for part in parts for key in part)
    with np.errstate(over="ignore", invalid="ignore"):
        return {key: reduce(np.add, [part[key] for part in parts if key in part]) for key in keys}


def size_of(totals: Totals) -> int:
    """Return the bytes of the arrays in a reply."""
    kinds = np.ndarray, GatheredRows, ClusterSums, PairKeys, DrawnRows
    return sum(value.nbytes for value in totals.values() if isinstance(value, kinds))
