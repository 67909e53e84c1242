"""What users give of a penalty: refused where it is wrong, and resolved to arrays of features."""

import math

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from daskglm.fitting.config import FitConfig
from daskglm.penalties.config import PLAIN, PenaltyConfig
from daskglm.solvers import SolverSpec, register, unregister

NAMES = ["age", "bmi", "sex"]
PSD = np.array([[2.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]])

WRONG = [
    ({"l1_ratio": -0.1}, r"l1_ratio=-0.1 must be a number from 0 \(L2 penalty\) to 1"),
    ({"l1_ratio": 1.5}, "l1_ratio=1.5 must be"),
    ({"l1_ratio": math.nan}, "l1_ratio=nan must be"),
    ({"l1_ratio": True}, "l1_ratio=True must be"),
    ({"l1_ratio": "half"}, "l1_ratio='half' must be"),
    ({"l1_ratio": [0.5]}, r"l1_ratio=\[0.5\] must be"),
    ({"l1_ratio": None}, "l1_ratio=None must be"),
    ({"standardize": 1}, "standardize=1 must be True or False"),
    ({"penalty_factor": 2.0}, "penalty_factor=2.0 must be an array .* there are C and alpha"),
    ({"penalty_factor": [1.0, -1.0]}, "penalty_factor has -1.0 for feature 1; give a number not"),
    ({"penalty_factor": [1.0, -math.inf]}, "penalty_factor has -inf for feature 1"),
    ({"penalty_factor": [1.0, math.nan]}, "penalty_factor has nan for feature 1"),
    ({"penalty_factor": [True, False]}, "penalty_factor has the shape .2,. and the dtype bool"),
    ({"penalty_factor": ["a", "b"]}, "penalty_factor has the shape .2,. and the dtype <U1"),
    ({"penalty_factor": [[1.0, 2.0]]}, r"penalty_factor has the shape \(1, 2\)"),
    ({"penalty_factor": [[1.0], [1.0, 2.0]]}, "penalty_factor=.* is no array of numbers"),
    ({"penalty_factor": {"age": -1.0}}, "penalty_factor: 'age' has -1.0; give a number not"),
    ({"penalty_factor": {"age": "x"}}, "penalty_factor: 'age' has 'x'"),
    ({"penalty_factor": {0: 1.0}}, "has the key 0; keys are names of features"),
    ({"penalty_factor": pd.Series([1.0])}, r"Series.*give its to_dict\(\) or its to_numpy\(\)"),
    ({"P2": np.ones(3)}, r"P2 has the shape \(3,\).*give a matrix of numbers"),
    ({"P2": np.ones((2, 3))}, r"P2 has the shape \(2, 3\); give a symmetric matrix"),
    ({"P2": np.ones((0, 0))}, r"P2 has the shape \(0, 0\)"),
    ({"P2": [[1.0, math.nan], [0.0, 1.0]]}, "P2 has nan among its entries"),
    ({"P2": [[1.0, 2.0], [0.0, 1.0]]}, r"not symmetric: its entry 0, 1 is 2, but 1, 0 is 0; give"),
    ({"P2": [[0.0, 1.0], [1.0, 0.0]]}, "P2 has the negative eigenvalue -1"),
    ({"P2": np.eye(2), "penalty_factor": [1.0, 2.0]}, "put the factors into P2"),
    ({"P2": np.eye(2), "penalty_factor": {"age": 0.0}}, "put the factors into P2.*of the L1 part"),
    ({"lower_bounds": math.nan}, "lower_bounds=nan must be a number, or -inf for none"),
    ({"lower_bounds": math.inf}, "lower_bounds=inf must be a number, or -inf for none"),
    ({"upper_bounds": -math.inf}, "upper_bounds=-inf must be a number, or inf for none"),
    ({"lower_bounds": "0"}, "lower_bounds='0' must be a number, an array"),
    ({"lower_bounds": True}, "lower_bounds=True must be a number, an array"),
    ({"upper_bounds": [0.0, math.nan]}, "upper_bounds has nan for feature 1; give a number"),
    ({"upper_bounds": {"age": -math.inf}}, "upper_bounds: 'age' has -inf"),
    ({"lower_bounds": 1.0, "upper_bounds": 0.0}, "lower_bounds has 1 for feature 0.*between them"),
    ({"lower_bounds": [0.0, 2.0], "upper_bounds": 1.0}, "lower_bounds has 2 for feature 1 and"),
    ({"lower_bounds": {"age": 2.0}, "upper_bounds": 1.0}, "has 2 for feature 'age'"),
    (
        {"lower_bounds": {"sex": 2.0}, "upper_bounds": {"age": 0.0, "sex": 1.0}},
        "has 2 for feature 'sex'",
    ),
    ({"lower_bounds": [0.0, 0.0], "upper_bounds": [1.0] * 3}, "2 values and upper_bounds 3"),
    ({"groups": [0, 0, 1]}, r"groups=\[0, 0, 1\] has no effect with l1_ratio=0"),
    ({"groups": [[0], [1]], "l1_ratio": 1.0, "lower_bounds": 0.0}, "groups=.*with bounds"),
    ({"groups": "abc", "l1_ratio": 1.0}, "groups='abc' must be an array with a label"),
    ({"groups": [], "l1_ratio": 1.0}, r"groups=\[\] must be"),
    ({"groups": 3, "l1_ratio": 1.0}, "groups=3 must be"),
    ({"groups": [[0], 1], "l1_ratio": 1.0}, "has labels beside lists"),
    ({"groups": [[0], []], "l1_ratio": 1.0}, "has an empty group"),
    ({"groups": [[0, -1]], "l1_ratio": 1.0}, "groups has -1 among the features"),
    ({"groups": [[0, 1.5]], "l1_ratio": 1.0}, "groups has 1.5 among the features"),
    ({"groups": [[0, 1], [1, 2]], "l1_ratio": 1.0}, "the feature 1 twice; groups must not overlap"),
    ({"groups": [["age"], ["age"]], "l1_ratio": 1.0}, "the feature 'age' twice"),
]


