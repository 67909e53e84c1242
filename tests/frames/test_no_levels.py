"""Columns of tables that are no features as they are: refused by name, all at once."""

import numpy as np
import pandas as pd
import pytest

import daskglm

N = 60
Y = np.arange(N) % 2


def fit(schema=None, **columns):
    frame = pd.DataFrame({"area": [*"ab"] * (N // 2), **columns})
    return daskglm.LogisticRegression(schema=schema).fit(frame, Y)


def each(form):
    return [form(i) for i in range(N)]


WRITTEN = {
    "thousands": lambda i: f"{i + 1},234.5{i}",
    "thousands of elsewhere": lambda i: f"{i + 1}.234,5{i}",
    "blanks between": lambda i: f"{i + 1} 234",
    "decimal commas": lambda i: f"{i},5",
    "percent": lambda i: f"{i}.5%",
    "currency": lambda i: f"${i}.99",
    "currency behind": lambda i: f"{i},99 EUR",
    "accounting": lambda i: f"({i},5)",
}
DATES = {
    "ISO": lambda i: f"2024-01-{i % 28 + 1:02}",
    "time": lambda i: f"2024-01-01 12:{i:02}:00",
    "German": lambda i: f"{i % 28 + 1}.3.2024",
    "American": lambda i: f"3/{i % 28 + 1}/24",
}
LEVELS = {
    "few percents": lambda i: f"{i % 5 * 5}%",
    "few dates": lambda i: f"2024-0{i % 3 + 1}-01",
    "whole numbers": lambda i: f"{i % 50}",
    "ranges": lambda i: f"[{i % 50}-{i % 50 + 1})",
    "codes": lambda i: f"{i % 50}A",
    "plates": lambda i: f"{i}ABC",
    "one other": lambda i: "none" if i == 7 else f"{i},5",
    "codes of numbers, and a word": lambda i: "other" if i == 7 else f"{i % 50}",
    "codes of numbers, and many": lambda i: f"V{i % 25}" if i % 2 else f"{i % 25}.1",
    "times of a day": lambda i: f"{i % 24}:30",
}


@pytest.mark.parametrize("case", WRITTEN)
def test_numbers_as_people_write_them(case):
    values = each(WRITTEN[case])
    with pytest.raises(ValueError, match="column 'a' is text of numbers with signs, such as '"):
        fit(a=values)
    assert fit({"categories": ["a"]}, a=values).feature_names_out_.size == N + 2


def test_numbers_with_a_few_words_among_them():
    values = each(lambda i: {7: "unknown", 9: "-"}.get(i, f"{i}.25"))
    with pytest.raises(ValueError, match="'a' has numbers, and text that is none: '-', 'unknown'"):
        fit(a=values)
    assert fit({"categories": ["a"]}, a=values).feature_names_out_.size == N + 2


@pytest.mark.parametrize("case", DATES)
def test_dates_as_text(case):
    with pytest.raises(ValueError, match="column 'a' is text of dates, such as .*days since"):
        fit(a=each(DATES[case]))


@pytest.mark.parametrize("case", LEVELS)
def test_what_may_be_levels_is(case):
    values = each(LEVELS[case])
    assert fit(a=values).feature_names_out_.size == len(set(values)) + 2


@pytest.mark.parametrize("form", [DATES["ISO"], lambda i: f"{i % 28}%"])
def test_days_and_shares_of_many_rows_are_levels(form):
    frame = pd.DataFrame({"day": [form(i) for i in range(280)]})
    fitted = daskglm.LogisticRegression().fit(frame, np.arange(280) // 28 % 2)
    assert len(fitted.feature_names_out_) == 28
    with pytest.raises(ValueError, match="column 'day' is text of"):
        daskglm.LogisticRegression().fit(frame.iloc[:252], np.arange(252) // 28 % 2)


def test_numbers_of_rows_are_names():
    ids = [f"{i:06}" for i in range(2 * N)]
    frame = pd.DataFrame({"id": ids, "area": [*"ab"] * N})
    with pytest.raises(ValueError, match="column 'id' has 120 levels in 120 rows, such as '000000"):
        daskglm.LogisticRegression().fit(frame, np.arange(2 * N) % 2)


def test_all_columns_are_told_at_once_by_what_they_are():
    with pytest.raises(ValueError) as error:
        fit(
            first=each(WRITTEN["percent"]),
            day=each(DATES["ISO"]),
            second=each(WRITTEN["currency"]),
            nothing=np.full(N, np.nan),
        )
    said = str(error.value).split(". Also, ")
    assert len(said) == 3
    assert said[0].startswith("column 'first' is text of numbers")
    assert said[0].endswith("; the same is true of 'second'")
    assert said[1].startswith("column 'day' is text of dates")
    assert said[2] == "column 'nothing' has no value at all: leave it out"


def test_columns_with_missing_numbers_are_told_at_once():
    holes = np.where(np.arange(N) == 7, np.nan, 1.0)
    with pytest.raises(ValueError, match="row 7, column 'a'; so are 'c'. Drop or impute") as error:
        fit(a=holes, b=np.ones(N), c=holes)
    assert "fit with schema={'missing': 'mean'}" in str(error.value)
