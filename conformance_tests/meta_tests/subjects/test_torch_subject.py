"""A torch module is borrowed, computed in other precisions, recorded and differentiated, and then as it was."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from conformance_tests.computation.shown import Ending
from conformance_tests.errors import Disagreement, SubjectError, Unsupported
from conformance_tests.numerics.probes import Probes
from conformance_tests.subjects.dispatched import Recorder, is_rounded, is_same_data
from conformance_tests.subjects.masks import MaskForm
from conformance_tests.subjects.subject import Precision
from conformance_tests.subjects.torch_subject import TorchSubject, stating
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.module import EncoderModule
from encoder_spec.profiles import TORCH_POST_LN


class Small(nn.Module):
    """x · a + x W + table, with a parameter of each kind, buffers, a plain table, and a plain list of maps."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.tensor(2.0))
        self.frozen = nn.Parameter(torch.tensor([3.0, 5.0]), requires_grad=False)
        self.inner = nn.Linear(2, 2, bias=False)
        self.tied = self.inner.weight
        self.register_buffer("table", torch.tensor([7.0, 11.0]))
        self.register_buffer("count", torch.tensor([13, 17]))
        self.plain = torch.tensor([19.0, 23.0])
        self.listed = [nn.Linear(2, 2, bias=False)]
        self.drop = nn.Dropout(0.5)
        with torch.no_grad():
            self.inner.weight.copy_(torch.eye(2))
            self.listed[0].weight.copy_(torch.eye(2) / 4)

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        return self.drop(x * self.a + self.inner(x) + self.listed[0](x) + self.table)


def state(module: Small) -> dict[str, Any]:
    """All that is to be as it was: numbers, dtypes, flags, gradients, modes, and the memory itself."""
    tensors = {"a": module.a, "frozen": module.frozen, "w": module.inner.weight, "table": module.table}
    tensors |= {"count": module.count, "plain": module.plain, "listed": module.listed[0].weight}
    known = {
        name: (t.dtype, t.tolist(), t.requires_grad, None if t.grad is None else t.grad.tolist(), t.data_ptr())
        for name, t in tensors.items()
    }
    modes = [m.training for m in (*module.modules(), *module.listed)]
    return known | {"modes": modes, "names": list(module.state_dict())}


X = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]], dtype=torch.float64)


def borrow(module: Small) -> None:
    """Do everything to a borrowed module that the suite does."""
    subject = TorchSubject(module)
    with subject.borrowed():
        subject.set_weights({name: w * 2 + 1 for name, w in subject.weights().items()})
        module.table.add_(1)
        module.count.add_(1)
        module.plain.add_(1)
        subject.gradients((X,), None, torch.ones(1, 2, 2), lambda _, __: None)
        with subject.computing_in(Precision(torch.float32)):
            subject.encode((X.float(),), None)
        module.train()


def fail(module: Small) -> None:
    """Change a borrowed module, and raise."""
    with TorchSubject(module).borrowed():
        module.train()
        module.a.data.add_(1)
        raise ValueError("no")


def test_a_borrowed_module_is_afterwards_what_it_was() -> None:
    """Numbers, in their own memory; dtypes, modes, gradients, and what asks for one."""
    module = Small()
    module.a.grad = torch.tensor(29.0)
    module.drop.eval()
    before = state(module)
    borrow(module)
    assert state(module) == before
    module.eval()
    borrow(module)
    assert [m.training for m in module.modules()] == [False] * 3
    with pytest.raises(ValueError, match="no"):
        fail(module)
    assert state(module) == before | {"modes": [False] * 3 + [True]}


def test_a_borrowed_module_computes_in_float64_and_evaluates() -> None:
    """All that is floating, in plain attributes and lists too; whole numbers stay; parameters ask for gradients."""
    module = Small()
    module.a.grad = torch.tensor(29.0)
    with TorchSubject(module).borrowed():
        for tensor in (module.a, module.frozen, module.inner.weight, module.table, module.plain, *module.parameters()):
            assert tensor.dtype is torch.float64
        assert module.count.dtype is torch.int64
        assert not any(m.training for m in module.modules())
        assert all(p.requires_grad for p in module.parameters())
        assert module.a.grad is None
        assert [name for name, _ in module.named_parameters()] == ["a", "frozen", "tied", "listed.0.weight"]
    assert [name for name, _ in module.named_parameters()] == ["a", "frozen", "tied"]