@pytest.mark.parametrize(("given", "message"), WRONG, ids=lambda each: str(each)[:60])
def test_wrong_values_are_refused_without_data(given, message):
    with pytest.raises(ValueError, match=message):
        PenaltyConfig(**given).check()


MISFITS = [
    ({"penalty_factor": [1.0, 2.0]}, "penalty_factor has 2 values, but X has 3 features"),
    ({"lower_bounds": [0.0] * 4}, "lower_bounds has 4 values, but X has 3 features"),
    ({"P2": np.eye(2)}, r"P2 has the shape \(2, 2\), but X has 3 features"),
    ({"groups": [0, 1], "l1_ratio": 1.0}, "groups has 2 labels, but X has 3 features"),
    ({"groups": [[0, 3]], "l1_ratio": 1.0}, "groups has the feature 3, but X has 3 features"),
    ({"groups": [["age", 0]], "l1_ratio": 1.0}, "the feature 0 twice; groups must not overlap"),
    ({"groups": [["weight"]], "l1_ratio": 1.0}, "groups has the feature 'weight', which X does"),
    (
        {"penalty_factor": {"weight": 1.0}},
        "penalty_factor has the feature 'weight', which X does not have.*'age', 'bmi', 'sex'",
    ),
    ({"penalty_factor": [0.0] * 3}, "penalty_factor is 0 for all features.*C=inf or alpha=0"),
    ({"penalty_factor": dict.fromkeys(NAMES, 0.0)}, "penalty_factor is 0 for all features"),
    ({"lower_bounds": {"bmi": 2.0}, "upper_bounds": [3.0, 1.0, 3.0]}, "has 2 for feature 1 and"),
    (
        {"penalty_factor": {"bmi": math.inf}, "lower_bounds": {"bmi": 0.5}},
        "penalty_factor is inf for feature 1, .*lower_bounds has 0.5 for it",
    ),
    (
        {"penalty_factor": [math.inf, 1.0, math.inf], "upper_bounds": [0.0, -1.0, -2.0]},
        "penalty_factor is inf for feature 2, .*upper_bounds has -2 for it",
    ),
    (
        {"groups": [[0, 2]], "l1_ratio": 1.0, "penalty_factor": [1.0, 1.0, math.inf]},
        r"penalty_factor has 1 and inf within the group of the features \[0, 2\]",
    ),
    (
        {"groups": [[0, 2]], "l1_ratio": 1.0, "penalty_factor": [1.0, 1.0, 3.0]},
        r"penalty_factor has 1 and 3 within the group of the features \[0, 2\]",
    ),
]


@pytest.mark.parametrize(("given", "message"), MISFITS, ids=lambda each: str(each)[:60])
def test_what_does_not_fit_the_features_is_refused(given, message):
    penalty = PenaltyConfig(**given)
    penalty.check()
    with pytest.raises(ValueError, match=message):
        penalty.for_features(3, NAMES)


