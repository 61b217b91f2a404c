"""Mutants of the specification that no test can notice, since they compute the same: which, and why.

The key is the function and what the statement becomes. An entry that is no mutant, or that a test
notices after all, fails the build.
"""

EQUAL_WIDTHS = "Q and K have one width d_k, without which their product does not exist."
SQUARE = "S is square, n × n: both of its last axes have n entries."
COUNTED = "With as many axes as its annotation says, the axis counted from the front is the one counted from the back."
EXCHANGED = "To exchange two axes is the same in either order."
SQUARED = "The square of a difference does not depend on its sign, in floating point neither."
UNORDERED = "Whether something is one of two numbers does not depend on which of them is looked at first."
TRUTH = "Where a truth value is asked for, a thing is as true as the truth value that is made of it."
UNREAD = "The slices end at the second entry behind u: a third zero there is not read."
PROMOTED = "Whole numbers below 2⁵³ divided or multiplied by a float64 array are those float64 numbers."
BETWEEN = "No even number lies between 3 and 4."
STACKS = "The first place is the stack's own, and no stack of the specification has parameters of its own."
NAMELESS = "No size bears this name, nor none."
BATCH = "All inputs have one axis of samples."
ONE_NUMBER = "A tensor with one number is compared and written as that number."
WRITTEN_OVER = "What is written too much is written over by what follows."
EVERY_SEQUENCE = "The zeros have the shape of a sequence, and all sequences of a batch have one shape."
NOTHING_ADDED = "A sum with −0 equals the sum with 0."
ZERO = "Whole numbers have one zero."
EITHER_WAY = "A distance is as long in either direction."
PROMOTES = "Of two types the larger one is the same whichever is named first."
FOURS = "No multiple of 4 lies between 7 and 8."
ALONE = "Images come alone: the first input is the last one."
ONE_COLUMN = "Where there is one column, it is the first and the last."
ONE_ROW = "A mask with one row for all queries has its first row last."
BROADCAST = "One mask for all sequences is spread over them where it is used."
ONES = "With one entry and three axes, an array is the same wherever its last axis was put in."
AT_ALL_TIMES = "What is added at all times alike is taken away again by the norm over time."
SAME_POSITIONS = "Queries and keys have one number of heads and positions, and samples."
ENDS = "No distance has a bucket beyond the end of either half of the table."
ON_THE_CPU = "Where the table lies on the CPU, so do the rows that are read."
INDICES = "An array on any device may be indexed by numbers on the CPU."

