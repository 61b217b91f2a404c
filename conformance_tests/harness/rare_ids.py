"""Ids that the tokens of a probe never are, and that encoders may treat in another way than all others.

Vocabularies begin or end with special tokens, and code compares its input with some ids. Those of padding may hide a
position, or move those behind it, and the probes leave them out. With any other id an encoder looks up its row, and no
more. One of these in the place of some tokens shows whether it does. An id that it compares its input with, and reads
as zeros, is that of padding: so a table reads the row that is kept for padding.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import torch
from torch import Tensor

from conformance_tests.errors import Blocked, Disagreement, Unsupported
from conformance_tests.harness.run import Run
from conformance_tests.numerics.compare import demand_equal
from conformance_tests.numerics.probes import Probe

USUAL_PADDING = 0
"""The id of padding where nobody says another one."""

FIRST = (1, 2, 3)
"""The ids of the special tokens with which vocabularies begin, behind that of padding."""


def rare_ids(run: Run) -> list[int]:
    """Return the ids that may be special, and that are not known to be those of padding; none if no ids are read."""
    if run.encoder.profile["input"].variant == "given" or run.encoder.profile["embedding"].variant != "lookup":
        return []
    V, subject, position = run.encoder.dimensions.V, run.subject, run.encoder.profile["position"]
    padding = {USUAL_PADDING, *subject.hidden_ids(), *(run.facts.unlearned.get(table, 0) for table in ("E", "P"))}
    if "offset" in position.constants:
        padding.add(int(run.encoder.profile.constants["offset"]) - 1)  # positions are counted from behind it
    if "mask_id" in run.encoder.profile["embedding_scale"].constants:
        padding.add(int(run.encoder.profile.constants["mask_id"]))  # the requirements of its equation are about it
    return [id for id in sorted({*FIRST, V - 1, *subject.special_ids} - padding) if 0 < id < V]


def hidden_ids(run: Run) -> list[int]:
    """Return the ids that hide the positions at which they stand, of those that are known to hide something."""
    known = sorted(run.subject.hidden_ids()) if rare_ids(run) else []
    return [id for id in known if not agrees_with(run, [id]) and agrees_with(run, [id], is_padding=True)]


def ids_apart(run: Run, ids: Sequence[int]) -> list[int]:
    """Return those of some ids with which a subject gives something else than the equations, where all others agree.

    One that hides the positions at which it stands is not among them, unless another id is known to: it is padding.
    """
    if not ids or not run.agrees(run.case()) or agrees_with(run, ids):
        return []
    hidden = run.subject.hidden_ids()

    def is_read(id: int) -> bool:
        return agrees_with(run, [id]) or (not hidden - {id} and agrees_with(run, [id], is_padding=True))

    return [id for id in ids if not is_read(id)]


def agrees_with(run: Run, ids: Sequence[int], *, is_padding: bool = False) -> bool:
    """Return whether a subject agrees with some ids among its tokens, or refuses them.

    Args:
        run: of the subject.
        ids: each stands once in every sequence, as far as there is room.
        is_padding: whether the equations hide the positions at which they stand.
    """
    case = run.case()
    probe, holds = with_ids(run.probes[case.probe], ids)
    try:
        want = run.evaluated(case, replace(probe, keep=~holds) if is_padding else probe)
        got = run.encode(case, probe)
        valid = ~holds if is_padding and want.ndim > holds.ndim else None
        demand_equal(got, want, "", valid=valid, budget=run.budget(case))
    except (Blocked, Unsupported):
        return True
    except Disagreement as difference:
        return difference.error is None
    return True


def with_ids(probe: Probe, ids: Sequence[int]) -> tuple[Probe, Tensor]:
    """Return a probe of tokens with some ids among them, at other places in each sequence, and where these stand."""
    tokens = probe.inputs[0].clone()
    length = tokens.shape[1]
    for sample, sequence in enumerate(tokens):
        for place, id in enumerate(ids[:length], start=sample + 1):
            sequence[place % length] = id
    return replace(probe, inputs=(tokens, *probe.inputs[1:])), tokens != probe.inputs[0]


def is_read_as_zeros(run: Run, id: int) -> bool:
    """Return whether a subject agrees with the equations if the row of an id is 0, as that of padding is."""
    case = run.case()
    probe, _ = with_ids(run.probes[case.probe], [id])
    parameters = dict(run.parameters(case.weights))
    parameters["E"] = parameters["E"].clone()
    parameters["E"][id] = 0
    with suppress(Blocked, Unsupported, Disagreement):
        got = run.encode(case, probe)
        with torch.no_grad():
            demand_equal(got, run.encoder(parameters, *probe.inputs, keep=probe.keep), "", budget=run.budget(case))
        return True
    return False


def told_apart(run: Run) -> tuple[str, str]:
    """Return what is not known of rare ids, in words, and what is worth knowing; no text where all are as others."""
    if len(hidden := hidden_ids(run)) > 1:
        return f"it hides each position with {named(hidden)}, and one id alone is that of padding", ""
    apart = ids_apart(run, rare_ids(run))
    zeros = [id for id in apart if id in run.subject.special_ids and is_read_as_zeros(run, id)]
    others = [id for id in apart if id not in zeros]
    of_zeros = f"reads {named(zeros)} as zeros, as an id of padding is" if zeros else ""
    if not others:
        return "", of_zeros
    among = f"with {named(others)} among its tokens"
    return f"{among} it computes something else than with others, and nothing shows a padding id", of_zeros


def named(ids: Sequence[int]) -> str:
    """Return some ids as words of a sentence."""
    return f"the id {ids[0]}" if len(ids) == 1 else f"one of the ids {', '.join(map(str, ids))}"