@pytest.mark.skipif(not hasattr(torch.compiler, "set_stance"), reason="this torch compiles whatever it is told to")
def test_what_is_compiled_runs_as_it_is_written() -> None:
    """The compiler would trace what records the computation, and compile it anew for each call."""
    compiled = []

    def compiler(graph: GraphModule, _: Sequence[Tensor]) -> Callable[..., Any]:
        compiled.append(graph)
        return graph.forward

    # What tests before this one left in the compiler is no matter of it.
    torch.compiler.reset()
    with torch.compiler.set_stance("default"):
        subject = TorchSubject(nn.Sequential(torch.compile(nn.Linear(3, 4), backend=compiler)))
        with subject.borrowed():
            subject.module(torch.ones(2, 3, dtype=torch.float64))
        assert not compiled
        subject.module(torch.ones(2, 3))
        assert compiled


def test_weights_are_copies_by_every_name() -> None:
    """A parameter with two names is one array under both; the names of frozen ones, and of plain lists, are known."""
    module = Small()
    subject = TorchSubject(module)
    weights = subject.weights()
    assert list(weights) == ["a", "frozen", "tied", "inner.weight"]
    assert weights["tied"] is weights["inner.weight"]
    assert {w.dtype for w in weights.values()} == {torch.float64}
    weights["a"].add_(1)
    assert module.a.item() == 2
    assert subject.fixed() == {"frozen"}
    assert subject.unregistered() == {"listed": "an nn.ModuleList"}
    assert subject.unmoved() == {"plain"}


def test_a_frozen_parameter_is_known_by_all_its_names() -> None:
    module = Small()
    module.inner.weight.requires_grad_(False)
    assert TorchSubject(module).fixed() == {"frozen", "tied", "inner.weight"}


def test_tables_are_the_floating_buffers_and_plain_tensors() -> None:
    """Copies; whole numbers are none."""
    module = Small()
    tables = TorchSubject(module).tables()
    assert {name: t.tolist() for name, t in tables.items()} == {"table": [7, 11], "plain": [19, 23]}
    tables["table"].add_(1)
    assert module.table.tolist() == [7, 11]


def test_weights_are_set_by_name() -> None:
    module = Small()
    subject = TorchSubject(module)
    with subject.borrowed():
        subject.set_weights({n: torch.full_like(w, 31) for n, w in subject.weights().items()})
        assert (module.a.item(), module.frozen.tolist()) == (31, [31, 31])
        assert module.inner.weight.tolist() == module.listed[0].weight.tolist() == [[31, 31], [31, 31]]


def test_what_is_held_in_float64_is_the_memory_of_the_parameters() -> None:
    """A parameter with two names is one array; what is written into it is what the module computes with."""
    module = Small()
    subject = TorchSubject(module)
    with subject.borrowed():
        held = subject.held()
        assert held["tied"] is held["inner.weight"]
        held["a"].fill_(5)
        assert module.a.item() == 5
        assert subject.given()["a"].item() == 2
    assert module.a.item() == 2


def test_in_another_precision_copies_are_held() -> None:
    module = Small()
    subject = TorchSubject(module)
    with subject.borrowed(), subject.computing_in(Precision(torch.float32)):
        held = subject.held()
        assert held["a"].dtype is torch.float64
        held["a"].fill_(5)
        assert module.a.item() == 2
        subject.set_weights(held)
        assert module.a.item() == 5