def test_names_want_columns_with_names():
    for given in ({"upper_bounds": {"age": 1.0}}, {"groups": [["age"]], "l1_ratio": 0.5}):
        with pytest.raises(ValueError, match="'age', but the columns of X have no names; give"):
            PenaltyConfig(**given).for_features(3, None)


def test_a_name_of_two_columns_is_refused():
    with pytest.raises(ValueError, match="'age', a name of 2 columns of X"):
        PenaltyConfig(penalty_factor={"age": 2.0}).for_features(3, ["age", "bmi", "age"])


def test_the_default_resolves_to_nothing():
    found = PLAIN.for_features(3, None)
    assert (found.l1_ratio, found.standardize) == (0.0, False)
    others = (found.factors, found.P2, found.lower, found.upper, found.groups)
    assert all(each is None for each in others)


@pytest.mark.parametrize("given", [[0, 1, 2], np.array([0.0, 1.0, 2.0]), {"age": 0, "sex": 2}])
def test_factors_by_order_and_by_name(given):
    found = PenaltyConfig(penalty_factor=given).for_features(3, NAMES)
    np.testing.assert_array_equal(found.factors, [0.0, 1.0, 2.0])
    assert found.factors.dtype == np.float64


@pytest.mark.parametrize("given", [PSD, PSD.tolist(), sp.csr_matrix(PSD), sp.coo_array(PSD)])
def test_matrices_of_several_kinds(given):
    np.testing.assert_array_equal(PenaltyConfig(P2=given).for_features(3, None).P2, PSD)


