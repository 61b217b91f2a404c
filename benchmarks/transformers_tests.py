"""The common model tests of transformers for BERT, where its sources are at hand.

Its wheel does not hold them. Name the folder of a checkout of the installed version in ``TRANSFORMERS_SOURCES``.
"""

import os
import sys
from pathlib import Path

import pytest

TESTS = Path("tests", "models", "bert", "test_modeling_bert.py")


def main() -> int:
    """Run the tests of BERT, and return the exit status of pytest."""
    sources = Path(os.environ.get("TRANSFORMERS_SOURCES", ""))
    if not (sources / TESTS).is_file():
        sys.exit(f"the wheel of transformers holds no {TESTS}: name a checkout in TRANSFORMERS_SOURCES")
    os.chdir(sources)
    sys.path.insert(0, str(sources))
    return int(pytest.main([str(TESTS), "-q", "-p", "no:cacheprovider", "-k", "BertModelTest"]))


if __name__ == "__main__":
    sys.exit(main())