def test_other_weights_are_held_for_a_while_in_its_own_memory() -> None:
    """Also where the call ends in an error."""
    module = Small()
    subject = TorchSubject(module)
    with subject.borrowed():
        before = module.a.data_ptr()
        other = {name: w + 1 for name, w in subject.weights().items()}
        with suppress(ZeroDivisionError), subject.holding(other):
            assert module.a.item() == 3
            raise ZeroDivisionError
        assert module.a.item() == 2
        assert module.a.data_ptr() == before


OUTPUT = [[[3.25 + 7, 6.5 + 11], [9.75 + 7, 13 + 11]]]
"""x (2 + 1 + ¼) + (7, 11)."""


def test_the_module_is_called_with_or_without_gradients() -> None:
    """What records none has none, in torch's fast path as well."""
    subject = TorchSubject(Small())
    with subject.borrowed():
        for gradients in (True, False):
            output = subject.encode((X,), None, gradients)
            assert output.tolist() == OUTPUT
            assert output.requires_grad == gradients


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_in_another_precision_everything_is_cast_and_afterwards_is_not(dtype: torch.dtype) -> None:
    """Inputs in float64 are cast on their way; ids stay ids; what was there before comes back with its digits."""
    module = Small()
    subject = TorchSubject(module)
    with subject.borrowed():
        subject.set_weights({n: w / 3 for n, w in subject.weights().items()})
        module.a.grad = torch.ones_like(module.a)
        with subject.computing_in(Precision(dtype)):
            assert subject.dtype is dtype
            assert {t.dtype for t in (module.a, module.table, module.plain, *module.parameters())} == {dtype}
            assert module.count.dtype is torch.int64
            assert subject.encode((X,), None).dtype is dtype
            assert module.a.grad is None
        assert subject.dtype is torch.float64
        assert module.a.item() == 2 / 3
        with pytest.raises(ValueError, match="no"), subject.computing_in(Precision(dtype)):
            raise ValueError("no")
        assert subject.dtype is module.a.dtype is torch.float64
        with subject.computing_in(Precision()):
            assert subject.dtype is torch.float64


def test_gradients_are_those_of_the_weighted_sum() -> None:
    """Σ c · (x (a + W + ¼) + table): by x it is c (2 + 1 + ¼), by a it is Σ c x = 1 + 4 + 9 + 16 = 30 for c = x.

    By W it is Σ c xᵀ: x is ((1, 2), (3, 4)), so 1 + 9, 2 + 12, 4 + 16. The frozen one has no influence.
    """
    subject = TorchSubject(Small())
    with subject.borrowed():
        for _ in range(2):
            by_weight: dict[str, Tensor] = {}
            by_input = subject.gradients((X,), None, X, by_weight.__setitem__)
            assert by_input is not None
            assert by_input.tolist() == (X * 3.25).tolist()
            assert by_weight["a"].item() == 30
            assert by_weight["tied"].tolist() == by_weight["inner.weight"].tolist() == [[10, 14], [14, 20]]
            assert "frozen" not in by_weight
    assert X.grad is None


def test_an_output_that_was_detached_is_a_fault_of_the_encoder() -> None:
    class Detached(Small):
        def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
            return super().forward(x, keep).detach()

    subject = TorchSubject(Detached())
    said = "^the output carries no gradient: it was detached from the input and the parameters"
    with subject.borrowed(), pytest.raises(Disagreement, match=said):
        subject.gradients((X,), None, X, lambda _, __: None)


class Beside(nn.Module):
    """Returns hidden states that depend on one parameter, and something else that depends on another."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.beside, self.idle = (nn.Parameter(torch.tensor([2.0])) for _ in range(3))

    def forward(self, x: Tensor) -> Any:
        return x * self.used, (x * self.beside).mean(1), self.idle.detach()


def test_a_weight_matters_if_anything_that_is_returned_depends_on_it() -> None:
    subject = TorchSubject(Beside())
    with subject.borrowed():
        influences = {name: subject.influences_anything(name, (X,)) for name in ("used", "beside", "idle")}
    assert influences == {"used": True, "beside": True, "idle": False}


class Forgets(nn.Module):
    """Computes something with parameters, and lets go of it: of one vector of each sequence, or of all positions."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.pooled, self.forgotten = (nn.Parameter(torch.tensor([2.0])) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        _ = x[:, 0] * self.pooled, x * self.forgotten
        return x * self.used