EQUIVALENT: dict[tuple[str, str], str] = {
    ("embedding.lookup", "if not ((tokens >= 0) & (tokens < len(E))).all():"): TRUTH,
    (
        "attention.across_heads",
        "normed: Tensor = norm(X.transpose(1, 2).flatten(2)).unflatten(2, (X.shape[1], -1)).transpose(2, 1)",
    ): EXCHANGED,
    (
        "attention.across_heads",
        "normed: Tensor = norm(X.transpose(2, 1).flatten(2)).unflatten(2, (X.shape[1], -1)).transpose(1, 2)",
    ): EXCHANGED,
    ("embedding.token_dropout", "valid = keep[:, -1].expand(ids.shape).sum(1)"): ONE_ROW,
    ("embedding.patches", "height, width = images.shape[2:]"): COUNTED,
    (
        "embedding.patches",
        "x_p: Tensor = images.unflatten(2, (-1, patch)).unflatten(-1, (-1, patch_width))",
    ): COUNTED,
    ("embedding.patches", "x_p = x_p.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)"): COUNTED,
    (
        "embedding.patches_without_bias",
        "b_patch = W_patch.new_zeros(W_patch.shape[1])",
    ): COUNTED,
    ("embedding.stage_norm_over_time", "z = _strided(u, W_stage, stride) - b_stage"): AT_ALL_TIMES,
    ("embedding.stage_norm_over_time", "z = _strided(u, W_stage, stride)"): AT_ALL_TIMES,
    ("embedding.stage_norm_over_time", "z = _strided(u, W_stage, stride) + gamma_stage"): AT_ALL_TIMES,
    ("embedding._strided", "windows = u.unfold(1, taps, stride).mT.flatten(2)"): COUNTED,
    ("embedding._convolve", "padded = torch.nn.functional.pad(u, (0, 0, 1, 2))"): UNREAD,
    ("position._angles", "pos = torch.arange(n, device=X.device)"): PROMOTED,
    (
        "position.sinusoidal_concatenated",
        "return torch.cat([angles.sin(), angles.cos()], dim=1).to(X.dtype)",
    ): COUNTED,
    ("position.sinusoidal_tensor2tensor", "demand(d % 2 == 0 and d >= 3, …)"): BETWEEN,
    ("position.sinusoidal_tensor2tensor", "pos = torch.arange(offset, offset + n, device=X.device)"): PROMOTED,
    (
        "position.sinusoidal_tensor2tensor",
        "return torch.cat([angles.sin(), angles.cos()], dim=1).to(X.dtype)",
    ): COUNTED,
    ("position._of_grid", "places = axes(grid_places(X, rows, columns))"): PROMOTED,
    ("position.sinusoidal_grid_inclusive", "demand(X.shape[-1] >= 7, …)"): FOURS,
    ("position._kept", "demand(keep.shape[-1] in (n, 1), …)"): UNORDERED,
    ("position._convolved", "rows = windows.transpose(2, 1).flatten(-2)"): EXCHANGED,
    ("position._convolved", "convolved: Tensor = (rows @ columns).transpose(2, 1).flatten(-2)"): EXCHANGED,
    ("position._convolved", "convolved: Tensor = (rows @ columns).transpose(1, 2).flatten(2)"): COUNTED,
    ("position.without_position", "return torch.zeros_like(X[-1])"): EVERY_SEQUENCE,
    ("position.without_position", "return -torch.zeros_like(X[0])"): NOTHING_ADDED,
    ("position.in_attention", "return torch.zeros_like(X[-1])"): EVERY_SEQUENCE,
    ("position.in_attention", "return -torch.zeros_like(X[0])"): NOTHING_ADDED,
    ("rotation.angles", "n, d_k = x.shape[2:]"): COUNTED,
    ("rotation.angles", "dtype = torch.promote_types(torch.float32, x.dtype)"): PROMOTES,
    ("rotation.angles", "m = torch.arange(n, device=x.device)"): PROMOTED,
    (
        "rotation._frequencies",
        "i = torch.arange(r // 2, dtype=torch.promote_types(torch.float32, q.dtype), device=q.device)",
    ): PROMOTES,
    (
        "rotation._frequencies",
        "frequencies: Tensor = (theta ** (-2 * i / r)).unflatten(-1, (-1, 2))",
    ): COUNTED,
    ("rotation.columns_first", "return places.flip(1)"): COUNTED,
    ("rotation.grid_places", "dtype = torch.promote_types(torch.float32, q.dtype)"): PROMOTES,
    ("rotation.halves", "half = phi.shape[1]"): COUNTED,
    ("rotation.pairs", "r = 2 * phi.shape[1]"): COUNTED,
    ("attention.alibi", "place = torch.arange(S.shape[-1], device=S.device)"): PROMOTED,
    ("attention.alibi", "place = torch.arange(S.shape[-2], dtype=S.dtype, device=S.device)"): SQUARE,
    ("attention.alibi", "distance = (place - place[:, None]).abs()"): EITHER_WAY,
    ("attention.bucketed", "bias = R[buckets(S.shape[-2], rows, farthest)]"): SQUARE,
    ("attention.by_distance", "return S + R[row_of_distance(S.shape[-2], len(R))].permute(2, 0, 1)"): SQUARE,
    ("attention.by_grid", "read = row_of_places(S.shape[-2], rows, columns)"): SQUARE,
    ("attention.by_grid", "needed = read.max() + 1"): ONE_NUMBER,
    (
        "attention.row_of_places",
        "found[:first, :], found[first:, :first], found[:first, :first] = (of_patches, of_patches + 1, of_patches + 2)",
    ): WRITTEN_OVER,
    (
        "attention.row_of_places",
        "found[:first, first:], found[:, :first], found[:first, :first] = (of_patches, of_patches + 1, of_patches + 2)",
    ): WRITTEN_OVER,
    ("attention.within", "place = torch.arange(S.shape[-2], device=S.device)"): SQUARE,
    ("attention.scores", "return Q @ K.mT / math.sqrt(K.shape[-1])"): EQUAL_WIDTHS,
    ("encoder.shared_bias", "return 0 if name.partition('.')[0] in ('D', 'R', 'norm_D') else l"): UNORDERED,
    ("encoder.shared_bias", "return 0 if name.partition('.')[0] in ('norm_D', 'D', 'R') else l"): UNORDERED,
    ("encoder.shared_bias", "return 0 if name.partition('.')[0] in ('R', 'norm_D', 'D') else l"): UNORDERED,
    ("attention.scores_relative_keys", "row = row_of_distance(Q.shape[-2], len(D))"): ON_THE_CPU,
    ("attention.scores_relative_keys", "row = row_of_distance(K.shape[-2], len(D)).to(D.device)"): SAME_POSITIONS,
    ("attention.scores_relative_keys", "row = row_of_distance(Q.shape[2], len(D)).to(D.device)"): COUNTED,
    (
        "attention.scores_relative_keys",
        "of_distance = (Q @ D.mT).gather(-1, row.expand(*K.shape[:2], -1, -1))",
    ): SAME_POSITIONS,
    ("attention.scores_relative_keys", "return (Q @ K.mT + of_distance) / math.sqrt(K.shape[-1])"): EQUAL_WIDTHS,
    ("attention.row_of_bucket", "return (rows // 2 + before.sign() * bucket).clamp(-1, rows - 1)"): ENDS,
    ("attention.scores_disentangled", "rows, (h, n, d_k) = (len(D), K.shape[-3:])"): SAME_POSITIONS,
    (
        "attention.scores_disentangled",
        "demand(rows % 4 == 0 and rows >= 7 and (farthest - 1 > rows // 4), …)",
    ): FOURS,
    (
        "attention.scores_disentangled",
        "Q_D, K_D = ((distances @ W + b).unflatten(-1, (h, d_k)).transpose(1, 0) for W, b in ((W_Q, b_Q), (W_K, b_K)))",
    ): EXCHANGED,
    (
        "attention.scores_disentangled",
        "Q_D, K_D = ((distances @ W + b).unflatten(1, (h, d_k)).transpose(0, 1) for W, b in ((W_Q, b_Q), (W_K, b_K)))",
    ): COUNTED,
    ("attention.scores_disentangled", "row = row_of_bucket(n, rows, farthest)"): ON_THE_CPU,
    (
        "attention.scores_disentangled",
        "of_queries = (Q @ K_D.mT).gather(-1, row.expand(len(K), h, n, n))",
    ): SAME_POSITIONS,
    (
        "attention.scores_disentangled",
        "of_keys = (K @ Q_D.mT).gather(-1, row.mT.expand(len(K), h, n, n)).mT",
    ): SAME_POSITIONS,
    ("attention._demand_mask", "demand(keep.shape[axis] in (n, 1), …)"): UNORDERED,
    ("attention.mask", "_demand_mask(keep, S.shape[-2])"): SQUARE,
    ("attention.mask_additive", "_demand_mask(keep, S.shape[-2])"): SQUARE,
    ("multihead.groups", "heads: Tensor = X.unflatten(-1, (g, -1)).transpose(-3, -2)"): EXCHANGED,
    ("multihead.groups", "heads: Tensor = X.unflatten(-1, (g, -1)).transpose(2, -3)"): COUNTED,
    ("multihead.split", "return heads.transpose(-3, -2)"): EXCHANGED,
    ("multihead.split", "return heads.transpose(2, -3)"): COUNTED,
    ("multihead.concat", "return heads.transpose(-3, -2).flatten(-2)"): EXCHANGED,
    ("multihead.concat", "return heads.transpose(2, -3).flatten(-2)"): COUNTED,
    ("multihead.concat", "return heads.transpose(-2, -3).flatten(2)"): COUNTED,
    ("norm.statistics", "return (mu, (mu - x).square().mean(dim=-1, keepdim=True))"): SQUARED,
    ("encoder.shared", "return -0"): ZERO,
    ("head.valid_positions", "return keep.transpose(-2, -1).expand(len(Z), Z.shape[1], 1)"): EXCHANGED,
    ("head.valid_positions", "return keep.transpose(-1, -2).expand(len(keep), Z.shape[1], 1)"): BROADCAST,
    ("head.last", "return Z[torch.arange(len(Z)), place[:, 0]]"): INDICES,
    ("head.last", "return Z[torch.arange(len(Z), device=Z.device), place[:, -1]]"): ONE_COLUMN,
    ("head.counted", "number = valid_positions(Z, keep).sum(dim=1)[:, -1]"): ONE_COLUMN,
    ("head.counted", "return Z[torch.arange(len(Z)), number.clamp(min=1) - 1]"): INDICES,
    ("head.unit_length", "norm = torch.linalg.vector_norm(u, dim=1, keepdim=True)"): COUNTED,
    (
        "assembly.Encoder.reads_grid",
        "return -any(('rows' in equation.constants for equation in self.equations()))",
    ): TRUTH,
    ("assembly.Encoder.seeing", "height, width = inputs[-1].shape[-2:]"): ALONE,
    ("assembly.Encoder.seeing", "height, width = inputs[0].shape[2:]"): COUNTED,
    (
        "assembly.Encoder.bind",
        "return bound(place, in_call(parameters, everything(None, ()).unsqueeze(1)), observe, evaluate)",
    ): ONES,
    (
        "assembly.Encoder.bind",
        "return bound(place, in_call(parameters, everything(None, ()).unsqueeze(-1)), observe, evaluate)",
    ): ONES,
    ("assembly.Encoder.symbolic_shapes", "for place in [*self.whole.walk()][1:]:"): STACKS,
    ("assembly.Encoder._run", "demand(inputs, …)"): TRUTH,
    ("assembly.Encoder._run", "letter = self.reads[-1] if self.reads else 'x'"): NAMELESS,
    ("assembly.Encoder._run", "demand(keep.ndim in (3, 2) and len(keep) in (1, len(inputs[0])), …)"): UNORDERED,
    ("assembly.Encoder._run", "demand(keep.ndim in (2, 3) and len(keep) in (len(inputs[0]), 1), …)"): UNORDERED,
    ("assembly.Encoder._run", "demand(keep.ndim in (2, 3) and len(keep) in (1, len(inputs[-1])), …)"): BATCH,
}
"""Why a mutant computes what the specification says."""


