"""The bibliography: every citation of the specification has an entry, and every entry is complete."""

import re

import pytest

from encoder_spec.equation import equations
from encoder_spec.errata import errata
from encoder_spec.profiles import PROFILES
from encoder_spec.sources import SOURCES, cited


def test_every_equation_cites_sources_that_exist() -> None:
    """``cited`` raises for a citation without entry; an equation without any citation would give none."""
    assert {id for id, e in equations().items() if not cited(e.source)} == set()


def test_every_citation_of_profiles_and_errata_exists() -> None:
    """The same for the other texts; each erratum cites one of S0 … S4."""
    for profile in PROFILES.values():
        cited(profile.source)
    for erratum in errata():
        assert {s.key[0] for s in cited(erratum.source)} == {"S"}
        cited(erratum.said + " " + erratum.right)


def test_all_five_sources_have_errata() -> None:
    """S0 to S4 each err somewhere."""
    assert {s.key for e in errata() for s in cited(e.source)} == {"S0", "S1", "S2", "S3", "S4"}


def test_a_citation_finds_its_entry_by_author_and_year() -> None:
    """With "et al.", with two names, and where the text says "et al." of a single author; each once, in order."""
    keys = [s.key for s in cited("Ba et al. 2016, §3; Zhang & Sennrich 2019, eq. (4); S3 §3; Rush et al. 2018; S3 §6")]
    assert keys == ["Ba et al. 2016", "Zhang & Sennrich 2019", "S3", "Rush 2018"]


def test_a_letter_distinguishes_papers_of_one_name_and_year() -> None:
    """DeepNet and E5 are both of a Wang and of 2022: without the letter the citation finds neither."""
    assert [s.title[:7] for s in cited("Wang et al. 2022a, §4.1; Wang et al. 2022b, §4")] == ["DeepNet", "Text Em"]
    with pytest.raises(LookupError, match="no source is entered"):
        cited("Wang et al. 2022, §4")


@pytest.mark.parametrize("text", ["S5 §1", "Ba et al. 2017", "Nobody & Noone 2019, §1"])
def test_an_unknown_citation_is_refused(text: str) -> None:
    """No entry S5, no paper of Ba in 2017, no Nobody."""
    with pytest.raises(LookupError, match="no source is entered"):
        cited(text)


def test_every_source_is_complete() -> None:
    """Papers have authors, year and address, the key's year is the year; S0 … S4 have a gloss in English."""
    for key, source in SOURCES.items():
        assert source.key == key
        assert source.title
        if re.fullmatch(r"S\d", key):
            assert source.gloss.isascii()
            assert source.gloss
        else:
            assert key.rstrip("ab").endswith(str(source.year))
            assert key.split()[0] in source.authors.split(",")[0]
            assert source.url.startswith("https://")
            assert 2013 <= source.year <= 2025
