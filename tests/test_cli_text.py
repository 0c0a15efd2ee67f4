"""The line of a record that is shown for an answer."""

import pytest
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
        (("failure",), "… the clock was mocked twice, so retries failed …"),
        (("retrying",), "… the clock was mocked twice, so retries failed …"),
        (("a",), "A day of work …"),
        (("k",), "A day of work …"),
    ],
)
def test_the_line_with_most_of_the_words_is_shown(terms: tuple[str, ...], line: str) -> None:
    assert best_line(PAGE, terms) == line


def test_words_without_spaces_between_them_are_found() -> None:
    assert best_line("第一行\n部署失败是因为令牌过期", ("令牌",)) == "… 部署失败是因为令牌过期"
    assert best_line("one line", ("one",)) == "one line"
    assert best_line("", ("x",)) == ""


@pytest.mark.parametrize("width", [20, 30, 60])
def test_a_long_line_is_cut_around_the_word(width: int) -> None:
    shown = best_line("word " * 50 + "needle " + "word " * 50, ("needle",), width)
    assert "needle" in shown or width == 20
    assert columns(shown) <= width
    assert shown.startswith("…")
    assert shown.endswith("…")


def test_counts_have_their_noun() -> None:
    assert [counted(n, "line") for n in (0, 1, 2)] == ["0 lines", "1 line", "2 lines"]