def test_a_matrix_of_low_rank_may_have_rounding_errors():
    """Eigenvalues that are zero come out as small negative numbers."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        root = rng.standard_normal((60, 3)) * 10.0 ** rng.uniform(-8, 8)
        PenaltyConfig(P2=root @ root.T).check()


def test_bounds_of_all_kinds():
    infinite = math.inf
    for given, lower in (
        (0, [0.0, 0.0, 0.0]),
        ([-infinite, 0.0, 1.0], [-infinite, 0.0, 1.0]),
        ({"bmi": -2}, [-infinite, -2.0, -infinite]),
    ):
        found = PenaltyConfig(lower_bounds=given).for_features(3, NAMES)
        np.testing.assert_array_equal(found.lower, lower)
        assert found.upper is None
    found = PenaltyConfig(upper_bounds={"bmi": 2}).for_features(3, NAMES)
    np.testing.assert_array_equal(found.upper, [infinite, 2.0, infinite])
    # equal bounds hold a coefficient fixed
    PenaltyConfig(lower_bounds=1.0, upper_bounds={"age": 1.0}).for_features(3, NAMES)


def test_what_is_given_is_not_shared():
    given = np.ones(3)
    PenaltyConfig(penalty_factor=given).for_features(3, None).factors[0] = 5.0
    assert given[0] == 1.0


@pytest.mark.parametrize(
    "given",
    [
        ["x", "y", "x"],
        np.array([7, -1, 7]),
        [[0, 2], [1]],
        [(2, 0)],
        [["sex", "age"]],
        [["sex", 0], ["bmi"]],
        [np.array([0, 2])],
    ],
    ids=str,
)
def test_groups_of_all_kinds_cover_all_features(given):
    found = PenaltyConfig(groups=given, l1_ratio=1.0).for_features(3, NAMES)
    assert [group.tolist() for group in found.groups] == [[0, 2], [1]]


@pytest.mark.parametrize(
    ("given", "is_plain", "is_smooth"),
    [
        ({}, True, True),
        ({"l1_ratio": 0, "standardize": np.False_}, True, True),
        ({"penalty_factor": [1.0]}, False, True),
        ({"penalty_factor": [math.inf]}, False, False),
        ({"penalty_factor": {"age": math.inf}}, False, False),
        ({"P2": np.eye(1)}, False, True),
        ({"standardize": True}, False, True),
        ({"l1_ratio": 1e-9}, False, False),
        ({"lower_bounds": 0.0}, False, False),
        ({"upper_bounds": 0.0}, False, False),
        ({"l1_ratio": 1.0, "groups": [0]}, False, False),
    ],
    ids=str,
)
def test_kinds(given, is_plain, is_smooth):
    penalty = PenaltyConfig(**given)
    penalty.check()
    assert penalty.is_plain is is_plain
    assert penalty.is_smooth is is_smooth


# ---- with the other settings of a fit
L1 = PenaltyConfig(l1_ratio=0.5)
BOUNDS = PenaltyConfig(lower_bounds=0.0)


@pytest.mark.parametrize(
    ("loss", "penalty", "more", "message"),
    [
        ("logistic", PenaltyConfig(l1_ratio=2.0), {}, "l1_ratio=2.0 must be"),
        (
            "squared",
            PenaltyConfig(l1_ratio=1, P2=np.eye(2)),
            {},
            "P2=.* has no effect with l1_ratio=1",
        ),
        (
            "squared",
            PenaltyConfig(l1_ratio=1, groups=[0.0, math.nan]),
            {},
            "groups=.* has NaN among the labels",
        ),
        ("ordinal", L1, {"solver": "newton"}, "use 'auto', 'proximal_newton', 'owlqn'$"),
        ("logistic", L1, {"solver": "tron"}, "'tron' takes no L1 penalty and no bounds.*'auto'"),
        ("logistic", BOUNDS, {"solver": "lbfgs"}, r"\(bounds of coefficients\); use 'auto'"),
        ("squared", L1, {"C": math.inf}, "C=inf leaves no penalty, for which l1_ratio=0.5 can"),
        ("squared", PenaltyConfig(P2=np.eye(2)), {"C": math.inf}, "for which P2 can have no"),
        (
            "squared",
            PenaltyConfig(l1_ratio=1.0, groups=[0, 0]),
            {"C": math.inf},
            "l1_ratio=1.0 and groups",
        ),
    ],
    ids=str,
)
def test_what_does_not_go_together_is_refused(loss, penalty, more, message):
    with pytest.raises(ValueError, match=message):
        FitConfig(loss, penalty=penalty, **more).check()


@pytest.mark.parametrize(
    ("loss", "penalty", "more"),
    [
        ("squared", BOUNDS, {"C": math.inf}),
        ("multinomial", L1, {}),
        ("squared_hinge", L1, {"stop": "gap"}),
        ("poisson", PenaltyConfig(l1_ratio=1.0, groups=[0, 0]), {"average": True}),
        ("logistic", PenaltyConfig(penalty_factor=[1.0, 0.0]), {"solver": "newton"}),
        ("logistic", PenaltyConfig(penalty_factor=[1.0, math.inf]), {"solver": "newton"}),
        ("squared", PenaltyConfig(penalty_factor=[1.0, math.inf]), {"C": math.inf}),
        ("squared", PenaltyConfig(P2=np.eye(2), penalty_factor=[1.0, math.inf]), {}),
        ("squared", PenaltyConfig(P2=np.eye(2), penalty_factor=[2.0, 0.0], l1_ratio=0.1), {}),
        (
            "poisson",
            PenaltyConfig(l1_ratio=1.0, groups=[0, 0, 1], penalty_factor=[math.inf] * 2 + [1.0]),
            {},
        ),
    ],
    ids=str,
)
def test_what_goes_together(loss, penalty, more):
    FitConfig(loss, penalty=penalty, **more).check()


def test_solvers_that_take_kinks_are_named():
    register(SolverSpec("with_kinks", lambda objective, w: iter(()), 1, takes_kinks=True))
    try:
        FitConfig("logistic", penalty=L1, solver="with_kinks").check()
        with pytest.raises(ValueError, match="use 'auto'.*'with_kinks'"):
            FitConfig("logistic", penalty=L1, solver="newton").check()
    finally:
        unregister("with_kinks")


def test_a_digest_is_of_all_values_and_alike_in_every_process():
    labels = np.arange(3000) // 3
    moved = labels.copy()
    moved[1500] = 0
    ways = [
        lambda groups: groups,
        lambda groups: groups.tolist(),
        pd.Series,
        lambda groups: [np.flatnonzero(groups == 0), np.flatnonzero(groups > 0)],
    ]
    for way in ways:
        same = [PenaltyConfig(l1_ratio=0.5, groups=way(labels)).digest for _ in range(2)]
        assert same[0] == same[1]
        assert PenaltyConfig(l1_ratio=0.5, groups=way(moved)).digest != same[0]
    # of objects memory has addresses only
    words = [np.array([first + "b", "c"], object) for first in ("a", "a")]
    assert words[0].tobytes() != words[1].tobytes()
    one, other = (PenaltyConfig(l1_ratio=0.5, groups=labels).digest for labels in words)
    assert one == other
    assert (
        PenaltyConfig(l1_ratio=0.5).digest != PenaltyConfig(l1_ratio=0.5, standardize=True).digest
    )
