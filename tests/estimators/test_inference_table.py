"""A table as text and as HTML."""

from daskglm.estimators.inference_table import Summary

TABLE = Summary(
    "Inference: loss <poisson>",
    [("rows", "9"), ("covariance", "HC1")],
    ("coef", "std err"),
    [("a", ("1.0000", "0.5000")), ("intercept", ("-12.0000", "0.1000"))],
    ["A note."],
)


def test_text_is_aligned():
    assert str(TABLE) == repr(TABLE) == TABLE.as_text()
    assert str(TABLE).splitlines() == [
        "Inference: loss <poisson>",
        "rows        9",
        "covariance  HC1",
        "----------------------------",
        "               coef  std err",
        "----------------------------",
        "a            1.0000   0.5000",
        "intercept  -12.0000   0.1000",
        "----------------------------",
        "A note.",
    ]


def test_html_has_all_cells_and_escapes_names():
    page = TABLE._repr_html_()
    assert "loss &lt;poisson&gt;" in page
    assert "<td>intercept</td><td>-12.0000</td><td>0.1000</td>" in page
    assert page.count("<tr>") == 3
    assert "A note." in page
