"""Configuration of Sphinx: `make docs` builds the pages into docs/_build/html."""

import importlib.metadata
import os
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import chooser
import coming_from
import executed

import daskglm

project = "daskglm"
author = "The daskglm developers"
copyright = f"2026, {author}"
release = importlib.metadata.version("daskglm")
version = release

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # readers' browsers ask no other host
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "examples/*.rst", "generated/gallery/*.py.md5"]
templates_path = ["_templates"]
nitpicky = True

# Pages are Markdown; headings get anchors, so that `page.md#a-heading` is a checked link.
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# The reference lists the members of a class in its own template, without scikit-learn's.
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
toc_object_entries_show_parents = "hide"

# Examples that read a file of the folder of real data sets: $DASKGLM_DATA, or shared/data beside
# the repository. Where it is missing, their pages show the code, which is not executed.
DOCS = Path(__file__).resolve().parent
DATA = Path(os.environ.setdefault("DASKGLM_DATA", str(DOCS.parents[1] / "shared" / "data")))
NEEDED = {
    "clicks_out_of_core": "criteo/criteo_8000.tsv.xz",
    "text_with_47000_words": "news20_text/news20_bydate.jsonl.xz",
}
NOT_EXECUTED = [example for example, file in NEEDED.items() if not (DATA / file).exists()]
for example in NOT_EXECUTED:
    print(f"docs/examples/{example}.py is not executed: there is no {DATA / NEEDED[example]}")

# Matplotlib reads the style of the pictures when it is imported, which is after this.
os.environ["MATPLOTLIBRC"] = str(DOCS / "matplotlibrc")

# Examples run while the pages are built; their pages are generated and never committed.
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "generated/gallery",
    "filename_pattern": rf"[\\/](?!({'|'.join(NOT_EXECUTED)})\.py$)\w+\.py$",
    "ignore_pattern": r"__init__\.py",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    # pages of the reference show the examples that use a name
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("daskglm",),
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "image_srcset": ["2x"],
    "capture_repr": (),
    "reset_modules": (),
}

html_theme = "pydata_sphinx_theme"
html_title = "daskglm"
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
}
# pages that stand alone in their group have no list of neighbours beside them
html_sidebars: dict[str, list[str]] = {page: [] for page in ("index", "inference", "search")}
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
html_css_files = ["custom.css"]
copybutton_exclude = ".linenos, .gp, .go"  # prompts and outputs are not copied
html_favicon = "_static/favicon.svg"


def _escape_formulas(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Docstrings write |w| and w*, which would be markup; numpydoc reads them after this.

    What stands between backticks, as formulas do, is left as it is.
    """
    if not name.startswith("daskglm"):
        return
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[number] = re.sub(r"(`+[^`]+`+)|([|*])", _escaped, line)


def _escaped(found: re.Match[str]) -> str:
    """Return what is between backticks as it is, and a character of markup with a backslash."""
    return found[1] or rf"\{found[2]}"


# Pages of the guide that the reference sends readers to, by the names that they are about.
GUIDE = {
    "getting-started": ("fit", "save", "load"),
    "tables": ("Schema", "UnseenLevelWarning", "AliasedColumnWarning", "LeftOutWarning"),
    "penalties": ("Ridge", "Lasso", "ElasticNet", "LassoCV", "ElasticNetCV", "regularization_path"),
    "families": (
        "GeneralizedLinearRegressor",
        "GeneralizedLinearRegressorCV",
        "PoissonRegressor",
        "GammaRegressor",
        "TweedieRegressor",
    ),
    "families-classes": ("LogisticRegression", "OrdinalRegression"),
    "families-robust": ("HuberRegressor", "QuantileRegressor", "LinearSVR"),
    "cross-validation": ("LogisticRegressionCV",),
    "solvers": ("LinearSVC",),
    "inference": ("Inference", "likelihood_ratio_test"),
    "report": ("Report",),
    "scikit-learn": ("Pipeline",),
    "extending": ("Loss", "register_loss", "LinearClassifier", "LinearRegressor"),
    "data": ("read_svmlight",),
}


def _link(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Pages and public names in docstrings become links, and the guide's page is named first.

    `fit` alone is a method, `daskglm.fit` the function.
    """
    if not name.startswith("daskglm"):
        return
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            line = re.sub(r"(?<![/\w`])docs/([\w-]+)\.md", r":doc:`/\1`", line)
            lines[number] = re.sub(r"(?<![:`\w])`(daskglm\.\w+|[A-Z]\w+)`", _to_reference, line)
    pages = [page for page, names in GUIDE.items() if name.removeprefix("daskglm.") in names]
    first = lines.index("") if "" in lines else len(lines)
    lines[first:first] = [text for page in pages for text in ("", f"Guide: :doc:`/{page}`.")]


def _to_reference(found: re.Match[str]) -> str:
    """Return a link to a public name, and what is none as it is."""
    public = found[1].removeprefix("daskglm.")
    return f":obj:`~daskglm.{public}`" if public in daskglm.__all__ else found[0]


def _name_files(app: Any, page: str, source: list[str]) -> None:
    """Links to files that are no pages, which work in the repository, become the files' names."""

    def name(link: re.Match[str]) -> str:
        text, path = link[1], link[2]
        return f"`{path}`" if text in (path, f"`{path}`") else f"{text} (`{path}`)"

    source[0] = re.sub(r"\[([^\]]+)\]\(\.\./([^)#]+)\)", name, source[0])


def _note_not_executed(app: Any, page: str, source: list[str]) -> None:
    """Pages of examples whose file is missing say so before their first code."""
    folder, _, example = page.rpartition("/")
    if folder == "generated/gallery" and example in NOT_EXECUTED:
        note = (
            ".. note::\n\n   This page was built without its data, so its code was not executed. "
            f"It reads ``{NEEDED[example]}`` in the folder that ``DASKGLM_DATA`` names.\n\n"
        )
        source[0] = source[0].replace(
            ".. GENERATED FROM PYTHON", note + ".. GENERATED FROM PYTHON", 1
        )


def _outdated(*given: Any) -> list[str]:
    """Have pages that are filled from elsewhere read in every build."""
    return ["choose", "coming-from"]


def setup(app: Any) -> None:
    """Connect the functions above to Sphinx."""
    app.connect("autodoc-process-docstring", _link, priority=399)
    app.connect("autodoc-process-docstring", _escape_formulas, priority=400)
    app.connect("source-read", _name_files)
    app.connect("source-read", coming_from.fill)
    app.connect("source-read", _note_not_executed)
    app.connect("source-read", chooser.fill)
    app.connect("source-read", executed.fill)
    app.connect("env-get-outdated", _outdated)
