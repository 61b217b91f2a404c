"""torch modules as subjects: called both ways, in float64, with weights that are put back."""

import copy
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter, is_lazy
from torch.overrides import TorchFunctionMode

from conformance_tests.computation.graph import Graph
from conformance_tests.errors import Disagreement, SubjectError, Unsupported, message, one_line
from conformance_tests.numerics.noise import WithNoise
from conformance_tests.numerics.probes import Probes, Sizes
from conformance_tests.numerics.sketches import as_they_arise
from conformance_tests.subjects.annotated import given_anyway, made_by_annotation
from conformance_tests.subjects.calling import (
    EXHAUSTED,
    REQUIRED,
    Arguments,
    arguments_of,
    hands_on,
    hidden_states,
    input_by_name,
    tensors_in,
)
from conformance_tests.subjects.dispatched import Recorder, unfused
from conformance_tests.subjects.entered import EnteredSubject
from conformance_tests.subjects.first_call import (
    LIKELY,
    FirstCall,
    SearchedTooLong,
    TryCall,
    fillings,
    first_call,
    value_of,
)
from conformance_tests.subjects.handed_on import documentation, handed_on, taking_names
from conformance_tests.subjects.holding import whole_numbers
from conformance_tests.subjects.masks import DOCUMENTED, LENGTHS, MaskForm
from conformance_tests.subjects.noisy_call import NO_CALL, noisy_call
from conformance_tests.subjects.one_by_one import over_tensors
from conformance_tests.subjects.subject import Boundary, Precision, without_numbers
from conformance_tests.subjects.torch_hints import documented_masks, hints_of
from conformance_tests.subjects.torch_recording import TorchRecording
from conformance_tests.subjects.unregistered import (
    attributes_kept,
    named_parameters,
    parameters_in,
    plain_tensors,
    registered,
)
from conformance_tests.subjects.unwrapped import unwrapped
from conformance_tests.subjects.widened import widened
from encoder_spec.module import EncoderModule

MOST_FURTHER = 2
"""So many inputs beside the first one are tried for a method that takes any number: a mask, and segments."""


WANTS_GRADIENTS = re.compile(r"requires? (a )?grad", re.IGNORECASE)
"""An error of autograd that an encoder meets while no gradients are recorded: it hooks them, or asks for some."""

REFUSES_GRADIENTS = re.compile(r"modified in-?place|in-?place operation|gradient|_grad\b|backward", re.IGNORECASE)
"""An error where gradients are recorded: an encoder writes into what they need, or asks for a call without them."""

MIXED_FLOATS = re.compile(r"double.*float|float.*double", re.IGNORECASE)
MIXED_TYPES = re.compile(rf"{MIXED_FLOATS.pattern}|same dtype|mixed dtype", re.IGNORECASE)
"""Messages of torch where float32 and float64 meet in one operation: for sure, or perhaps."""


ANY_WIDTH = 24
"""The width of the input where nothing tells one: many numbers of heads divide it."""

MOST_MIXED = 20
"""After so many such messages an encoder is searched for a call in another way: one with them may be refused once."""


