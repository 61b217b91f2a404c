"""The book: these pages, written by plain Python that emits Markdown and HTML fragments.

``everything`` lists the pages, ``kept`` keeps them from one build to the next, and ``docs/hooks.py``
hands them to MkDocs and knows nothing else. Nothing here repeats the specification: formulas, code,
tests and tables are taken from the registries.

Nothing is imported here: a build that finds all pages unchanged loads neither torch nor the specification.
"""
