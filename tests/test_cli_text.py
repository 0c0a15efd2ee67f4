"""The line of a record that is shown for an answer."""

import pytest
from otolith import Analyzer
from otolith.cli._text import best_line, columns, counted

PAGE = "A day of work\nThe upload test was flaky\n\nthe clock was mocked twice, so retries failed\nend"


@pytest.mark.parametrize(
    ("terms", "line"),
    [
        ((), "A day of work …"),
        (("nothing",), "A day of work …"),
        (("FLAKY", "test"), "… The upload test was flaky …"),
        (("clock", "flaky", "retries"), "… the clock was mocked twice, so retries failed …"),
        (("end",), "… end"),
        (("was",), "… The upload test was flaky …"),
        (("fails",), "… the clock was mocked twice, so retries failed …"),
        (("failure",), "A day of work …"),
        (("retrying",), "… the clock was mocked twice, so retries failed …"),
        (("a",), "A day of work …"),
        (("k",), "A day of work …"),
    ],
)
def test_the_line_with_most_of_the_words_is_shown(terms: tuple[str, ...], line: str) -> None:
    assert best_line(PAGE, Analyzer().spans(PAGE, " ".join(terms))) == line


def test_words_without_spaces_between_them_are_found() -> None:
    page = "第一行\n部署失败是因为令牌过期"
    assert best_line(page, Analyzer().spans(page, "令牌")) == "… 部署失败是因为令牌过期"
    assert best_line("one line", [(0, 3)]) == "one line"
    assert best_line("", []) == ""
    assert best_line(" \n\tx", []) == "x"


@pytest.mark.parametrize("width", [20, 30, 60])
def test_a_long_line_is_cut_around_the_word(width: int) -> None:
    line = "word " * 50 + "needle " + "word " * 50
    shown = best_line(line, [(250, 256)], width)
    assert "needle" in shown or width == 20
    assert columns(shown) <= width
    assert shown.startswith("…")
    assert shown.endswith("…")


def test_counts_have_their_noun() -> None:
    assert [counted(n, "line") for n in (0, 1, 2)] == ["0 lines", "1 line", "2 lines"]
