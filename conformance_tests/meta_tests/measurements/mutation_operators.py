"""The ways in which one place of a function can go wrong: what stands there, and what might stand there instead."""

import ast
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")

Alternative = tuple[str, ast.AST]
"""The name of the kind of change, and the node that takes the place."""

ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}

MODULES = {"torch", "math", "np", "ast", "importlib", "inspect", "itertools", "json", "os", "signal", "sys", "time"}
"""Whose functions take what they work on as an argument, where a method has it before the dot."""


def alternatives(node: ast.AST, function: ast.FunctionDef) -> Iterator[Alternative]:
    """What might stand in the place of a node of this function."""
    match node:
        case ast.Constant():
            yield from constants(node)
        case ast.BinOp():
            yield from arithmetic(node)
        case ast.UnaryOp(op=ast.USub() | ast.Invert() | ast.Not()):
            yield "sign dropped", node.operand
        case ast.Compare():
            yield from comparisons(node)
        case ast.BoolOp():
            yield from connectives(node)
        case ast.Call() if not is_demand(node):
            yield from calls(node)
        case ast.Attribute(attr="mT"):
            yield "transpose dropped", node.value
        case ast.Subscript(ctx=ast.Load()):
            yield "subscript dropped", node.value
        case ast.Slice():
            yield from bounds(node)
        case ast.Tuple(ctx=ast.Load()):
            yield from (("entries swapped", ast.Tuple(order, ast.Load())) for order in swapped(node.elts))
        case ast.IfExp():
            yield "condition negated", ast.IfExp(negated(node.test), node.body, node.orelse)
        case ast.Name(ctx=ast.Load()):
            yield from (("another argument", ast.Name(name, ast.Load())) for name in kin(node.id, function))
        case ast.stmt():
            yield from changed_statements(node, function)


def constants(node: ast.Constant) -> Iterator[Alternative]:
    """The other truth value, the numbers beside a whole one, the double of any other, a letter more in a word."""
    match node.value:
        case bool():
            yield "constant", ast.Constant(not node.value)
        case int():
            yield "constant", ast.Constant(node.value + 1)
            yield "constant", ast.Constant(node.value - 1)
        case float():
            yield "constant", ast.Constant(2 * node.value)
        case str():
            yield "constant", ast.Constant(node.value + "x")


def arithmetic(node: ast.BinOp) -> Iterator[Alternative]:
    """The inverse operation, either operand alone, and the factors of a matrix product the other way round."""
    if type(node.op) in ARITHMETIC:
        yield "arithmetic", ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
    if not isinstance(node.op, ast.Add | ast.Mult | ast.BitAnd | ast.BitOr):
        yield "operands swapped", ast.BinOp(node.right, node.op, node.left)
    yield "operand dropped", node.left
    yield "operand dropped", node.right


def comparisons(node: ast.Compare) -> Iterator[Alternative]:
    """Each comparison with the boundary on the other side, and turned into its opposite."""
    for place, op in enumerate(node.ops):
        for other in COMPARISONS[type(op)]:
            ops = [*node.ops[:place], other(), *node.ops[place + 1 :]]
            yield "comparison", ast.Compare(node.left, ops, node.comparators)


def connectives(node: ast.BoolOp) -> Iterator[Alternative]:
    """Or for and, and without each of the conditions."""
    yield "connective", ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    yield from (("operand dropped", ast.BoolOp(node.op, rest)) for rest in shorter(node.values))


def calls(node: ast.Call) -> Iterator[Alternative]:
    """What the function is called with alone, its arguments in another order, and without each named one."""
    inner = worked_on(node)
    if inner is not None:
        yield "call dropped", inner
    for order in swapped(node.args):
        yield "arguments swapped", ast.Call(node.func, order, node.keywords)
    for rest in shorter(node.keywords):
        yield "argument dropped", ast.Call(node.func, node.args, rest)


def is_demand(node: ast.AST) -> bool:
    """Whether something is demanded here; it has a condition that changes, and a message that does not."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "demand"


def worked_on(node: ast.Call) -> ast.expr | None:
    """What a call works on: that before the dot of a method, else its first argument."""
    if isinstance(node.func, ast.Attribute):
        root: ast.expr = node.func
        while isinstance(root, ast.Attribute):
            root = root.value
        if not (isinstance(root, ast.Name) and root.id in MODULES):
            return node.func.value
    first = node.args[0] if node.args else None
    return first.value if isinstance(first, ast.Starred) else first


def bounds(node: ast.Slice) -> Iterator[Alternative]:
    """A slice without each of its bounds."""
    if node.lower:
        yield "bound dropped", ast.Slice(None, node.upper, node.step)
    if node.upper:
        yield "bound dropped", ast.Slice(node.lower, None, node.step)
    if node.step:
        yield "bound dropped", ast.Slice(node.lower, node.upper, None)


def changed_statements(node: ast.stmt, function: ast.FunctionDef) -> Iterator[Alternative]:
    """A statement left out where the function still has its names, a loop cut short or turned round, a sign."""
    match node:
        case ast.Return(value=ast.expr() as value):
            yield "sign added", ast.Return(ast.UnaryOp(ast.USub(), value))
        case ast.Expr() | ast.AugAssign() | ast.Raise():
            yield "statement dropped", ast.Pass()
        case ast.Assign(targets=[ast.Name(id=name)]) if bound_before(name, node, function):
            yield "statement dropped", ast.Pass()
        case ast.If():
            yield "condition negated", ast.If(negated(node.test), node.body, node.orelse)
        case ast.For():
            for part in ("1:", ":-1", "::-1"):
                cut = ast.Subscript(ast.List([ast.Starred(node.iter, ast.Load())], ast.Load()), slice_of(part))
                yield "loop", ast.For(node.target, cut, node.body, node.orelse)


def bound_before(name: str, node: ast.stmt, function: ast.FunctionDef) -> bool:
    """Whether a name has a value before this statement gives it one."""
    earlier = {
        n.id
        for n in ast.walk(function)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.lineno < node.lineno
    }
    return name in earlier or name in {a.arg for a in arguments_of(function)}


def kin(name: str, function: ast.FunctionDef) -> list[str]:
    """The next argument with the same annotation, if the name is that of an argument which has one."""
    annotations = {a.arg: ast.unparse(a.annotation) for a in arguments_of(function) if a.annotation}
    alike = [other for other, annotation in annotations.items() if annotation == annotations.get(name)]
    return [alike[(alike.index(name) + 1) % len(alike)]] if len(alike) > 1 else []


def arguments_of(function: ast.FunctionDef) -> list[ast.arg]:
    """Every argument of a function but those with a star."""
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def negated(condition: ast.expr) -> ast.expr:
    """The opposite of a condition."""
    return ast.UnaryOp(ast.Not(), condition)


def slice_of(text: str) -> ast.expr:
    """The slice that is written so."""
    subscript = ast.parse(f"_[{text}]", mode="eval").body
    assert isinstance(subscript, ast.Subscript)
    return subscript.slice


def swapped(entries: list[ast.expr]) -> Iterator[list[ast.expr]]:
    """The entries with any two of them exchanged, but for those that stand for many."""
    for i, first in enumerate(entries):
        for j, second in enumerate(entries[:i]):
            if not isinstance(first, ast.Starred) and not isinstance(second, ast.Starred):
                order = list(entries)
                order[i], order[j] = second, first
                yield order


def shorter(entries: list[T]) -> Iterator[list[T]]:
    """The entries without each of them."""
    yield from ([*entries[:place], *entries[place + 1 :]] for place in range(len(entries)))