def test_a_weight_matters_if_a_pooled_vector_is_computed_with_it() -> None:
    """A model may compute one that its head does not read. What is computed of all positions is forgotten."""
    subject = TorchSubject(Forgets())
    with subject.borrowed():
        influences = {name: subject.influences_anything(name, (X,)) for name in ("pooled", "forgotten")}
    assert influences == {"pooled": True, "forgotten": False}


class ByName(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor(2.0))

    def forward(self, *, states: Tensor, mask: Tensor | None = None) -> Tensor:
        return states * self.w


def test_an_input_that_goes_by_name_is_given_so() -> None:
    subject = TorchSubject(ByName())
    assert list(subject.arguments()) == ["states", "mask"]
    with subject.borrowed():
        assert torch.equal(subject.encode((X,), None), X * 2)


def test_masks_of_numbers_are_cast_and_no_mask_stays_none() -> None:
    """An additive mask in float64 would turn a float32 computation into one of float64."""
    seen: list[Any] = []

    class Masked(Small):
        def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
            seen.append(None if keep is None else keep.dtype)
            return super().forward(x)

    subject = TorchSubject(Masked())
    with subject.borrowed(), subject.computing_in(Precision(torch.float32)):
        for mask in (torch.zeros(1, 2, dtype=torch.float64), torch.zeros(1, 2, dtype=torch.bool), None):
            subject.call((X,), {"keep": mask}, False)
    assert seen == [torch.float32, torch.bool, None]


@pytest.mark.parametrize(("orders", "stated"), [([], None), ([True], True), ([False], False), ([True, False], False)])
def test_the_order_of_axes_is_stated_by_the_parts_that_know_one(orders: list[bool], stated: bool | None) -> None:
    """The batch comes first if all say so."""
    module = Small()
    for number, order in enumerate(orders):
        module.add_module(f"part{number}", nn.MultiheadAttention(2, 1, batch_first=order))
    assert TorchSubject(module).stated_order() is stated


def test_the_specifications_own_module_is_known() -> None:
    """It has an argument ``keep`` (B, n), true at what is kept."""
    encoder = Encoder(TORCH_POST_LN, Dimensions(d_model=6, h=3, d_ff=5, N=1))
    subject = TorchSubject(EncoderModule(encoder))
    with subject.borrowed():
        subject.learn(Probes(encoder, 0))
    assert (subject.mask_form, subject.takes_mask) == (MaskForm("keep", "keep", "B n"), True)


def test_the_mask_of_another_module_is_found_out() -> None:
    """A map of each position takes none."""
    subject = TorchSubject(nn.Linear(6, 6))
    with subject.borrowed():
        subject.learn(Probes(Encoder(TORCH_POST_LN, Dimensions(d_model=6, h=3, d_ff=5, N=1)), 0))
    assert (subject.mask_form, subject.takes_mask) == (None, False)


class HandsOn(nn.Module):
    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, *args: Any, **kwargs: Any) -> Any: ...


