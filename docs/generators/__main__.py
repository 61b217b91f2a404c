"""``python -m generators FILE`` writes every generated page to a file, as JSON; a gap is said in one line."""

import json
import sys
from pathlib import Path

from generators import everything
from generators.problems import FormulaError, GapError

try:
    made = everything.pages() | everything.scripts()
except (GapError, FormulaError, LookupError) as problem:
    sys.exit(str(problem))
Path(sys.argv[1]).write_text(json.dumps(made), encoding="utf-8")