class TorchSubject(EnteredSubject):
    """A torch module. Inside ``borrowed`` it runs in float64; afterwards nothing of it has changed.

    Args:
        module: the module.
        function: what calls it, and says what a call takes, if that is not its forward method.

    Raises:
        SubjectError: if it is a compiled program whose weights are constants.
    """

    def __init__(self, module: nn.Module, function: Callable[..., Any] | None = None) -> None:
        super().__init__()
        if function is None:
            module = unwrapped(module)
            by_name = taking_names(module.forward)
            function = None if by_name == module.forward else by_name
        if isinstance(module, torch.jit.ScriptModule) and not any(True for _ in module.parameters()):
            raise SubjectError(
                "its weights are constants of a program (as of torch.jit.freeze), which the suite cannot change: judge "
                "the module that the program was made of"
            )
        if any(map(is_lazy, parameters_in(module))):
            call_once(module, function)
        self.module = module
        self._function = function
        self.device = "cpu"
        self._kept_in = coarsest([t.dtype for t in parameters_in(module)])
        self._refuses_float64 = self.mixes_types = False
        self._held_to: torch.dtype | None = None
        self._refused_gradients = ""
        self._is_served = False
        self._further = 0
        self._originals: dict[int, Tensor] = {}
        states = stating(module, function)
        self._made = made_by_annotation(states)
        self._given_anyway = given_anyway(self._made, arguments_of(states))
        with registered(module) as self._unregistered:
            self.hints = hints_of(module)
            named = named_parameters(module, by_every_name=True)
            self._frozen = {name for name, p in named if not p.requires_grad}

    def materialise(self) -> None:
        """See ``Subject``: those on the device meta."""
        if not any(p.is_meta for p in parameters_in(self.module)):
            return
        call_once(self.module, self._function)
        if any(p.is_meta for p in parameters_in(self.module)):
            raise SubjectError(
                "its parameters have shapes but no numbers (the device is meta): load its weights first, or judge its "
                "shapes alone with --level static"
            )

    def shapes(self) -> dict[str, Tensor]:
        """See ``Subject``: of the parameters as they are kept, of which none is copied.

        Raises:
            SubjectError: if some have no shape.
        """
        with registered(self.module):
            parameters = dict(self._ordinary())
        if shapeless := [name for name, p in parameters.items() if is_lazy(p)]:
            raise SubjectError(f"{shapeless[0]} has no shape before a first call, and no call was found: call it once")
        return without_numbers(parameters)

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """Run the module in float64 and evaluation mode, then restore every tensor and flag."""
        with registered(self.module), attributes_kept(self.module), self._in_float64(), uncompiled():
            yield

    @contextmanager
    def _in_float64(self) -> Iterator[None]:
        tensors = self._tensors()
        originals = [(t.data, t.grad) for t in tensors]
        self._originals = {id(t): t.data for t in tensors}
        frozen = [p for p in parameters_in(self.module) if not p.requires_grad]
        modes = {m: m.training for m in self.module.modules()}
        try:
            for t in tensors:
                t.grad = None
                t.data = t.data.to(torch.float64, copy=True) if t.is_floating_point() else t.data.clone()
            for p in frozen:
                p.requires_grad_(p.is_floating_point())
            in_evaluation(self.module)
            yield
        finally:
            self._originals = {}
            for t, (data, grad) in zip(tensors, originals, strict=True):
                t.grad = None
                t.data = data
                t.grad = grad
            for p in frozen:
                p.requires_grad_(False)
            for m, training in modes.items():
                m.training = training

    @contextmanager
    def computing_in(self, precision: Precision) -> Iterator[None]:
        """See ``Subject``: every floating tensor is cast, and every tensor moved."""
        before, tensors = (self.dtype, self.device), self._tensors()
        held = [t.data for t in tensors]
        self.dtype, self.device = precision.dtype or self.dtype, precision.device
        try:
            for t in tensors:
                t.grad = None
                t.data = self._placed(t.data)
            yield
        finally:
            self.dtype, self.device = before
            for t, data in zip(tensors, held, strict=True):
                t.data = data

    def hold_to(self, dtype: torch.dtype | None) -> None:
        """See ``Subject``."""
        self._held_to = None if dtype is torch.float64 else dtype

    def kept_in(self) -> torch.dtype:
        """See ``Subject``: the coarsest precision of its parameters."""
        return self._kept_in

    @contextmanager
    def as_used(self) -> Iterator[None]:
        """See ``Subject``: in inference mode, and in a thread like those of a server."""
        with self.computing_in(Precision(self._kept_in, self.device)):
            self._is_served = True
            try:
                yield
            finally:
                self._is_served = False

    def _tensors(self) -> list[Tensor]:
        held = chain(parameters_in(self.module), self._buffers().values(), plain_tensors(self.module).values())
        return list({id(t): t for t in held}.values())

    def _buffers(self) -> dict[str, Tensor]:
        """Return the buffers that hold numbers, and can be cast: sparse ones cannot."""
        named = self.module.named_buffers()
        return {name: b for name, b in named if not is_lazy(b) and b.layout is torch.strided}

    def _placed(self, x: Tensor) -> Tensor:
        return x.to(self.device, self.dtype if x.is_floating_point() else x.dtype)

    def narrowest_part(self, inputs: tuple[Tensor, ...], keep: Tensor | None) -> torch.dtype | None:
        """See ``Subject``: float32, if some operation returns numbers that float32 has rounded."""
        output, recorder = self._watched(inputs, keep)
        return recorder.narrowed if output.dtype is self.dtype else None

    def fixed(self) -> set[str]:
        """See ``Subject``: what asks for no gradient."""
        return self._frozen

    def weights(self) -> dict[str, Tensor]:
        """Copy the parameters; a parameter with two names is one object under both."""
        copies: dict[int, Tensor] = {}
        named = self._ordinary()
        return {name: copies.setdefault(id(p), p.detach().to("cpu", torch.float64, copy=True)) for name, p in named}

    def noisy(self, frozen: Collection[str]) -> Mapping[str, Tensor]:
        """See ``Subject``: each is made when it is asked for."""
        return WithNoise(self.held(), frozen, self.given())

    @contextmanager
    def holding(self, values: Mapping[str, Tensor]) -> Iterator[None]:
        """See ``Subject``: its own memory holds them, so that they take no other."""
        self._write(values)
        try:
            yield
        finally:
            self._write(self.given())

    def _write(self, values: Mapping[str, Tensor]) -> None:
        """Write numbers into the memory of its parameters."""
        with torch.no_grad():
            for name, p in {id(p): (name, p) for name, p in self._ordinary()}.values():
                p.copy_(values[name])

    def given(self) -> Mapping[str, Tensor]:
        """See ``Subject``: as they are kept."""
        return {name: self._originals.get(id(p), p.detach()).detach().to("cpu") for name, p in self._ordinary()}

    def held(self) -> dict[str, Tensor]:
        """See ``Subject``: in float64, the memory of the parameters."""
        if self.dtype is not torch.float64 or self.device != "cpu":
            return self.weights()
        aliases: dict[int, Tensor] = {}
        return {name: aliases.setdefault(id(p), p.detach()) for name, p in self._ordinary()}

    def _ordinary(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield the parameters that are arrays of real numbers; others are left as they are, whole numbers too."""
        behind = self.ending.behind if self.ending else ()
        named = named_parameters(self.module, by_every_name=True)
        return ((name, p) for name, p in named if is_ordinary(p) and p.is_floating_point() and name not in behind)

    def unknown(self) -> str:
        """See ``CalledSubject``: parameters that are sparse or complex, too."""
        others = [name for name, p in named_parameters(self.module) if not is_ordinary(p)]
        reasons = [super().unknown()]
        if others:
            reasons.append(f"sparse or complex parameters are left as they are, and not judged: {', '.join(others)}")
        return "; ".join(filter(None, reasons))

    def tables(self) -> dict[str, Tensor]:
        """See ``Subject``: its buffers, and the tensors that should be some."""
        held = self._buffers() | plain_tensors(self.module)
        return {name: b.detach().to("cpu", copy=True) for name, b in held.items() if b.is_floating_point()}

    def unregistered(self) -> dict[str, str]:
        """See ``Subject``: modules and parameters in plain collections."""
        return self._unregistered

    def unmoved(self) -> set[str]:
        """See ``Subject``: plain attributes."""
        return set(plain_tensors(self.module))

    def set_weights(self, values: Mapping[str, Tensor]) -> None:
        """See ``Subject``."""
        with torch.no_grad():
            for name, p in self._ordinary():
                if values[name].data_ptr() != p.data_ptr():
                    p.copy_(values[name])

    def stated_arguments(self) -> Arguments:
        """See ``EnteredSubject``: those of the forward method that states them.

        Further inputs of one that takes any number are named by their place: ``*1``, ``*2``.
        """
        every = arguments_of(stating(self.module, self._function))
        stated: Arguments = {name: default for name, default in every.items() if name not in self._given_anyway}
        further: dict[str, Any] = {f"*{place}": REQUIRED for place in range(1, self._further + 1)}
        first = next(iter(stated), "")
        return {first: stated[first]} | further | dict(stated) if further else stated

    def takes_input_by_name(self) -> bool:
        """See ``CalledSubject``: also where it stands behind another argument, or in a structure."""
        return self.is_entered_by_name() or input_by_name(self._function or self.module.forward)

    def call(self, positional: Sequence[Tensor], named: Mapping[str, Any], gradients: bool) -> Any:
        """See ``CalledSubject``. Without gradients torch's encoder takes its fast path; some run in one way alone."""
        if self.records_gradients is not None:
            return self._called(positional, named, gradients=self.records_gradients)
        try:
            return self._called(positional, named, gradients=gradients)
        except Exception as refusal:
            if not (REFUSES_GRADIENTS if gradients else WANTS_GRADIENTS).search(message(refusal)):
                raise
            otherwise = self._called(positional, named, gradients=not gradients)
            self.records_gradients, self._refused_gradients = not gradients, message(refusal).partition(". ")[0]
            return otherwise

    def _called(self, positional: Sequence[Tensor], named: Mapping[str, Any], *, gradients: bool) -> Any:
        """Call the module."""
        with torch.set_grad_enabled(gradients), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            placed = {name: self._placed(x) if isinstance(x, Tensor) else x for name, x in named.items()}
            placed = {name: self._made[name](x) if name in self._made else x for name, x in placed.items()}
            placed |= {name: made(None) for name, made in self._given_anyway.items()}
            beside = [placed.pop(name) for name in sorted(placed) if name.startswith("*")]
            given = [list(map(self._placed, x)) if isinstance(x, list) else self._placed(x) for x in positional]
            arranged, further = self.arranged(given, placed)
            return self._up_to_its_end(*arranged, *beside, **further)

    def _up_to_its_end(self, *arguments: Any, **named: Any) -> Any:
        """Call the module, and return what the part returns that it is judged up to."""
        function: Callable[..., Any] = self._function or self.module
        while (name := next_by_place(self.module, len(arguments))) in named:
            arguments = (*arguments, named.pop(name))
        if self._is_served:
            function = served(function, gradients=bool(self.records_gradients))
        if self.ending is None:
            return function(*arguments, **named)
        returned: list[Any] = []
        part = dict(self.module.named_modules())[self.ending.part]  # torch looks among attributes, which may hide it
        hook = part.register_forward_hook(lambda _, __, given: returned.append(given))
        try:
            function(*arguments, **named)
        finally:
            hook.remove()
        return returned[-1]

    def made_of(self, hidden: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
        """See ``Subject``: the first part that gives the hidden states gives others in their place."""
        replaced: dict[str, Tensor] = {}

        def is_own(t: Tensor) -> bool:
            return bool(replaced) and t.shape == replaced["own"].shape and torch.equal(t, replaced["own"])

        def in_their_place(_: nn.Module, __: Any, given: Any) -> Any:
            has_own = any(map(is_own, tensors_in(given)))  # what follows gets the others, and gives them on
            return over_tensors(lambda t: replaced["others"] if is_own(t) else t, given) if has_own else None

        # Torch takes another path where there are hooks, which rounds otherwise: so they are there from the beginning.
        hooks = [part.register_forward_hook(in_their_place) for part in self.module.modules()]
        try:
            own = self._given_below(inputs)
            places = self.in_our_order(torch.arange(own.numel()).view(own.shape))
            if places.shape == hidden.shape:
                others = hidden.flatten()[places.flatten().argsort()].view(own.shape).to(own)
                replaced |= {"own": own, "others": others}
                return self.encode(inputs, None, gradients=hidden.requires_grad)
        except EXHAUSTED:
            raise
        except Exception as fault:
            raise Unsupported(f"the subject's hidden states cannot be replaced: {one_line(fault)}") from fault
        finally:
            for hook in hooks:
                hook.remove()
        return super().made_of(hidden, inputs)

    def _given_below(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """Return the hidden states on which a whole model stands, in its own order of axes."""
        below = copy.copy(self)
        below.ending, below.place_of_head = self.stands_on, None
        return hidden_states(below.returned(inputs, None, gradients=False), self.width, self.result)

    def remarks(self) -> tuple[str, ...]:
        """See ``CalledSubject``: and in which way alone it runs."""
        said = super().remarks()
        given = ", ".join(f"{name}={made}" for name, made in self._given_anyway.items())
        said = (*said, f"given in every call: {given}") if given else said
        if self.records_gradients is None:
            return said
        how = "with gradients alone: without them" if self.records_gradients else "without gradients alone: with them"
        return (*said, f"called {how} it refuses to run ({self._refused_gradients})")

    def learn(self, probes: Probes, undisturbed: Boundary = nullcontext) -> None:
        """See ``CalledSubject``; the specification's own module is known."""
        super().learn(probes, undisturbed)
        if isinstance(self.module, EncoderModule):
            self.mask_form, self.takes_mask = MaskForm("keep", "keep", "B n"), True

    def stated_order(self) -> bool | None:
        """See ``CalledSubject``: what the parts that know an order say."""
        stated = [m.batch_first for m in self.module.modules() if isinstance(getattr(m, "batch_first", None), bool)]
        return all(stated) if stated else None

    def documentation(self) -> str:
        """See ``CalledSubject``."""
        return documentation(self._function or self.module.forward)

    def documented_masks(self) -> Mapping[str, tuple[str, ...]]:
        """See ``CalledSubject``: transformers' documentation too."""
        return {**DOCUMENTED, **documented_masks(self.module)}

    def record_call(self, inputs: tuple[Tensor, ...], keep: Tensor | None) -> list[Tensor]:
        """See ``CalledSubject``: its floating inputs, and the result of every operation, with attention unfused."""
        _, recorder = self._watched(inputs, keep)
        return [x for x in inputs if x.is_floating_point()] + recorder.results

    def _watched(self, inputs: tuple[Tensor, ...], keep: Tensor | None) -> tuple[Tensor, "Recorder"]:
        """Call the module once; return its output and what was recorded of the operations."""
        dense = (p for p in parameters_in(self.module) if p.layout is torch.strided)
        recorder = Recorder(p.untyped_storage().data_ptr() for p in dense)
        with unfused(), without_fast_path(), recorder:
            output = self.encode(inputs, keep)
        return output, recorder

    def computation(self, sizes: Sizes | None = None) -> Graph:
        """See ``Subject``: of the first call that goes through, with noise on what is learned."""
        mixes_types, mixed_floats = False, 0

        def call(x: Tensor, named: Mapping[str, Any]) -> Any:
            nonlocal mixes_types, mixed_floats
            try:
                with attributes_kept(self.module):
                    return self.call_with_batch([x], named, gradients=True)
            except Exception as refusal:
                mixes_types = mixes_types or bool(MIXED_TYPES.search(message(refusal)))
                if MIXED_FLOATS.search(message(refusal)):
                    mixed_floats += 1
                    if mixed_floats == MOST_MIXED:
                        raise SearchedTooLong from None
                raise

        def recorded() -> Graph:
            with without_fast_path(), noisy_call(self, call, sizes) as (called, noisy, frozen):
                learned = dict(named_parameters(self.module))
                whole = {name: p for name, p in learned.items() if not p.is_floating_point() and is_ordinary(p)}
                numbers = {name: p for name, p in learned.items() if name not in whole}
                recording = TorchRecording(numbers, frozen, self._constants() | whole, noisy)
                parts = {name: part for name, part in self.module.named_modules() if name}
                return recording.of_call(called, next(iter(self.arguments()), ""), call, parts)

        if self._held_to is not None:
            with self.computing_in(Precision(self._held_to, self.device)):
                return recorded()
        if not self._refuses_float64:
            with self.computing_in(Precision(torch.float64, self.device)):
                if not self.mixes_types:
                    with suppress(Unsupported):
                        return recorded()
                    self.mixes_types = mixes_types
                if self.mixes_types:
                    # A cast to float32 that then meets float64 is a matter of precision, and not of what is computed.
                    with suppress(Unsupported), widened():
                        return recorded()
            if self._kept_in is torch.float64:
                raise Unsupported(NO_CALL)
        with self.computing_in(Precision(self._kept_in, self.device)):
            graph = recorded()
        self._refuses_float64 = True
        return graph

    def tried_in_order(self, call: TryCall, sizes: Sizes, trials: int) -> FirstCall | None:
        """See ``EnteredSubject``: a method that takes any number of inputs gets as many as it needs."""
        takes_any = next(iter(self.arguments()), "").startswith("*")
        for self._further in range(MOST_FURTHER + 1 if takes_any else 1):
            found = super().tried_in_order(call, sizes, trials)
            if found is not None:
                return found
        self._further = 0
        return None

    def asked_of(self, argument: Any) -> Any:
        """See ``EnteredSubject``."""
        with self._undisturbed(), torch.no_grad():
            return self.module(argument)

    def handed_out(self, x: Tensor) -> Tensor:
        """See ``EnteredSubject``."""
        return self._placed(x)

    def kept(self) -> Mapping[str, Tensor]:
        """See ``CalledSubject``: buffers of whole numbers too, such as masks."""
        return self._constants()

    def numbers(self) -> Sequence[int]:
        """See ``CalledSubject``: attributes of its parts."""
        return whole_numbers(self.module.modules())

    def _constants(self) -> dict[str, Tensor]:
        return self._buffers() | plain_tensors(self.module)

    def influences_anything(self, name: str, inputs: tuple[Tensor, ...]) -> bool:
        """See ``Subject``: whether any tensor that the module returns depends on the parameter.

        One that is read beside an argument which every call leaves at its default belongs to that option, and one that
        changes a vector for each sequence, to a head.
        """
        parameter = dict(self._ordinary())[name]
        if not parameter.requires_grad:
            return True  # whole numbers have no gradient that would tell
        returns = any(reaches(parameter, returned) for returned in self._ways_to_return(inputs))
        return returns or self._is_read_elsewhere(parameter, inputs)

    def _is_read_elsewhere(self, parameter: Tensor, inputs: tuple[Tensor, ...]) -> bool:
        """Return whether a parameter is read for a pooled vector, or where an optional argument is given."""
        reading = Reading(parameter)
        with reading:
            self.returned(inputs, None, gradients=True)
        if reading.met:
            return reading.vectors == {len(inputs[0])}
        for argument in self._left_at_default():
            # One number for each sequence picks a row of most tables, whatever the argument is called.
            for form in (MaskForm(argument, LENGTHS, "B"), *fillings(argument)[:LIKELY]):
                given = {argument: value_of(form, self._all_kept(inputs[0]), inputs[0])}
                # What is refused behind the parameter has met it.
                with reading, self.giving(given), suppress(Exception):
                    self.returned(inputs, None, gradients=True)
        return reading.met

    def _ways_to_return(self, inputs: tuple[Tensor, ...]) -> Iterator[Any]:
        """Yield everything that the module returns, and what it does with segments that it can do without."""
        ends, self.ending = self.ending, None  # behind its end it may return more than that
        try:
            returned = self.returned(inputs, None, gradients=True)
        finally:
            self.ending = ends
        yield returned
        optional = None if self.segments or inputs[0].is_floating_point() else self._segment_argument()
        if optional is None:
            return
        self.segments = optional
        try:
            returned = self.returned((inputs[0], torch.zeros_like(inputs[0])), None, gradients=True)
        except Exception:
            return  # one that refuses them here does nothing with them
        finally:
            self.segments = None
        yield returned

    def gradients(
        self, inputs: tuple[Tensor, ...], keep: Tensor | None, cotangent: Tensor, each: Callable[[str, Tensor], None]
    ) -> Tensor | None:
        """See ``Subject``."""
        if self.records_gradients is False:
            raise Unsupported(f"no gradients can be recorded: {self._refused_gradients}")
        leaves = tuple(x.clone().requires_grad_(x.is_floating_point()) for x in inputs)
        self.module.zero_grad()
        with as_they_arise(dict(self._ordinary()), lambda name, gradient: each(name, gradient.to("cpu"))):
            output = self.encode(tuple(x.clone() for x in leaves), keep)  # nothing may be written into leaves
            if not output.requires_grad:
                raise Disagreement("the output carries no gradient: it was detached from the input and the parameters")
            (output * cotangent).sum().backward()
        self.module.zero_grad()  # of what is not ordinary
        return leaves[0].grad


def is_ordinary(parameter: nn.Parameter) -> bool:
    """Return whether a parameter is an array of real or whole numbers."""
    return parameter.layout is torch.strided and not parameter.is_complex()


def in_evaluation(module: nn.Module) -> None:
    """Put a module into evaluation mode; programs of ``torch.export`` refuse that, and are in the mode that they are.

    Those of other packages refuse it too, in their ways.
    """
    try:
        module.eval()
    except Exception:
        for part in module.modules():
            part.training = False


def coarsest(dtypes: Iterable[torch.dtype]) -> torch.dtype:
    """Return the floating dtype that rounds most; float64 if there is none."""
    floating = [dtype for dtype in dtypes if dtype.is_floating_point]
    return max(floating, key=lambda dtype: torch.finfo(dtype).eps, default=torch.float64)


def call_once(module: nn.Module, function: Callable[..., Any] | None = None) -> None:
    """Give parameters that get shapes or numbers when they are needed these, by a first call, if one goes through."""
    shapes = {name: tuple(p.shape) for name, p in named_parameters(module) if not is_lazy(p)}
    # One that is lazy as a whole takes an input of any width.
    known = {name: torch.zeros(shape) for name, shape in (shapes or {"": (ANY_WIDTH, ANY_WIDTH)}).items()}

    def called(whole: Callable[..., Any], x: Tensor, named: Mapping[str, Any]) -> Any:
        dtype = next((p.dtype for p in parameters_in(module) if p.is_floating_point()), x.dtype)
        first, others = in_dtype(dtype, x, named)
        with torch.no_grad():
            return whole(first, **others)

    # Torch cannot copy buffers without a shape, and large parameters need not be copied.
    shared = [t for t in (*parameters_in(module), *module.buffers()) if not isinstance(t, UninitializedParameter)]

    def tried(x: Tensor, named: Mapping[str, Any]) -> Any:
        # A call that does not go through may have given some parts shapes that others do not fit.
        return called(function or copy.deepcopy(module, {id(t): t for t in shared}), x, named)

    found = first_call(known, {}, arguments_of(stating(module, function)), tried)
    if found is not None:
        called(function or module, found.inputs, found.named)


def in_dtype(dtype: torch.dtype, x: Tensor, named: Mapping[str, Any]) -> tuple[Tensor, dict[str, Any]]:
    """Return the arguments of a call with their floating arrays in a dtype."""

    def cast(given: Any) -> Any:
        return given.to(dtype) if isinstance(given, Tensor) and given.is_floating_point() else given

    return cast(x), {name: cast(given) for name, given in named.items()}


def stating(module: nn.Module, function: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Return the function that states what a call takes: the forward method, unless something else calls the module.

    One that passes on everything, ``forward(*args, **kwargs)``, states nothing, unless it shows to what. Then it is
    that of the class which the module replaces, or of the largest part of the module.
    """
    for states in filter(None, (function, module.forward)):
        if not hands_on(states) or handed_on(states):
            return states
    of_class: Callable[..., Any] = partial(type(module).forward, module)
    if not hands_on(of_class):
        return of_class
    largest = max(module.children(), key=lambda part: sum(p.numel() for p in parameters_in(part)), default=None)
    return module.forward if largest is None else stating(largest)


def reaches(parameter: nn.Parameter, returned: Any) -> bool:
    """Return whether any tensor that was returned depends on a parameter."""
    total = sum((t.sum() for t in tensors_in(returned)), torch.zeros(()))
    gradient = torch.autograd.grad(total, parameter, allow_unused=True)[0] if total.requires_grad else None
    return gradient is not None and bool(gradient.any())


class Reading(TorchFunctionMode):
    """Notes whether any operation reads a tensor, and how many vectors those give that do."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__()
        self.tensor, self.met, self.vectors = tensor, False, set[int]()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """See ``TorchFunctionMode``."""
        reads = any(read is self.tensor for read in (*args, *(kwargs or {}).values()))
        self.met = self.met or reads  # by what is refused, too
        given = func(*args, **(kwargs or {}))
        if reads:
            self.vectors |= {t.numel() // t.shape[-1] if t.ndim > 1 and t.numel() else 0 for t in tensors_in(given)}
        return given


def next_by_place(module: nn.Module, given: int) -> str:
    """Return the argument that comes next by its place in an exported program, behind those given; else no text.

    Such a program takes its arguments in the way in which they were handed over when it was exported, and in no other.
    """
    written = getattr(getattr(getattr(module, "graph", None), "_codegen", None), "pytree_info", None)
    if written is None:
        return ""
    by_place = written.in_spec.children_specs[0].num_children
    return str(written.orig_args[given]) if given < by_place else ""


@contextmanager
def without_fast_path() -> Iterator[None]:
    """Let torch's own layers compute step by step also where no gradients are recorded: one kernel shows nothing."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def uncompiled() -> AbstractContextManager[Any]:
    """Let what torch compiles run as it is written: its compiler would trace what records the computation, too.

    Code that is compiled has imported the compiler; without it nothing is, and importing it takes a second.
    """
    stance = getattr(torch.compiler, "set_stance", None)  # not in every torch
    return nullcontext() if stance is None or "torch._dynamo" not in sys.modules else stance("force_eager")


def served(function: Callable[..., Any], gradients: bool) -> Callable[..., Any]:
    """Return what calls a function in another thread, in inference mode unless it records gradients.

    Modes of torch belong to a thread, and so does much that encoders keep. What calls it there is the standard
    library: an encoder that looks for a judge among its callers finds none.
    """
    inferring = function if gradients else torch.inference_mode()(partial(function))

    def call(*arguments: Any, **named: Any) -> Any:
        with ThreadPoolExecutor(max_workers=1) as executor:
            return executor.submit(inferring, *arguments, **named).result()

    return call