class Largest(nn.Module):
    """One part directly below."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        for number, part in enumerate(parts):
            self.add_module(f"part{number}", part)

    def forward(self, *args: Any, **kwargs: Any) -> Any: ...


def test_the_method_that_states_arguments_is_looked_for_where_one_hands_them_on() -> None:
    """Its own; that of the class if it was replaced; else that of the largest part; its own if there is none."""
    small, large = ByName(), nn.Linear(5, 7)
    assert stating(small) == small.forward
    assert stating(Largest(small, large)) == large.forward
    assert stating(Largest(large, small)) == large.forward
    assert stating(Largest(Largest(small))) == small.forward
    lonely = Largest()
    assert stating(lonely) == lonely.forward
    replaced = ByName()
    replaced.forward = lambda *args, **kwargs: None  # type: ignore[method-assign]
    assert stating(replaced).func is ByName.forward  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_program_whose_weights_are_constants_is_refused() -> None:
    """Another one is not."""
    program = torch.jit.script(nn.Linear(3, 4).eval())
    assert TorchSubject(program).module is program
    with pytest.raises(SubjectError, match="constants of a program"):
        TorchSubject(torch.jit.freeze(program))


def recorded(compute: Any) -> Recorder:
    """What an operation records."""
    with Recorder() as recorder:
        compute()
    return recorder


def values(compute: Any) -> list[Any]:
    """The numbers of what an operation records."""
    return [t.tolist() for t in recorded(compute).results]


PAIR = torch.tensor([2.0, 3.0], dtype=torch.float64)
SQUARE = torch.tensor([[2.0, 3.0], [5.0, 7.0]], dtype=torch.float64)


def test_every_result_of_an_operation_is_recorded_in_order() -> None:
    """(2, 3) · 5, then + 7; each of several results; whole numbers and single ones are not."""
    assert values(lambda: PAIR * 5 + 7) == [[10, 15], [17, 22]]
    assert values(lambda: torch.var_mean(SQUARE, dim=0)) == [[4.5, 8], [3.5, 5]]
    assert values(lambda: PAIR.sum()) == []
    assert values(lambda: PAIR.long() * 2) == []


def test_a_view_of_all_of_an_array_is_not_recorded_again_and_a_part_of_it_is() -> None:
    """Reshaped or turned it holds the same numbers; a row is another array."""
    assert values(lambda: SQUARE.reshape(4)) == []
    assert values(lambda: SQUARE.T) == []
    assert values(lambda: SQUARE[1]) == [[5, 7]]


def test_what_is_written_into_a_part_is_recorded_with_the_whole() -> None:
    """The row becomes (0, 0), and so does the matrix's."""
    whole = SQUARE.clone()
    row = whole[1]
    assert values(lambda: row.zero_()) == [[0, 0], [[2, 3], [0, 0]]]


def test_what_is_recorded_is_a_copy() -> None:
    kept = recorded(lambda: (PAIR * 1).add_(1)).results
    assert [t.tolist() for t in kept] == [[2, 3], [3, 4]]
    assert not any(t.requires_grad for t in recorded(lambda: nn.Parameter(PAIR) * 2).results)


@pytest.mark.parametrize(
    ("compute", "narrowed"),
    [
        (lambda: PAIR.float() / 4, torch.float32),
        (lambda: PAIR / 4, None),
        (lambda: PAIR.float() * 4, None),
        (lambda: (PAIR / 4).float().double(), torch.float32),
        (lambda: torch.tensor([0.25, 0.5], dtype=torch.float16) / 2, None),
        (lambda: PAIR.float().sum() / 4, torch.float32),
    ],
)
def test_float32_is_noticed_where_it_holds_numbers_that_are_not_whole(compute: Any, narrowed: Any) -> None:
    """Masks, positions and lengths are exact in any precision."""
    assert recorded(compute).narrowed is narrowed


class Narrow(Small):
    """A part computes in float32; the output is float64 again, or not."""

    back = True

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        narrow = (x / 3).float()
        return super().forward(x) + narrow if self.back else narrow


def test_a_part_in_float32_is_seen_among_the_operations() -> None:
    """Beside an output of its own precision; an output in float32 says so itself."""
    subject = TorchSubject(Narrow())
    with subject.borrowed():
        assert subject.narrowest_part((X,), None) is torch.float32
        subject.module.back = False  # type: ignore[assignment]
        assert subject.narrowest_part((X,), None) is None


def test_a_record_begins_with_the_floating_inputs_and_ends_with_the_output() -> None:
    subject = TorchSubject(Small())
    with subject.borrowed():
        arrays = subject.record((X,), None)
    assert arrays[0] is X
    assert arrays[-1].tolist() == OUTPUT
    assert (X * 2).tolist() in [a.tolist() for a in arrays[1:]]