# In the rooms of the suite --------------------------------------------------------------

LOOKS = "It changes a colour, or a width that nobody counts on; what is said is the same."
WHOLE = "What is there is each of some things once, whatever order they are put in."
FOUND_BEFORE = "A single sample that is shorter would have been found before; looking again finds nothing."
ASKED_AGAIN = "What is found out twice is found out the same; it takes longer."
LARGEST = "The larger one of two numbers is the same whichever is named first."
ALIKE = "Both have as many entries."
ANY_OF_SEVERAL = "All equations of a deviation fill one slot."
TYPES_ALONE = "What stands in brackets is read by type checkers alone."
PLAIN_NAMES = "The names of parameters and their shapes hold no markup."

EQUIVALENT_IN_ROOMS: dict[tuple[str, str], str] = {
    (
        "numerics.probes.Probes.__init__",
        "taken = {getattr(encoder.dimensions, size) for size in ('d_v', 'h', 'd_k', 'N', 'd_model', 'd_ff')}",
    ): WHOLE,
    ("reports.terminal.details", "grid"): LOOKS,
    ("deviations.Deviation.within", "return profile.replace(**dict(self.replaces))"): TYPES_ALONE,
    ("deviations.Deviation.slot", "return equations()[self.of[-1]].slot"): ANY_OF_SEVERAL,
    ("subjects.torch_subject.TorchSubject.computing_in", "for t, data in zip(tensors, held, strict=False):"): ALIKE,
    (
        "subjects.numbered.layers_of",
        "depths[path[:end]] = max(len(path) - end, depths.get(path[:end], 0))",
    ): LARGEST,
    ("harness.run.Run.__post_init__", "self.misread = self._misread"): ASKED_AGAIN,
    ("diagnosis.shrinking.smallest_failing_input", "if wrong and wrong[0] > 0:"): FOUND_BEFORE,
    (
        "frontends.listing.traceability",
        "out.print(Text.assemble(('HOLE ', 'bold redx'), hole), soft_wrap=True)",
    ): LOOKS,
    ("frontends.listing.equations", "out.print(f\"    {name}: ({', '.join(shape)})\")"): PLAIN_NAMES,
}
"""Why a mutant of a room does what its users count on."""
