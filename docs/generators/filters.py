"""Tables that can be filtered: rows are on the page, and ``filter.js`` hides those that are not wanted.

A row says under each key which values it has; a select of that name, or the words of the search,
choose among them. Without scripts the whole table stands there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

SCRIPT = '<script src="javascripts/filter.js" defer></script>'


@dataclass(frozen=True)
class Entry:
    """A row: its cells as HTML, its values by key, and its anchor."""

    cells: Sequence[str]
    values: Mapping[str, Iterable[str]]
    id: str = field(default="")

    def html(self, header: Sequence[str]) -> str:
        """The row; on a narrow screen, where rows stand as blocks, each cell says what it is."""
        first, *rest = self.cells
        keys = "".join(f' data-{key}="{escape("|".join(values))}"' for key, values in self.values.items())
        id = f' id="{self.id}"' if self.id else ""
        labelled = zip(header[1:], rest, strict=True)
        cells = "".join(f'<td data-label="{label}">{cell}</td>' for label, cell in labelled)
        return f'<tr{id}{keys}><th scope="row">{first}</th>{cells}</tr>'


def filtered(
    name: str, header: Sequence[str], entries: Sequence[Entry], choices: Mapping[str, tuple[str, Mapping[str, str]]]
) -> str:
    """A table with its filters.

    Args:
        name: its id; also what it shows, in words that a screen reader says.
        header: the headings of the columns.
        entries: the rows.
        choices: for each key its label, and the values with their texts.
    """
    selects = "".join(select(key, label, options, entries) for key, (label, options) in choices.items())
    head = "".join(f'<th scope="col">{cell}</th>' for cell in header)
    body = "\n".join(entry.html(header) for entry in entries)
    return (
        f'<form class="filters" data-filters="{name}" hidden><div class="fields">'
        '<label><span>Search</span><input type="search" name="words" autocomplete="off"></label>'
        f'{selects}</div><p><output aria-live="polite"></output> <button type="reset">Show all</button></p></form>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{name.replace("-", " ")}">'
        f'<table class="plain filtered {name}" id="{name}"><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def select(key: str, label: str, options: Mapping[str, str], entries: Sequence[Entry]) -> str:
    """One choice; each value says how many rows have it, and those that no row has are left out."""
    counts = {value: sum(value in tuple(e.values.get(key, ())) for e in entries) for value in options}
    listed = "".join(
        f'<option value="{escape(value)}">{escape(text)} ({counts[value]})</option>'
        for value, text in options.items()
        if counts[value]
    )
    every = f'<option value="">all ({len(entries)})</option>'
    return f'<label><span>{label}</span><select name="{key}">{every}{listed}</select></label>'
