"""Make a release: gather the changelog, set the version, commit, and tag. Pushing the tag publishes it.

``make release VERSION=x.y.z`` runs this in the repository; with ``DRY_RUN=1`` it says what it would do and changes
nothing. It refuses a tree with uncommitted changes, a version that is not above the tagged ones, and a changelog with
nothing to say.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

MODULE = Path("encoder_spec/__init__.py")
CHANGELOG = Path("CHANGELOG.md")
VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def ran(*command: str) -> str:
    """Return what a command prints, and end with its message where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout


def numbers(version: str) -> tuple[int, ...]:
    """Return the three numbers of a version, by which versions are ordered."""
    return tuple(map(int, version.split(".")))


def problems(version: str) -> list[str]:
    """List what stands in the way of a release, one line each."""
    if not VERSION.fullmatch(version):
        return [f"{version!r} is not a version of the form x.y.z"]
    tagged = [tag.removeprefix("v") for tag in ran("git", "tag", "--list", "v*").split()]
    latest = max((t for t in tagged if VERSION.fullmatch(t)), key=numbers, default="0.0.0")
    found = []
    if numbers(version) <= numbers(latest):
        found.append(f"{version} is not above {latest}, which is tagged already")
    if changed := ran("git", "status", "--porcelain"):
        found.append(f"the tree has uncommitted changes:\n{changed.rstrip()}")
    if not any(path.name != "README.md" for path in Path("changelog.d").glob("*.md")):
        found.append("changelog.d has no fragment: the release would have nothing to say")
    return found


def release(version: str) -> None:
    """Write the changelog and the version, commit both, and tag the commit."""
    ran(sys.executable, "-m", "towncrier", "build", "--yes", "--version", version)
    # What was written by hand before the first release belongs to that release.
    text = CHANGELOG.read_text(encoding="utf-8")
    CHANGELOG.write_text(text.replace(f"\n## {version} (unreleased)\n", "\n"), encoding="utf-8")
    module = MODULE.read_text(encoding="utf-8")
    stated, count = re.subn(r'^__version__ = ".*"$', f'__version__ = "{version}"', module, flags=re.MULTILINE)
    if count != 1:
        sys.exit(f"{MODULE} states __version__ {count} times instead of once")
    MODULE.write_text(stated, encoding="utf-8")
    ran("git", "add", "--all", str(CHANGELOG), str(MODULE), "changelog.d")
    ran("git", "commit", "--quiet", "--message", f"Release {version}")
    ran("git", "tag", "--annotate", f"v{version}", "--message", f"encoder-spec {version}")


def main() -> None:
    """Release, or say why not."""
    parser = argparse.ArgumentParser(description="Release encoder-spec.")
    parser.add_argument("version", help="the new version, x.y.z")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    options = parser.parse_args()
    if found := problems(options.version):
        sys.exit("\n".join(f"no release: {problem}" for problem in found))
    if options.dry_run:
        print(ran(sys.executable, "-m", "towncrier", "build", "--draft", "--version", options.version).rstrip())
        print(f"\n{MODULE} would state {options.version}; the commit would be tagged v{options.version}.")
        return
    release(options.version)
    print(f"Released {options.version}. To publish it: git push --follow-tags")


if __name__ == "__main__":
    main()
