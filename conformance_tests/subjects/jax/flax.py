"""Flax modules as subjects: those of nnx, and those of linen with their parameters."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import torch
from flax import linen, nnx
from flax.core import meta
from flax.traverse_util import flatten_dict, unflatten_dict
from torch import Tensor

from conformance_tests.errors import SubjectError
from conformance_tests.subjects.calling import REQUIRED, Arguments, apart_from_evaluation, arguments_of, input_by_name
from conformance_tests.subjects.first_call import FEW_TRIALS, first_call
from conformance_tests.subjects.holding import how_often_stated, whole_numbers
from conformance_tests.subjects.jax.documented import computes_in_one_pass
from conformance_tests.subjects.jax.subject import JaxSubject, as_tensors, in_float64, widened
from conformance_tests.subjects.numbered import telling_names
from conformance_tests.subjects.stated import heads_of_kernels, stated_by

Path = tuple[Any, ...]


class FlaxSubject(JaxSubject):
    """A module of nnx, a bound module of linen, or a module of linen beside its variables.

    It is called as a function of its parameters, so that nothing of it changes.

    Args:
        thing: the module.
        method: the name of the method that is called.
        given: arguments that each call gets.
    """

    def __init__(self, thing: Any, method: str = "__call__", given: Mapping[str, Any] | None = None) -> None:
        self.form = Nnx(thing, method) if isinstance(thing, nnx.Module) else Linen(*module_and_variables(thing), method)
        self._paths: dict[str, Path] = {}
        with in_float64():
            arrays = {path: as_tensors(widened(array)) for path, array in self.form.parameters().items()}
        self._paths = dict(
            zip(telling_names({path: array.shape for path, array in arrays.items()}), arrays, strict=True)
        )
        weights = dict(zip(self._paths, arrays.values(), strict=True))
        super().__init__(weights, stated_by(self.form.parts(), heads_of_kernels(weights)))
        # Parts of Linen exist only while they are called, and are noted then.
        self._in_one_pass = isinstance(self.form, Nnx) and any(map(computes_in_one_pass, self.form.parts().values()))
        stated, self._evaluation = apart_from_evaluation(arguments_of(self.form.function))
        if stated.get("rngs") is REQUIRED:
            self._evaluation["rngs"] = nnx.Rngs(0)
        self._evaluation = self.form.switched(self._evaluation | dict(given or {}))
        self._arguments = {n: default for n, default in stated.items() if n != "rngs" and n not in self._evaluation}

    def arguments(self) -> Arguments:
        """See ``CalledSubject``: without those that tell evaluation from training."""
        return self._arguments

    def numbers(self) -> Sequence[int]:
        """See ``CalledSubject``: attributes of the module and its parts."""
        return whole_numbers(self.form.parts().values())

    def evaluated(self, weights: Mapping[str, Any], positional: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """See ``JaxSubject``."""
        parameters = {self._paths[name]: w for name, w in weights.items()}
        if input_by_name(self.form.function):
            # Here, and not where the suite calls: there an input by name would have no gradient.
            positional, named = (), {**named, **dict(zip(self.arguments(), positional, strict=False))}
        return self.form.applied(parameters, positional, {**named, **self._evaluation})


class Nnx:
    """A module of nnx, taken apart into its structure, its parameters and the rest of its state."""

    def __init__(self, module: nnx.Module, method: str) -> None:
        self.module, self._method = module, method
        self.function = getattr(type(module), method).__get__(module)
        self._graph, self._parameters, self._rest = nnx.split(module, nnx.Param, ...)

    def parameters(self) -> dict[Path, Any]:
        """Return the parameters by path."""
        return {path: variable[...] for path, variable in nnx.to_flat_state(self._parameters)}

    def parts(self) -> dict[str, Any]:
        """Return the module and all its parts by name."""
        found = ((path, part) for path, part in nnx.iter_graph(self.module) if isinstance(part, nnx.Module))
        return {".".join(map(str, path)): part for path, part in found}

    def switched(self, evaluation: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments that switch a call to evaluation."""
        return dict(evaluation)

    def applied(self, parameters: Mapping[Path, Any], positional: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Call a copy of the module with these parameters, in float64 and in evaluation mode."""
        flat = [(path, v.replace(parameters[path])) for path, v in nnx.to_flat_state(self._parameters)]
        copy = nnx.merge(self._graph, nnx.from_flat_state(flat), jax.tree.map(widened, self._rest))
        copy.eval()
        for _, part in nnx.iter_graph(copy):
            if isinstance(part, nnx.Module) and is_told_a_type(part):
                part.dtype = None
        return getattr(copy, self._method)(*positional, **named)


class Linen:
    """A module of linen and its variables."""

    def __init__(self, module: linen.Module, variables: Mapping[str, Any], method: str) -> None:
        self.module, self._method = module, method
        self.function = getattr(type(module), method).__get__(self.module)
        variables = meta.unbox(variables if "params" in variables else {"params": variables})
        self._rest = {name: tree for name, tree in variables.items() if name != "params"}
        self._parameters: dict[Path, Any] = flatten_dict(variables["params"])

    def parameters(self) -> dict[Path, Any]:
        """Return the parameters by path."""
        return self._parameters

    def parts(self) -> dict[str, Any]:
        """Return the module alone: its parts exist only while it is called."""
        return {"": self.module}

    def switched(self, evaluation: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments that switch a call to evaluation; what the module states itself is switched there.

        A module refuses an argument that it was made with (``linen.merge_param``).
        """
        made_with = {name: value for name, value in evaluation.items() if getattr(self.module, name, None) is not None}
        if made_with:
            self.module = self.module.clone(**made_with)
        return {name: value for name, value in evaluation.items() if name not in made_with}

    def applied(self, parameters: Mapping[Path, Any], positional: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Call the module with these parameters."""
        rest = jax.tree.map(widened, self._rest)
        with linen.intercept_methods(self._in_float64):
            variables = {**rest, "params": unflatten_dict(dict(parameters))}
            # One that draws random numbers even in evaluation asks for them, and is told by what it computes.
            random = {"rngs": {"dropout": jax.random.PRNGKey(0)}, **named}
            return self.module.apply(variables, *positional, method=self._method, **random)

    def _in_float64(self, method: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
        """Call a method of a part, which casts to no type that it was told to compute in."""
        part = context.module
        if is_told_a_type(part):
            object.__setattr__(part, "dtype", None)  # a part is frozen, and made anew in every call
        return method(*args, **kwargs)


def module_and_variables(thing: Any) -> tuple[linen.Module, Mapping[str, Any]]:
    """Return a module of linen, unbound, and its variables: those of a first call, if it has none.

    Raises:
        SubjectError: if it has none, and no call that was tried goes through.
    """
    if isinstance(thing, list | tuple):
        if len(thing) == 2 and isinstance(thing[1], Mapping):
            return thing[0], thing[1]
    elif thing.scope is not None:
        module, variables = thing.unbind()
        return module, variables
    elif (variables := initialised(thing)) is not None:
        return thing, variables
    raise SubjectError(
        "a module of flax.linen holds no parameters, and no call was found that initialises it: give "
        "`module.bind(variables)`, or the pair (module, variables) with what `module.init` returned"
    )


def initialised(module: linen.Module) -> Mapping[str, Any] | None:
    """Return the variables of a module for a first call that goes through; None if none of those tried does.

    The width of vectors is a size that the module or its configuration states, if one of them can be called with. It is
    stated more often than other sizes, as that of the model and that of its queries; of those that are stated equally
    often the larger ones come first.
    """
    arguments, evaluation = apart_from_evaluation(arguments_of(module))
    first = next(iter(arguments), "")
    times = how_often_stated(module)
    sizes = sorted(times, key=lambda size: (times[size], size), reverse=True)
    stated = {str(size): torch.empty(size) for size in sizes if size > 1}
    keys = {name: jax.random.PRNGKey(0) for name in ("params", "dropout")}

    def array(value: Any) -> Any:
        return jax.numpy.asarray(value.numpy()) if isinstance(value, Tensor) else value

    def returned_and_variables(x: Tensor, named: Mapping[str, Any]) -> Any:
        given = {name: array(value) for name, value in named.items()}
        if input_by_name(module):  # a switch to evaluation stands before it
            return module.init_with_output(keys, **{first: array(x)}, **given, **evaluation)
        return module.init_with_output(keys, array(x), **given, **evaluation)

    def call(x: Tensor, named: Mapping[str, Any]) -> list[Tensor]:
        returned, _ = jax.eval_shape(lambda: returned_and_variables(x, named))
        # Shapes tell enough; all numbers are one where a mask hides everything, so these are not.
        return [torch.arange(leaf.size).reshape(leaf.shape).double() for leaf in jax.tree.leaves(returned)]

    found = first_call(stated, {}, arguments, call, trials=FEW_TRIALS, numbers=sizes)
    if found is None:
        return None
    _, variables = returned_and_variables(found.inputs, found.named)
    return variables  # type: ignore[no-any-return]


def is_told_a_type(part: Any) -> bool:
    """Return whether a layer of Flax itself casts to a type; what authors do with theirs may ask for the one given."""
    return type(part).__module__.startswith("flax.") and is_floating(getattr(part, "dtype", None))


def is_floating(dtype: Any) -> bool:
    """Return whether a type is a floating type of JAX."""
    return dtype is not None and jax.numpy.issubdtype(dtype, jax.numpy.floating)