def test_attention_is_recorded_unfused() -> None:
    """Scores (1, 1, 3, 3) are formed, and so are their exponentials: in one fused operation they would not be."""

    class Attending(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.tensor(2.0))

        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None] * self.w)[:, 0]

    subject = TorchSubject(Attending())
    x = torch.randn(1, 3, 5, generator=torch.Generator().manual_seed(0)).double()
    with subject.borrowed():
        shapes = [tuple(a.shape)[-2:] for a in subject.record((x,), None)]
    assert shapes.count((3, 3)) >= 2


@pytest.mark.parametrize(
    ("numbers", "rounded"),
    [
        ([1, 2], False),
        ([1, 2.5], True),
        ([float("inf"), float("nan"), 3], False),
        ([float("-inf"), 0.5], True),
        ([], False),
    ],
)
def test_numbers_are_rounded_if_a_finite_one_is_not_whole(numbers: list[float], rounded: bool) -> None:
    assert is_rounded(torch.tensor(numbers)) == rounded


def test_the_same_data_are_all_of_an_argument_that_was_never_written_into() -> None:
    x = torch.ones(2, 3)
    assert is_same_data(x.reshape(6), x)
    assert is_same_data(x, x)
    assert not is_same_data(x[0], x)
    assert not is_same_data(x.clone(), x)
    assert not is_same_data(x, 5)
    assert not is_same_data(x, None)
    x.add_(1)
    assert not is_same_data(x.reshape(6), x)


class Classes(nn.Module):
    """Three classes of the mean over the positions, which come first inside; the same dropout stands everywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12), 2, enable_nested_tensor=False)
        self.dropout = nn.Dropout()
        self.classes = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.dropout(self.stack(self.dropout(x).transpose(0, 1)))
        return hidden.norm(), self.classes(self.dropout(hidden.mean(0)))


def whole_around(model: nn.Module, place: int) -> TorchSubject:
    """Return the whole model, judged by one of its results, around the part ``stack``, which gives (n, B, d_model)."""
    subject = TorchSubject(model)
    subject.width, subject.returns_turned = 8, True
    subject.end_at(Ending("stack", frozenset()))
    whole = subject.with_heads((torch.randn(2, 5, 8, dtype=torch.float64),))[place]
    assert isinstance(whole, TorchSubject)
    return whole


def test_a_model_tells_what_it_makes_of_other_hidden_states() -> None:
    """The head reads the others, in its own order of axes, and gradients flow back to them."""
    model = Classes().double().eval()
    x, Z = torch.randn(2, 3, 5, 8, dtype=torch.float64)
    Z.requires_grad_()
    made = whole_around(model, 1).made_of(Z, (x,))
    torch.testing.assert_close(made, model.classes(Z.mean(1)))
    (gradient,) = torch.autograd.grad(made.sum(), Z)
    torch.testing.assert_close(gradient, (model.classes.weight.sum(0) / 5).expand_as(Z))
    torch.testing.assert_close(whole_around(model, 0).made_of(Z, (x,)), Z.norm())
    assert not any(part._forward_hooks for part in model.modules())


def test_other_hidden_states_of_another_size_are_refused() -> None:
    whole = whole_around(Classes().double().eval(), 1)
    with pytest.raises(Unsupported, match="cannot be replaced"):
        whole.made_of(torch.randn(3, 4, 8, dtype=torch.float64), (torch.randn(3, 5, 8, dtype=torch.float64),))


def test_what_a_model_does_with_other_hidden_states_is_no_fault_of_the_suite() -> None:
    """An error in what stands behind them says that they cannot be replaced."""

    class Refuses(Classes):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            hidden = self.stack(x.transpose(0, 1))
            if bool((hidden == 1).all()):
                raise ValueError("not today")
            return hidden.norm(), hidden.mean(0)

    whole = whole_around(Refuses().double().eval(), 1)
    with pytest.raises(Unsupported, match="cannot be replaced: ValueError: not today"):
        whole.made_of(torch.ones(3, 5, 8, dtype=torch.float64), (torch.randn(3, 5, 8, dtype=torch.float64),))
